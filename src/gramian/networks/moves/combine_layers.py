"""Put one block in the place of several: its tensors are a weighted sum of theirs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.networks.blueprint import Blueprint
from gramian.networks.draft import Draft, Lazy
from gramian.networks.moves.drop_layers import DropLayers, checked_layers, skip_layers
from gramian.networks.moves.protocol import LAYERS, MATRICES, READERS, STREAM


@dataclass(frozen=True)
class CombineLayers:
    """Combine blocks of the same kind into the first of them and remove the others.

    Every tensor of the first becomes ``sum_k shares[k] * tensor of layers[k]``. Where all that
    the others add is to be kept, in first order, the shares are ``1 - K, 1, ..., 1``.
    """

    layers: tuple[int, ...]
    shares: tuple[float, ...]
    kind: ClassVar[str] = "combine_layers"
    # Hooks set later find the combined tensors in the block itself.
    changes: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset({LAYERS, STREAM, READERS, MATRICES})

    def __post_init__(self) -> None:
        checked_layers(self.layers, "CombineLayers")
        if len(self.layers) < 2 or len(set(self.layers)) < len(self.layers):
            raise GramianError(
                f"CombineLayers({self.layers}): expected two or more different layers"
            )
        if len(self.shares) != len(self.layers) or not all(map(math.isfinite, self.shares)):
            raise GramianError(
                f"CombineLayers: shares are {self.shares}, expected {len(self.layers)} finite "
                "numbers, one for each layer"
            )

    def rewrite(self, draft: Draft) -> Draft:
        names = self._names(draft)
        changed: dict[str, Lazy] = {}
        for name, others in names.items():
            old = [draft.tensors[other] for other in others]
            changed[name] = lambda old=old: combined([make() for make in old], self.shares)  # type: ignore[misc]
        return DropLayers(self.layers[1:]).rewrite(draft.with_tensors(changed))

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        for name, others in self._names(draft).items():
            parameters = [model.get_parameter(draft.name_at_start(other)) for other in others]
            _swapped(
                model.get_parameter(draft.name_at_start(name)),
                combined([parameter.data for parameter in parameters], self.shares),
                stack,
            )
        gone = [source.layers[draft.origin[i]].path for i in self.layers[1:]]
        skip_layers(model, gone, stack)

    def describe(self) -> str:
        parts = (f"{s:+g} x {i}" for i, s in zip(self.layers, self.shares, strict=True))
        return f"combine layers into layer {self.layers[0]}: {' '.join(parts)}"

    def _names(self, draft: Draft) -> dict[str, list[str]]:
        """Every tensor of the first layer, with those of all layers that it is made of."""
        depth = draft.blueprint.depth
        if not set(self.layers) <= set(range(depth)):
            raise GramianError(
                f"cannot combine layers {list(self.layers)} of a network with layers 0 to "
                f"{depth - 1}"
            )
        prefix = draft.blueprint.layers_path
        inside = [
            {
                name.removeprefix(f"{prefix}.{layer}.")
                for name in draft.tensors
                if name.startswith(f"{prefix}.{layer}.")
            }
            for layer in self.layers
        ]
        shapes = dict(draft.empty.named_parameters())
        whole = set(draft.empty.state_dict())
        split = [n for n in inside[0] if f"{prefix}.{self.layers[0]}.{n}" not in whole]
        if split:
            raise GramianError(
                f"layer {self.layers[0]} has a linear that is stored in parts ({min(split)}); "
                "combine layers before linears are split"
            )
        for layer, names in zip(self.layers, inside, strict=True):
            odd = sorted(names ^ inside[0]) or sorted(
                name
                for name in names
                if _shape(shapes, f"{prefix}.{layer}.{name}")
                != _shape(shapes, f"{prefix}.{self.layers[0]}.{name}")
            )
            if odd:
                raise GramianError(
                    f"layers {self.layers[0]} and {layer} of this {draft.blueprint.model_type} "
                    f"network are not of one kind ({odd[0]} differs) and cannot be combined"
                )
        return {
            f"{prefix}.{self.layers[0]}.{name}": [f"{prefix}.{i}.{name}" for i in self.layers]
            for name in sorted(inside[0])
            if f"{prefix}.{self.layers[0]}.{name}" in shapes
        }


def combined(tensors: Sequence[Tensor], shares: Sequence[float]) -> Tensor:
    """``sum_k shares[k] tensors[k]`` in float64, in the dtype of the first."""
    total = torch.zeros_like(tensors[0], dtype=torch.float64)
    for tensor, share in zip(tensors, shares, strict=True):
        total += share * tensor.to(total)
    return total.to(tensors[0].dtype)


def _shape(shapes: dict[str, Any], name: str) -> tuple[int, ...] | None:
    return tuple(shapes[name].shape) if name in shapes else None


def _swapped(parameter: nn.Parameter, value: Tensor, stack: ExitStack) -> None:
    """Until the stack closes, the parameter has this value."""
    before = parameter.data

    def restore() -> None:
        parameter.data = before

    parameter.data = value
    stack.callback(restore)
