"""Which networks take other widths."""

from __future__ import annotations

from gramian.errors import GramianError
from gramian.networks.draft import Draft
from gramian.networks.moves.resize_axes import Axes
from gramian.networks.moves.stream import require_closed, require_readers
from gramian.networks.structures import structures_of

_ZERO = 1e-5
"""Largest mean over features of what is written, over its largest entry, that counts as none."""


def require_whole(draft: Draft) -> None:
    """Raise unless all matrices of the network are dense and in one piece."""
    plan = draft.blueprint
    matrices = [reader.matrix for reader in plan.stream_readers()]
    matrices += [writer.matrix for writer in plan.stream_writers()]
    experts = next((matrix.weight for matrix in matrices if matrix.is_experts), None)
    if experts is not None:
        raise GramianError(
            f"Resize: {experts} of this {plan.model_type} network holds the experts of a layer; "
            "widths change in dense networks only. Its depth can change"
        )
    if structures_of(draft.config):
        raise GramianError("Resize: this network has linears stored in parts; resize before that")


def require_stream(draft: Draft, axes: Axes) -> None:
    """Raise unless the stream can have another width.

    Raises
    ------
    GramianError : something else writes it or it is the output, norms on it (post-LN), zero
        features under a LayerNorm whose mean they would move.
    """
    plan = draft.blueprint
    require_closed(draft, "Resize")
    require_readers(draft, "Resize")
    stuck = next((n.name for n in plan.stream_norms() if n.place == "stream"), None)
    if stuck is not None:
        raise GramianError(
            f"Resize: norm {stuck!r} of this {plan.model_type} network normalises the stream "
            "itself; its width cannot change"
        )
    axis = axes.stream()
    padded = bool((axis.index < 0).any())
    if padded and any(n.kind == "layer" for n in plan.stream_norms()):
        _require_centred(draft)
    if plan.tied and axes.stream("final").rest is not None:
        raise GramianError("Resize: a tied head has no columns of its own to make up for others")


def require_heads(draft: Draft, axes: Axes) -> None:
    """Raise unless every new head has the key of its old one, and heads can change at all."""
    plan = draft.blueprint
    if getattr(draft.config, "alibi", False):
        raise GramianError(
            f"Resize: the heads of this {plan.model_type} network attend by their number (ALiBi); "
            "they cannot change"
        )
    for layer in range(axes.depth):
        shape, queries, keys = axes.heads(layer), axes.queries[layer], axes.keys[layer]
        group, left = divmod(len(queries), len(keys))
        if left:
            raise GramianError(
                f"Resize: {len(queries)} query heads do not divide by {len(keys)} key heads"
            )
        if any(q // shape.group != keys[i // group] for i, q in enumerate(queries)):
            raise GramianError(
                f"Resize: the query heads {list(queries)} of layer {layer} are not those of the "
                f"key heads {list(keys)}, each of which {shape.group} share"
            )
        z, shared = axes.z(layer), axes.shared(layer)
        assert z is not None
        for norm in plan.layers[layer].inner_norms.values():
            wide = draft.empty.get_parameter(norm.weight).numel() > shape.width
            if wide and not (z.uniform and shared.uniform):
                raise GramianError(
                    f"Resize: norm {norm.name!r} of this {plan.model_type} network is over all "
                    "heads, so they can only be repeated equally often"
                )


def _require_centred(draft: Draft) -> None:
    names = list(draft.blueprint.embeddings)
    tables = [draft.tensor(name) for name in names]
    for writer in draft.blueprint.stream_writers():
        names.append(writer.matrix.weight)
        weight = draft.tensor(writer.matrix.weight)
        tables.append(weight if writer.matrix.inputs_first else weight.transpose(-1, -2))
    for name, table in zip(names, tables, strict=True):
        if float(table.mean(-1).abs().max()) > _ZERO * float(table.abs().max()):
            raise GramianError(
                f"Resize: zero features move the mean that LayerNorm subtracts, unless that mean "
                f"is zero, and {name} writes another; put CentreWriters() before this move"
            )
