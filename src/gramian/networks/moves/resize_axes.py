"""What a change of widths means at every place of a network."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from gramian.errors import GramianError
from gramian.maps import LinearMap
from gramian.networks.attention_heads import AttentionHeads, attention_heads
from gramian.networks.blueprint import Blueprint, Matrix, Norm
from gramian.networks.moves.axis import Axis, spread

Indices = tuple[tuple[int, ...], ...]
"""For every layer, the old number of every new neuron or head."""


@dataclass(frozen=True)
class Axes:
    """Old and new features of the stream, the neurons and the heads.

    Layers count as the move has them; ``origin`` has their numbers in ``plan``.
    """

    plan: Blueprint
    config: Any
    origin: tuple[int, ...]
    chosen: tuple[int, ...]
    neurons: Indices
    queries: Indices
    keys: Indices
    gains: Mapping[str, float]
    scale: float
    maps: Mapping[str, LinearMap]

    def __post_init__(self) -> None:
        for name in ("neurons", "queries", "keys"):
            given = getattr(self, name)
            if given and len(given) != len(self.origin):
                raise GramianError(
                    f"Resize: {name} of {len(given)} layers for a network of {len(self.origin)}"
                )

    @property
    def depth(self) -> int:
        return len(self.origin)

    def stream(self, place: str = "") -> Axis:
        """The stream, as it is read at a place."""
        axis = Axis.of(self.chosen, self.plan.width, place="Resize: stream")
        return axis.with_map(self.maps.get(place), place)

    @property
    def narrowing(self) -> float:
        """``c n / m`` of the stream: the old over the new mean square of its features."""
        axis = self.stream()
        return max(1, axis.uniform) * axis.size / len(axis.index)

    @property
    def written(self) -> float:
        """What is written into the stream is multiplied by this."""
        return self.scale / math.sqrt(self.narrowing)

    def gain(self, norm: Norm, name: str) -> float:
        """The factor of a norm's gain: before readers it undoes the scale of the stream, and
        what it gives a branch is added at that scale."""
        factor = math.sqrt(self.narrowing) * self.gains.get(name, 1.0)
        if norm.place != "branch":
            return factor
        return self.scale * self.gains.get(name, 1.0)

    @property
    def stream_is_exact(self) -> bool:
        """Whether norms and readers of the stream get what they got."""
        plain = self.scale == 1 and all(gain == 1 for gain in self.gains.values())
        places = [r.site for r in self.plan.stream_readers() if r.site in self.maps]
        axis = self.stream()
        return axis.uniform > 0 and plain and all(self.stream(p).exact for p in places)

    def mlp(self, layer: int) -> Axis | None:
        """The neurons of a layer; None where they stay."""
        if not self.neurons:
            return None
        size = self.plan.layers[self.origin[layer]].taps["mlp_mid"].width
        place = f"{layer}.mlp_mid"
        return Axis.of(self.neurons[layer], size, place=place).with_map(self.maps.get(place), place)

    def heads(self, layer: int) -> AttentionHeads:
        """Where the old heads of a layer are."""
        return attention_heads(self.plan, self.config, self.origin[layer])

    def z(self, layer: int) -> Axis | None:
        """The features of a layer's query heads; None where they stay."""
        if not self.queries:
            return None
        shape, place = self.heads(layer), f"{layer}.z"
        axis = Axis.of(spread(self.queries[layer], shape.width), shape.count * shape.width)
        return axis.with_map(self.maps.get(place), place)

    def shared(self, layer: int) -> Axis:
        """The features of a layer's heads of keys, and of values."""
        shape = self.heads(layer)
        return Axis.of(spread(self.keys[layer], shape.width), shape.keys * shape.width)

    def attention_outputs(self, layer: int, matrix: Matrix) -> Axis | None:
        """What a matrix that makes q, k or v, or all of them, comes to give."""
        z = self.z(layer)
        if z is None:
            return None
        shape, shared = self.heads(layer), self.shared(layer)
        if len(shape.readers) == 3:
            return (z, shared, shared)[[m.weight for m in shape.readers].index(matrix.weight)]
        every = torch.arange(sum(tap.width for tap in shape.taps))
        parts = 1 if shape.taps[0].groups == 1 else len(self.keys[layer])
        found = []
        for tap, axis in zip(shape.taps, (z, shared, shared), strict=True):
            assert tap.columns is not None
            held = every.view(tap.groups, -1)[:, tap.columns[0] : tap.columns[1]].flatten()
            # One matrix holds q, k and v one after another, or so for every group of heads.
            found.append(held[axis.index].view(parts, -1))
        return Axis.of(torch.cat(found, 1).flatten(), len(every))

    def mlp_outputs(self, layer: int, outputs: int) -> Axis | None:
        """What a matrix that makes neurons, or gates and neurons, comes to give."""
        axis = self.mlp(layer)
        if axis is None:
            return None
        halves = range(0, outputs, axis.size)
        return Axis.of(torch.cat([axis.index + start for start in halves]), outputs)
