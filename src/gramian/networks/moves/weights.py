"""Folding a map into the outputs or the inputs of one matrix, biases included."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, LinearMap
from gramian.networks.blueprint import Matrix
from gramian.networks.draft import Draft, Lazy


def parts(map: LinearMap) -> tuple[LinearMap, Tensor | None]:
    """The linear part and the constant of a map; None where there is no constant."""
    if not isinstance(map, Affine):
        return map, None
    return map.map, map.bias if bool(map.bias.count_nonzero()) else None


def checked_map(value: Any, what: str) -> None:
    """Raise unless ``value`` is a map of finite numbers."""
    if not isinstance(value, LinearMap):
        raise GramianError(
            f"{what} takes a map and got a {type(value).__name__}; wrap a weight of shape "
            "(out, in) as Dense(weight)"
        )
    for name, tensor in value.tensors().items():
        if not bool(tensor.isfinite().all()):
            raise GramianError(
                f"the map for {what} is not finite in {name!r}; solve it again on rows without NaN "
                "or infinity"
            )


def require_square(map: LinearMap, width: int, place: str) -> None:
    """Raise unless the map takes and gives ``width`` features."""
    if (map.in_features, map.out_features) != (width, width):
        raise GramianError(
            f"the map for {place} is {map.out_features} x {map.in_features}, "
            f"expected {width} x {width}"
        )


def applied(map: LinearMap, value: Tensor) -> Tensor:
    """The map on the last axis, computed in float64, in the dtype of ``value``."""
    moved = map.to(dtype=torch.float64, device=value.device)(value.double())
    return moved.to(value.dtype)


def fold_outputs(draft: Draft, matrix: Matrix, map: LinearMap, place: str) -> Draft:
    """``W <- M W``, ``b <- M b + c``.

    Raises
    ------
    GramianError : the map has a constant and the matrix neither has a bias nor can be given one.
    """
    linear, constant = parts(map)
    out = draft.giving(matrix)
    old = draft.tensors[out.weight]
    changed: dict[str, Lazy] = {out.weight: lambda: _on_outputs(out, old(), linear)}
    if constant is None:
        if out.bias in draft.tensors:
            old_bias = draft.tensors[out.bias]
            changed[out.bias] = lambda: applied(linear, old_bias())
        return draft.with_tensors(changed)
    if matrix.is_experts:
        raise GramianError(
            f"the map for {place} has a constant, and {matrix.weight} has no bias slot for it: the "
            "router weighs what experts give; fold the linear part alone (map.map)"
        )
    opened = with_bias(draft, matrix, place)
    zero_or_old = opened.tensors[out.bias]
    changed[out.bias] = lambda: applied(Affine(linear, constant), zero_or_old())
    return opened.with_tensors(changed)


def fold_inputs(draft: Draft, matrix: Matrix, map: LinearMap, place: str) -> Draft:
    """``W <- W M``, ``b <- b + W c``.

    Raises
    ------
    GramianError : the map has a constant and the matrix neither has a bias nor can be given one.
    """
    linear, constant = parts(map)
    into = draft.taking(matrix)
    weight = draft.tensors[into.weight]
    opened = draft
    changed: dict[str, Lazy] = {into.weight: lambda: _on_inputs(into, weight(), linear)}
    if constant is not None:
        opened = with_bias(draft, matrix, place)
        shifted = plus_image(opened, matrix, lambda: constant)
        changed[draft.giving(matrix).bias] = shifted
    return opened.with_tensors(changed)


def plus_image(draft: Draft, matrix: Matrix, shift: Lazy) -> Lazy:
    """``b + W shift``: the bias of a matrix whose inputs are all moved by ``shift``."""
    into, out = draft.taking(matrix), draft.giving(matrix)
    first, last, bias = (draft.tensors[name] for name in (into.weight, out.weight, out.bias))

    def moved() -> Tensor:
        old, weight = bias(), first().double()
        # c Wᵀ for the two axes of a plain weight, and for every expert of a fused one.
        image = shift().to(weight) @ (weight if into.inputs_first else weight.transpose(-1, -2))
        if out.weight != into.weight:
            image = image @ last().double().T
        return (old.double() + image).to(old.dtype)

    return moved


def with_bias(draft: Draft, matrix: Matrix, place: str) -> Draft:
    """The draft in which ``matrix`` has a bias: its own, or zeros in a slot that the
    configuration opens (for its siblings too)."""
    if draft.giving(matrix).bias in draft.tensors:
        return draft
    flag = matrix.bias_flag
    if flag is None:
        raise GramianError(
            f"the map for {place} has a constant, but {matrix.weight} of a "
            f"{draft.blueprint.model_type} network has no bias slot; fold the linear part alone "
            "(map.map) or apply the map by a hook"
        )
    slots = {
        draft.giving(sibling).bias: _zeros_for(draft.tensors[draft.giving(sibling).weight])
        for sibling in draft.blueprint.matrices_with_flag(flag)
        if draft.giving(sibling).bias not in draft.tensors
    }
    return draft.with_tensors(slots, **{flag: True})


def _on_outputs(matrix: Matrix, weight: Tensor, linear: LinearMap) -> Tensor:
    """Turn the weight so that outputs come last, map them, turn it back."""
    if matrix.inputs_first:
        return applied(linear, weight).contiguous()
    return applied(linear, weight.transpose(-1, -2)).transpose(-1, -2).contiguous()


def _on_inputs(matrix: Matrix, weight: Tensor, linear: LinearMap) -> Tensor:
    """``W M``: the transposed map on the axis of the inputs."""
    if matrix.inputs_first:
        return applied(linear.T, weight.transpose(-1, -2)).transpose(-1, -2).contiguous()
    return applied(linear.T, weight).contiguous()


def _zeros_for(weight: Lazy) -> Lazy:
    return lambda: weight().new_zeros(weight().shape[0])
