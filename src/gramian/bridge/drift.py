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
FACTOR = 1.1


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
        the index, and by a tenth."""
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
    """Moments of an index, dealt by id, so that its own variation is known.

    rows, sample : how many rows the index has and the sample will have, where they are known.
        Of a large index the shards are then as small as the sample, and most rows are no shard's:
        what chance does to few rows is not what it does to many.
    """

    def __init__(self, rows: int | None = None, sample: int | None = None) -> None:
        fit = rows // sample if rows and sample else 0
        self._buckets = max(SHARDS, fit)
        self.shards: list[Moments | None] = [None] * SHARDS
        self.rest: Moments | None = None
        """Rows that belong to no shard."""

    def update(self, ids: Sequence[str], rows: NDArray[np.float32]) -> None:
        """Add rows (n, d)."""
        places = np.fromiter((_bucket(id, self._buckets) for id in ids), np.int64, len(ids))
        places = np.minimum(places, SHARDS)
        for shard in np.unique(places):
            found = Moments.from_rows(rows[places == shard], quartic=False)
            held = self.rest if shard == SHARDS else self.shards[shard]
            found = found if held is None else held + found
            if shard == SHARDS:
                self.rest = found
            else:
                self.shards[shard] = found

    def full(self) -> list[Moments]:
        """The shards that have rows."""
        return [shard for shard in self.shards if shard is not None and shard.count > 1]


def _bucket(id: str, count: int) -> int:
    digest = hashlib.sha256(f"gramian-drift:{id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % count


def drift(sample: Moments, shards: Iterable[Moments], rest: Moments | None = None) -> Drift:
    """Compare a sample with an index whose shards tell what chance alone does.

    The squared Fréchet distance of two samples of one distribution grows like ``1/n + 1/m`` when
    both are large beside the width. It is divided by that; and because it grows more slowly while
    they are small, shards are put together until they are about as large as the sample.

    sample : moments of the pairs, on the side of the index; rows may be weighted, and count as
        many as ``(sum w)^2 / sum w^2``.
    shards : at least 3, of random rows. rest : other rows of the index.

    Raises
    ------
    GramianError : fewer shards, or another width.
    """
    found = list(shards)
    if len(found) < 3:
        raise GramianError(f"drift: {len(found)} shards of the index, expected at least 3")
    if sample.d != found[0].d:
        raise GramianError(f"drift: pairs of width {sample.d}, an index of {found[0].d}")
    found = _grouped(found, _effective(sample))
    whole = _sum(found, rest)
    null = []
    for number, shard in enumerate(found):
        others = [other for place, other in enumerate(found) if place != number]
        null.append(_scaled(shard, _sum(others, rest)))
    mean = math.fsum(null) / len(null)
    variance = math.fsum((value - mean) ** 2 for value in null) / (len(null) - 1)
    return Drift(_scaled(sample, whole), mean, math.sqrt(variance), sample.count, whole.count)


def _grouped(shards: list[Moments], rows: float) -> list[Moments]:
    """Shards put together until they hold about ``rows``, but at least 4 of them (or all)."""
    fewest = min(4, len(shards))
    size = sum(shard.count for shard in shards) / max(rows, 1.0)
    groups = min(len(shards), max(fewest, round(size)))
    return [_sum(shards[first::groups], None) for first in range(groups)]


def _sum(shards: list[Moments], rest: Moments | None) -> Moments:
    every = shards if rest is None else [*shards, rest]
    return sum(every[1:], every[0])


def _effective(one: Moments) -> float:
    """Rows of equal weight that would vary as much."""
    return one.count * one.count / one.count2 if one.count2 > 0 else one.count


def _scaled(one: Moments, other: Moments) -> float:
    return frechet_distance(one, other) ** 2 / (1.0 / _effective(one) + 1.0 / _effective(other))
