"""Two starts, then the whole: a rotation between two clouds and the confidence in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.unpaired.clusters import Rows
from gramian.bridge.unpaired.confidence import Confidence, likeness, measure
from gramian.bridge.unpaired.matching import (
    SAMPLE,
    find_anchors,
    first_maps,
    polar,
    refine,
    scores,
    settle,
    some,
    unfold,
)
from gramian.errors import GramianError

FEW = 5
"""Neighbours at the end, where the rotation is nearly known."""
FEW_STEPS = 12
ROWS_PER_CLUSTER = 10


@dataclass(frozen=True)
class Settings:
    """Of the matching; see :class:`UnpairedBridge`."""

    runs: int
    clusters: int
    neighbours: int
    steps: int
    last_clusters: int

    def check(self) -> None:
        """Raises a GramianError for settings that are not whole numbers of enough."""
        least = {"runs": 1, "clusters": 3, "neighbours": 1, "steps": 1, "last_clusters": 1}
        for name, lowest in least.items():
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < lowest:
                raise GramianError(
                    f"{name} is {value!r}, expected a whole number of at least {lowest}"
                )

    def near(self, index: Rows) -> int:
        """Neighbours to average over: fewer among few rows."""
        return min(self.neighbours, max(5, len(index) // 80))


@dataclass(frozen=True)
class Alignment:
    """``weight`` (dx, dy), orthonormal on its shorter side, for rows ``x @ weight``."""

    weight: NDArray[np.float64]
    confidence: Confidence


@dataclass(frozen=True)
class Start:
    """What one half of the rows says: its best rotation, the others, and how clear matches were."""

    weight: Rows
    others: list[Rows]
    gap: float


def align(x: Rows, y: Rows, settings: Settings, draw: np.random.Generator) -> Alignment:
    """The rotation between two clouds of centred rows of length 1, in random order.

    Raises
    ------
    GramianError : too few rows on one side.
    """
    settings.check()
    least = ROWS_PER_CLUSTER * settings.clusters
    for name, rows in (("X", x), ("Y", y)):
        if len(rows) < least:
            raise GramianError(
                f"{name} has {len(rows)} rows; matching {settings.clusters} clusters without pairs "
                f"takes at least {least}, some thousands to be good"
            )
    found = [_start(x[i::2], y[i::2], settings, draw) for i in (0, 1)]
    near = settings.near(y)
    one, two = (unfold(x, y, start.weight, near, settings.steps, draw) for start in found)
    judged = some(x, 1000, draw)
    if likeness(judged, one, two) > 0.5:
        weight = polar(one + two)
    else:
        index = some(y, SAMPLE, draw)
        weight = max(one, two, key=lambda way: float(scores(judged @ way, index).mean()))
    weight, clusters = settle(x, y, weight, settings.last_clusters, draw)
    weight = refine(x, y, weight, min(FEW, near), FEW_STEPS, draw, queries=SAMPLE)
    confidence = measure(
        x,
        y,
        weight,
        [one, two, *found[0].others, *found[1].others],
        (one, two),
        clusters=clusters,
        gap=float(np.mean([start.gap for start in found])),
        draw=draw,
    )
    return Alignment(polar(weight, np.float64), confidence)


def _start(x: Rows, y: Rows, settings: Settings, draw: np.random.Generator) -> Start:
    anchors = find_anchors(x, y, settings.runs, settings.clusters, draw)
    index = some(y, SAMPLE, draw)
    maps = first_maps(x, index, anchors, settings.near(index), draw)
    judged = some(x, 1000, draw)
    maps.sort(key=lambda weight: -float(scores(judged @ weight, index).mean()))
    return Start(maps[0], maps[1:], anchors.gap)
