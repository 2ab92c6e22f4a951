"""The tensors of a network with other widths."""

from __future__ import annotations

import torch
from torch import Tensor

from gramian.networks.attention_heads import attention_heads
from gramian.networks.blueprint import Matrix, Norm
from gramian.networks.draft import Draft, Lazy
from gramian.networks.moves.axis import Axis
from gramian.networks.moves.fold_norm import gain_of
from gramian.networks.moves.resize_axes import Axes
from gramian.networks.moves.selecting import Changed, inputs_outputs
from gramian.networks.moves.stream import is_tied_head
from gramian.networks.narrowing import embedding_scale


def resized_tensors(draft: Draft, axes: Axes) -> Changed:
    """Every tensor that changes, and its shape."""
    changed: Changed = {}
    for layer in range(axes.depth):
        changed |= _layer(draft, axes, layer)
    if axes.chosen:
        changed |= _around(draft, axes, _embedding_ratio(draft, len(axes.chosen)))
    return changed


def _embedding_ratio(draft: Draft, width: int) -> float:
    """What a token table is multiplied with where its rows are scaled by ``sqrt(width)`` (Gemma),
    so that they stay what they are."""
    scaled = embedding_scale(draft) != 1.0
    return (draft.blueprint.width / width) ** 0.5 if scaled else 1.0


def _layer(draft: Draft, axes: Axes, layer: int) -> Changed:
    plan = draft.blueprint
    changed: Changed = {}
    prefix = f"{plan.main.prefix}{layer}"
    for reader in plan.readers(layer):
        outputs = (
            axes.attention_outputs(layer, reader.matrix)
            if reader.site == f"{prefix}.attn_in"
            else axes.mlp_outputs(layer, inputs_outputs(draft, reader.matrix)[1])
        )
        inputs = axes.stream(reader.site) if axes.chosen else None
        direct = axes.chosen and reader.norm is None
        undone = 1 / axes.written if direct else 1.0
        changed |= _matrix(draft, reader.matrix, outputs, inputs, inward=undone)
    for writer in plan.writers(layer):
        inputs = axes.z(layer) if writer.site == f"{prefix}.attn_out" else axes.mlp(layer)
        outputs = axes.stream() if axes.chosen else None
        scale = axes.written if axes.chosen else 1.0
        changed |= _matrix(draft, writer.matrix, outputs, inputs, outward=scale)
    if axes.queries:
        for norm, axis in zip(("q", "k"), (axes.z(layer), axes.shared(layer)), strict=True):
            changed |= _inner_norm(draft, layer, norm, axis)
    return changed


def _around(draft: Draft, axes: Axes, ratio: float) -> Changed:
    """Embeddings, head, and the norms of the stream."""
    plan, axis = draft.blueprint, axes.stream()
    changed: Changed = {}
    table_scale = ratio * axes.written
    for name in plan.embeddings:
        table = draft.tensors[name]
        shape = (*draft.empty.get_parameter(name).shape[:-1], len(axis.index))
        changed[name] = _scaled(_taken(axis, table), table_scale), shape
    head = plan.head
    assert head is not None
    tied = is_tied_head(draft, head)
    if not tied:
        changed |= _matrix(draft, head, None, axes.stream("final"))
    for norm in plan.stream_norms():
        final = tied and norm is plan.main.final_norm
        last = axes.stream("final").share / table_scale if final else None
        factor = axes.gain(norm, norm.name)
        changed[norm.weight] = (
            _gain(norm, draft.tensors[norm.weight], axis, factor, last),
            (len(axis.index),),
        )
        if norm.bias is not None and norm.bias in draft.tensors:
            changed[norm.bias] = (
                _scaled(_taken(axis, draft.tensors[norm.bias]), last),
                (len(axis.index),),
            )
    return changed


def _matrix(
    draft: Draft,
    matrix: Matrix,
    outputs: Axis | None,
    inputs: Axis | None,
    *,
    outward: float = 1.0,
    inward: float = 1.0,
) -> Changed:
    """A matrix that gives and takes other features, at other scales."""
    if outputs is None and inputs is None:
        return {}
    weight, last = draft.tensors[matrix.weight], matrix.inputs_first
    taken, given = inputs_outputs(draft, matrix)
    taken = taken if inputs is None else len(inputs.index)
    given = given if outputs is None else len(outputs.index)

    def made() -> Tensor:
        new = weight()
        if inputs is not None:
            new = inputs.read(new, -2 if last else -1)
        if outputs is not None:
            new = outputs.take(new, -1 if last else -2)
        return new.contiguous()

    shape = (taken, given) if last else (given, taken)
    changed: Changed = {matrix.weight: (_scaled(made, outward * inward), shape)}
    if outputs is not None and matrix.bias in draft.tensors:
        bias = _taken(outputs, draft.tensors[matrix.bias])
        changed[matrix.bias] = _scaled(bias, outward), (given,)
    return changed


def _inner_norm(draft: Draft, layer: int, of: str, axis: Axis | None) -> Changed:
    """A norm over all heads of q or k has a gain for every feature; one over a head keeps its."""
    changed: Changed = {}
    head = attention_heads(draft.blueprint, draft.config, layer).width
    for short, norm in draft.blueprint.layers[layer].inner_norms.items():
        if not short.startswith(of) or axis is None or axis.size == head:
            continue
        for name in filter(None, (norm.weight, norm.bias)):
            if name in draft.tensors and draft.empty.get_parameter(name).numel() == axis.size:
                changed[name] = _taken(axis, draft.tensors[name]), (len(axis.index),)
    return changed


def resized_gain(
    norm: Norm, stored: Tensor, axis: Axis, factor: float, last: Tensor | None = None
) -> Tensor:
    """The stored gain of a norm at the new width; ``last`` multiplies what it gives."""
    few = stored.index_select(0, axis.columns.to(stored.device))
    if factor == 1.0 and last is None:
        return few
    gain = gain_of(norm, few) * factor
    if last is not None:
        gain = gain * last.to(gain.device)
    return (gain - 1 if norm.kind == "rms1p" else gain).to(stored.dtype)


def _gain(norm: Norm, old: Lazy, axis: Axis, factor: float, last: Tensor | None) -> Lazy:
    return lambda: resized_gain(norm, old(), axis, factor, last)


def _taken(axis: Axis, old: Lazy) -> Lazy:
    return lambda: axis.take(old()).contiguous()


def _scaled(old: Lazy, factor: float | Tensor | None) -> Lazy:
    if factor is None or (isinstance(factor, float) and factor == 1.0):
        return old

    def scaled() -> Tensor:
        value = old()
        by = torch.as_tensor(factor, dtype=torch.float64).to(value.device)
        return (value.double() * by).to(value.dtype)

    return scaled
