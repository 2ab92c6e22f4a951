"""Keeping some of the features between the matrices of a branch: what reads and writes them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.maps import Affine, LinearMap
from gramian.networks.blueprint import Matrix
from gramian.networks.checkpoint import state
from gramian.networks.draft import Draft, Lazy
from gramian.networks.moves.weights import applied, checked_map, parts
from gramian.networks.structures import structures_of

Kept = tuple[tuple[int, ...], ...]
"""For every layer the indices that stay, ascending."""
Changed = dict[str, tuple[Lazy, tuple[int, ...]]]
"""Tensors that are made anew, and their shapes, which are known before they are."""


def checked_selection(kept: Any, writers: Any, what: str) -> None:
    """Raise unless there are ascending indices, equally many for every layer, and a map for each.

    Layers of other numbers would need a configuration that counts them one by one.
    """
    shaped = isinstance(kept, tuple) and bool(kept) and all(isinstance(own, tuple) for own in kept)
    if not shaped or not all(type(i) is int for own in kept for i in own):
        raise GramianError(f"{what}: expected a tuple of indices for every layer")
    if any(not own or min(own) < 0 or list(own) != sorted(set(own)) for own in kept):
        raise GramianError(f"{what}: indices count from 0, ascending, each once, at least one")
    counts = sorted({len(own) for own in kept})
    if len(counts) > 1:
        raise GramianError(
            f"{what}: layers keep between {counts[0]} and {counts[-1]}; an ordinary configuration "
            "has one number for all of them, keep equally many"
        )
    if not isinstance(writers, tuple) or len(writers) != len(kept):
        raise GramianError(f"{what}: expected one map for each of the {len(kept)} layers")
    for map in writers:
        checked_map(map, what)


def require_layers(draft: Draft, kept: Kept, what: str) -> None:
    """Raise unless there is a selection for every layer of the network."""
    if len(kept) != draft.blueprint.depth:
        raise GramianError(
            f"{what} is for {len(kept)} layers and this network has {draft.blueprint.depth}; "
            "select in every layer, since the configuration has one number for all"
        )


def require_below(indices: tuple[int, ...], count: int, place: str) -> None:
    """Raise unless all indices are among ``count``."""
    if indices[-1] >= count:
        raise GramianError(f"{place} has 0 to {count - 1} and not {indices[-1]}")


def require_whole(draft: Draft, matrix: Matrix, what: str) -> None:
    """Raise for experts, and for a matrix that is stored as two factors."""
    if matrix.is_experts:
        raise GramianError(
            f"{what}: {matrix.weight} holds all experts of a layer, which this move does not narrow"
        )
    if matrix.weight.removesuffix(".weight") in structures_of(draft.config):
        raise GramianError(f"{what}: {matrix.weight} is stored as two factors; select before that")


def outputs_kept(draft: Draft, matrix: Matrix, rows: Tensor) -> Changed:
    """The tensors of a matrix that gives only these of its outputs, in this order."""
    weight, count = draft.tensors[matrix.weight], len(rows)
    inputs = inputs_outputs(draft, matrix)[0]
    axis, shape = (1, (inputs, count)) if matrix.inputs_first else (0, (count, inputs))
    found: Changed = {matrix.weight: (lambda: _taken(weight(), axis, rows), shape)}
    if matrix.bias in draft.tensors:
        bias = draft.tensors[matrix.bias]
        found[matrix.bias] = (lambda: _taken(bias(), 0, rows), (count,))
    return found


def inputs_outputs(draft: Draft, matrix: Matrix) -> tuple[int, int]:
    """How many features a matrix takes and gives."""
    first, second = draft.empty.get_parameter(matrix.weight).shape
    return (int(first), int(second)) if matrix.inputs_first else (int(second), int(first))


def rewritten_writer(draft: Draft, matrix: Matrix, map: LinearMap) -> Changed:
    """The tensors of a matrix whose weight, and for an affine map whose bias, is now the map's.

    Raises
    ------
    GramianError : the map gives another width, or has a constant and the matrix has no bias.
    """
    width = inputs_outputs(draft, matrix)[1]
    if map.out_features != width:
        raise GramianError(f"{matrix.weight} writes {width} features, its new map {map!r} does not")
    linear, constant = parts(map)
    old = draft.tensors[matrix.weight]
    shape = (map.in_features, width) if matrix.inputs_first else (width, map.in_features)

    def weight() -> Tensor:
        return _stored(linear.to_dense(torch.float64), matrix, old())

    found: Changed = {matrix.weight: (weight, shape)}
    if matrix.bias in draft.tensors:
        if isinstance(map, Affine):
            bias = draft.tensors[matrix.bias]
            found[matrix.bias] = (lambda: map.bias.to(bias()).clone(), (width,))
    elif constant is not None:
        raise GramianError(
            f"the new map for {matrix.weight} has a constant, which has no bias slot; fit it "
            "without an intercept"
        )
    return found


def resized(draft: Draft, changed: Changed, **config: Any) -> Draft:
    """The draft with these tensors and configuration values.

    Raises
    ------
    GramianError : the architecture has no network of that configuration, or one in which other
        tensors have other shapes too.
    """
    kind = draft.blueprint.model_type
    config = {key: value for key, value in config.items() if _differs(draft.config, key, value)}
    wanted = ", ".join(f"{key} = {value}" for key, value in config.items())
    try:
        new = draft.with_tensors({name: make for name, (make, _) in changed.items()}, **config)
        validate = getattr(new.config, "validate", None)
        if validate is not None:
            validate()
    except (ValueError, ZeroDivisionError, StrictDataclassError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise GramianError(f"a {kind} network cannot have {wanted}: {reason}") from error
    before = {name: tuple(tensor.shape) for name, tensor in state(draft.empty).items()}
    shapes = before | {name: shape for name, (_, shape) in changed.items()}
    for name, tensor in state(new.empty).items():
        if tuple(tensor.shape) != shapes.get(name):
            raise GramianError(
                f"a {kind} network with {wanted} has {name} of shape {tuple(tensor.shape)}, where "
                f"{shapes.get(name)} is needed: its sizes are tied to others, and cannot change "
                "alone"
            )
    return new


def write_from(
    model: nn.Module, matrix: Matrix, columns: Tensor, map: LinearMap, stack: ExitStack
) -> None:
    """Until the stack closes, the module of ``matrix`` gives the map of these of its inputs, with
    its own bias where the map has none."""
    module = model.get_submodule(matrix.weight.rpartition(".")[0])

    def write(_module: nn.Module, args: tuple[Tensor, ...], _output: Any) -> Tensor:
        given = args[0].index_select(-1, columns.to(args[0].device))
        written = applied(map, given)
        bias: Any = getattr(module, "bias", None)
        return written if bias is None or isinstance(map, Affine) else written + bias

    stack.callback(module.register_forward_hook(write).remove)


def _taken(tensor: Tensor, axis: int, indices: Tensor) -> Tensor:
    return tensor.index_select(axis, indices.to(tensor.device)).contiguous()


def _differs(config: Any, key: str, value: Any) -> bool:
    """A value that holds already need not be stated (``head_dim`` where it is given)."""
    return bool(getattr(config, key, None) != value)


def _stored(weight: Tensor, matrix: Matrix, like: Tensor) -> Tensor:
    """A weight (out, in) the way round, in the dtype and where the matrix has it."""
    return (weight.T if matrix.inputs_first else weight).to(like).contiguous()
