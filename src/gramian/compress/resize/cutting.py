"""Which features stay, and how what reads them makes up for the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from gramian.compress.resize.refit import refit
from gramian.compress.resize.shape import Shape
from gramian.compress.resize.weighing import Weighing, strongest
from gramian.maps import Diagonal, LinearMap
from gramian.networks import Resize
from gramian.networks.moves.axis import spread
from gramian.networks.moves.select_neurons import neurons

Rescale = Literal["variance", "count", "none"]
FEW = 10.0
"""Rows per dimension below which a refit is called thin."""


@dataclass(frozen=True)
class Cut:
    """A move, and what is known of every place that it narrows."""

    move: Resize
    layers: tuple[dict[str, Any], ...]
    rows_per_dimension: float | None
    warnings: tuple[str, ...]


@dataclass
class _Reading:
    """Maps for the places that read what was narrowed, as they are found."""

    weighing: Weighing
    rescale: Rescale
    refit: bool
    maps: dict[str, LinearMap] = field(default_factory=dict)
    layers: list[dict[str, Any]] = field(default_factory=list)
    rows: list[float] = field(default_factory=list)

    def add(self, site: str, effects: Tensor, kept: Sequence[int], weights: list[Tensor]) -> None:
        """Read a place from the features that stay."""
        stay = torch.tensor(kept)
        layer, _, part = site.partition(".")
        if len(kept) == len(effects):
            return
        if self.refit and part:
            moments = self.weighing.moments
            assert moments is not None
            found = refit(moments, self.weighing.at_source(site), kept, weights)
            self.maps[site] = found.map
            self.rows.append(found.rows_per_dimension)
            error: float | None = found.error_report
        else:
            error = None
            scale = self.scale(effects, stay)
            if scale != 1.0:
                shares = torch.full((len(kept),), scale, dtype=torch.float64)
                self.maps[site] = Diagonal(shares)
        if part:
            entry = {"layer": int(layer), "part": part, "kept": len(kept) / len(effects)}
            self.layers.append(entry | {"error_report": error})

    def scale(self, effects: Tensor, stay: Tensor) -> float:
        """What the matrices are multiplied with, so that their outputs vary as before."""
        if self.rescale == "none":
            return 1.0
        if self.rescale == "count":
            return math.sqrt(len(effects) / len(stay))
        left = float(effects[stay].sum())
        return math.sqrt(float(effects.sum()) / left) if left > 0 else 1.0


def cut(
    weighing: Weighing,
    old: Shape,
    new: Shape,
    rescale: Rescale,
    refit: bool,
    progress: Callable[[int, int], None] | None = None,
) -> Cut:
    """Choose, and solve how every place is read."""
    reading = _Reading(weighing, rescale, refit)
    plan, depth = weighing.draft.blueprint, new.layers
    mids: list[tuple[int, ...]] = []
    queries: list[tuple[int, ...]] = []
    keys: list[tuple[int, ...]] = []
    stream: tuple[int, ...] = ()
    gains: dict[str, float] = {}
    scale = 1.0
    if new.width < old.width:
        stream = _stream(weighing, new.width)
        gains, scale = _gains(weighing, stream, count=rescale == "count" and not refit)
    for layer in range(depth):
        if new.heads < old.heads or new.keys < old.keys:
            shape = weighing.shape(layer)
            own, shared = _heads(weighing.heads(layer), shape.group, new.heads, new.keys)
            queries.append(own)
            keys.append(shared)
            writer = weighing.weight(shape.writer)
            reading.add(
                f"{layer}.z",
                _spread_effects(weighing, layer, writer),
                spread(own, shape.width).tolist(),
                [writer],
            )
        if new.mlp < old.mlp:
            effects = weighing.neurons(layer)
            mids.append(strongest(effects, new.mlp))
            matrix = neurons(plan, plan.layers[layer])[1]
            reading.add(f"{layer}.mlp_mid", effects, mids[-1], [weighing.weight(matrix)])
        if progress:
            progress(layer + 1, depth)
    if stream:
        for site, norm, matrices in weighing.places():
            weights = [weighing.weight(matrix) for matrix in matrices]
            reading.add(site, weighing.effects(site, norm, matrices), stream, weights)
    reading.layers.sort(key=lambda entry: (entry["layer"], entry["part"]))
    rows = min(reading.rows, default=None)
    move = Resize(
        stream=stream,
        neurons=tuple(mids),
        queries=tuple(queries),
        keys=tuple(keys),
        gains=gains,
        scale=scale,
        places=tuple(reading.maps),
        maps=tuple(reading.maps.values()),
    )
    thin = (
        f"{rows:.1f} rows per dimension: collect more tokens, {FEW:.0f} for each or more"
        if rows is not None and rows < FEW
        else ""
    )
    return Cut(move, tuple(reading.layers), rows, (thin,) if thin else ())


def _stream(weighing: Weighing, count: int) -> tuple[int, ...]:
    """The features that do most over all places: one choice for the whole stream."""
    scores = torch.zeros(weighing.draft.blueprint.width, dtype=torch.float64)
    for site, norm, matrices in weighing.places():
        effects = weighing.effects(site, norm, matrices)
        scores += (effects / effects.sum().clamp_min(1e-300)).sqrt()
    return strongest(scores, count)


def _heads(
    scores: Tensor, group: int, heads: int, keys: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The strongest groups, and in each the strongest query heads."""
    grouped = scores.view(-1, group)
    shared = strongest(grouped.sum(1), keys)
    each = heads // keys
    own = tuple(k * group + i for k in shared for i in strongest(grouped[k], each))
    return own, shared


def _spread_effects(weighing: Weighing, layer: int, writer: Tensor) -> Tensor:
    """Effects of the single features of the heads."""
    shape = weighing.shape(layer)
    heads = weighing.heads(layer)
    if weighing.moments is not None:
        return weighing.square(f"{layer}.z") * writer.square().sum(0)
    return (heads / shape.width).repeat_interleave(shape.width)


def _gains(
    weighing: Weighing, stream: tuple[int, ...], *, count: bool
) -> tuple[dict[str, float], float]:
    """Factors of the norms' gains, and of what is written, beside those that hold where what goes
    is zero.

    A norm divides by a length: of the features that stay it is shorter by ``k``, the root of
    their share of the mean square, so what it gives is longer by ``1 / k``. What is written is
    multiplied by ``1 / k``, over all norms, so that mean squares stay what they were.
    """
    stay = torch.tensor(stream)
    plan = weighing.draft.blueprint
    squares: dict[str, float] = {}
    for site, norm, _ in weighing.places():
        if norm is not None:
            squares[norm.name] = _share(weighing.inside(site, norm), stay)
    for norm in plan.stream_norms():
        if norm.place == "branch":
            squares[norm.name] = _share(weighing.branch(norm), stay)
    if count:
        squares = dict.fromkeys(squares, len(stream) / plan.width)
    gains = {name: math.sqrt(square) for name, square in squares.items()}
    mean = sum(squares.values()) / len(squares) if squares else 1.0
    scale = 1 / math.sqrt(mean) if mean > 0 else 1.0
    return {name: gain for name, gain in gains.items() if gain != 1.0}, scale


def _share(squares: Tensor, stay: Tensor) -> float:
    whole = float(squares.sum())
    return float(squares[stay].sum()) / whole if whole > 0 else 1.0
