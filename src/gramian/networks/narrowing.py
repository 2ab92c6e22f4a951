"""Which widths an architecture takes, and what its tensors measure at another width."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from gramian.errors import GramianError
from gramian.networks.blueprint import Matrix
from gramian.networks.checkpoint import state
from gramian.networks.draft import Draft

Shape = tuple[int, ...]


def narrowed_config(draft: Draft, width: int) -> dict[str, Any]:
    """The configuration entries of the same network with another width of its stream.

    Raises
    ------
    GramianError : the configuration has no entry for it, or refuses this width.
    """
    config, plan = draft.config, draft.blueprint
    if getattr(config, "hidden_size", None) != plan.width:
        raise GramianError(
            f"the configuration of this {plan.model_type} network does not say its width "
            f"({plan.width}) as hidden_size; its stream cannot be narrowed"
        )
    values: dict[str, Any] = {"hidden_size": width}
    heads = getattr(config, "num_attention_heads", None)
    if isinstance(getattr(type(config), "head_dim", None), property):
        raise GramianError(
            f"the stream of a {plan.model_type} network cannot be narrowed in an ordinary "
            "checkpoint: its configuration has no entry for the size of a head, so that its "
            "architecture ties the width of attention to that of the stream"
        )
    if heads:
        explicit = getattr(config, "head_dim", None)
        values["head_dim"] = int(explicit or plan.width // heads)
    reason = refusal(config, values)
    if reason:
        raise GramianError(
            f"a {plan.model_type} network of width {width} is not one that its configuration "
            f"takes: {reason}"
        )
    return values


def refusal(config: Any, values: Mapping[str, Any]) -> str:
    """Why a configuration cannot have these values; empty where it can."""
    new = copy.deepcopy(config)
    try:
        for key, value in values.items():
            setattr(new, key, value)
        type(new).from_dict(new.to_dict())
    except Exception as error:  # what validates differs between versions and families
        return str(error).strip().splitlines()[-1].strip()
    return ""


def width_step(draft: Draft) -> int:
    """The number that every width has to be a multiple of: of heads where the configuration
    insists on that (Llama), else 1."""
    heads = int(getattr(draft.config, "num_attention_heads", None) or 1)
    if heads == 1 or draft.blueprint.width % heads:
        return 1
    try:
        narrowed_config(draft, draft.blueprint.width - 1)
    except GramianError:
        return heads
    return 1


def narrowed_shapes(draft: Draft, width: int) -> dict[str, Shape]:
    """Tensor -> its shape once the stream has this width."""
    plan = draft.blueprint
    shapes: dict[str, Shape] = {
        name: tuple(tensor.shape) for name, tensor in state(draft.empty).items()
    }

    def put(name: str | None, axis: int) -> None:
        if name in shapes:
            old = list(shapes[name])
            old[axis] = width
            shapes[name] = tuple(old)

    for name in plan.embeddings:
        put(name, -1)
    for reader in plan.stream_readers():
        put(reader.matrix.weight, _inputs(reader.matrix))
    for writer in plan.stream_writers():
        put(writer.matrix.weight, -3 - _inputs(writer.matrix))
        put(writer.matrix.bias, -1)
    for norm in plan.stream_norms():
        put(norm.weight, -1)
        put(norm.bias, -1)
    return shapes


def narrowed(draft: Draft, width: int) -> Draft:
    """The network of another width on paper, with the tensors as they were.

    Raises
    ------
    GramianError : the configuration has no entry for the width or refuses this one, or the
        architecture ties something else to it, such as the width of attention.
    """
    values = narrowed_config(draft, width)
    kind = draft.blueprint.model_type
    try:
        after = draft.with_tensors({}, **values)
    except (ValueError, RuntimeError, AssertionError, AttributeError, TypeError) as error:
        raise GramianError(
            f"transformers cannot build a {kind} network of width {width}: "
            f"{str(error).strip().splitlines()[-1]}"
        ) from error
    made = {name: tuple(tensor.shape) for name, tensor in state(after.empty).items()}
    for name, shape in narrowed_shapes(draft, width).items():
        if made.get(name) != shape:
            raise GramianError(
                f"the stream of a {kind} network cannot be narrowed in an ordinary checkpoint: "
                f"{name} would have to be {_times(shape)}, and a {kind} network of width {width} "
                f"has {_times(made.get(name, ()))} there, since its architecture ties the width "
                "of attention to that of the stream"
            )
    return after


def embedding_scale(draft: Draft) -> float:
    """What the token table's rows are multiplied by before they are added (Gemma), else 1."""
    module = draft.empty.get_submodule(draft.blueprint.embeddings[0].removesuffix(".weight"))
    return float(getattr(module, "scalar_embed_scale", 1.0))


def _inputs(matrix: Matrix) -> int:
    return -2 if matrix.inputs_first else -1


def _times(shape: Shape) -> str:
    return " x ".join(map(str, shape)) or "nothing"
