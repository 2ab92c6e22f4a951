"""Do the pairs look like the index they are to serve?"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gramian.errors import GramianError
from gramian.measures import frechet_distance
from gramian.moments import Moments

SHARDS = 16
DEVIATIONS = 4.0
"""Standard deviations above what samples of the index itself differ by."""
FACTOR = 1.2


@dataclass(frozen=True)
class Drift:
    """How far a sample lies from an index, in the units of what a random sample would."""

    distance: float
    """Squared Fréchet distance, corrected for the numbers of rows."""
    expected: float
    """The same of samples of the index itself."""
    spread: float
    """Their standard deviation."""
    rows: float
    index_rows: float

    @property
    def ratio(self) -> float:
        """Distance over expected."""
        return self.distance / self.expected if self.expected > 0 else math.inf

    @property
    def drifted(self) -> bool:
        """Whether the sample is from somewhere else: beyond 4 standard deviations of samples of
        the index, and by a fifth."""
        beyond = self.expected + DEVIATIONS * self.spread
        return self.distance > beyond and self.ratio > FACTOR

    def to_json(self) -> dict[str, float | bool]:
        """Every figure."""
        return {
            "ratio": self.ratio,
            "distance": self.distance,
            "expected": self.expected,
            "spread": self.spread,
            "drifted": self.drifted,
        }

    def __str__(self) -> str:
        return (
            f"the pairs differ from the index {self.ratio:.2f} times as much as a random sample of "
            f"it does ({self.rows:,.0f} pairs, {self.index_rows:,.0f} rows)"
        )


class IndexShards:
    """Moments of an index, dealt by id, so that its own variation is known."""

    def __init__(self) -> None:
        self.shards: list[Moments | None] = [None] * SHARDS

    def update(self, ids: Sequence[str], rows: NDArray[np.float32]) -> None:
        """Add rows (n, d)."""
        places = np.fromiter((shard_of(id) for id in ids), np.int64, len(ids))
        for shard in np.unique(places):
            found = Moments.from_rows(rows[places == shard], quartic=False)
            held = self.shards[shard]
            self.shards[shard] = found if held is None else held + found

    def full(self) -> list[Moments]:
        """The shards that have rows."""
        return [shard for shard in self.shards if shard is not None and shard.count > 1]


def shard_of(id: str) -> int:
    """The shard of an id."""
    digest = hashlib.sha256(f"gramian-drift:{id}".encode()).digest()
    return int.from_bytes(digest[:4], "big") % SHARDS


def drift(sample: Moments, shards: Iterable[Moments]) -> Drift:
    """Compare a sample with an index whose shards tell what chance alone does.

    The squared Fréchet distance of two samples of one distribution grows like ``1/n + 1/m``; it is
    divided by that, so shards and sample compare although they differ in size.

    sample : moments of the pairs, on the side of the index. shards : at least 3, of random rows.

    Raises
    ------
    GramianError : fewer shards, or another width.
    """
    found = list(shards)
    if len(found) < 3:
        raise GramianError(f"drift: {len(found)} shards of the index, expected at least 3")
    if sample.d != found[0].d:
        raise GramianError(f"drift: pairs of width {sample.d}, an index of {found[0].d}")
    whole = sum(found[1:], found[0])
    null = []
    for number, shard in enumerate(found):
        others = [other for place, other in enumerate(found) if place != number]
        null.append(_scaled(shard, sum(others[1:], others[0])))
    mean = math.fsum(null) / len(null)
    variance = math.fsum((value - mean) ** 2 for value in null) / (len(null) - 1)
    return Drift(_scaled(sample, whole), mean, math.sqrt(variance), sample.count, whole.count)


def _scaled(one: Moments, other: Moments) -> float:
    return frechet_distance(one, other) ** 2 / (1.0 / one.count + 1.0 / other.count)
