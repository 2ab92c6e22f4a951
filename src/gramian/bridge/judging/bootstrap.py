"""Intervals of means over queries, and of their differences, from the same resamples."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.errors import GramianError

LEVEL = 0.95
_TOGETHER = 1 << 22


@dataclass(frozen=True)
class Interval:
    """A mean over queries and its 95 % interval."""

    value: float
    low: float | None
    """None with a single query, which says nothing of others."""
    high: float | None

    def to_json(self) -> dict[str, float | None]:
        """Value, low and high."""
        return {"value": self.value, "low": self.low, "high": self.high}

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:.3f}"
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"

    def signed(self) -> str:
        """With the signs of a difference."""
        if self.low is None or self.high is None:
            return f"{self.value:+.3f}"
        return f"{self.value:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


class Bootstrap:
    """Percentile intervals; queries are drawn with replacement, the same ones for all values.

    Drawing queries and not single values keeps the pairing: a difference of two systems has the
    interval of the difference on one set of queries, which is narrower than the two intervals.

    Parameters
    ----------
    values : key -> (n,) value per query, in one order of the queries.
    draws : resamples. seed : of the resamples.

    Raises
    ------
    GramianError : no values, unequal lengths, or fewer than 1 draw.
    """

    def __init__(
        self, values: Mapping[Any, NDArray[np.float64]], *, draws: int = 1000, seed: int = 0
    ) -> None:
        lengths = {len(column) for column in values.values()}
        if len(lengths) != 1 or 0 in lengths:
            raise GramianError(f"values of {sorted(lengths)} queries; expected one number above 0")
        if draws < 1:
            raise GramianError(f"bootstrap is {draws}, expected at least 1 resample")
        self.queries = lengths.pop()
        self._columns = {key: column for column, key in enumerate(values)}
        table = np.stack([np.asarray(column, np.float64) for column in values.values()], axis=1)
        self._means = table.mean(0)
        self._draws = np.empty((draws, table.shape[1]))
        random = np.random.default_rng(seed)
        share = np.full(self.queries, 1 / self.queries)
        step = max(1, _TOGETHER // self.queries)
        for start in range(0, draws, step):
            size = min(step, draws - start)
            counts = random.multinomial(self.queries, share, size)
            self._draws[start : start + size] = counts @ table / self.queries

    def mean(self, key: Hashable) -> Interval:
        """The mean of one value."""
        column = self._columns[key]
        return self._interval(float(self._means[column]), self._draws[:, column])

    def difference(self, one: Hashable, other: Hashable) -> Interval:
        """The mean of ``one`` less that of ``other``, on the same queries."""
        a, b = self._columns[one], self._columns[other]
        drawn = self._draws[:, a] - self._draws[:, b]
        return self._interval(float(self._means[a] - self._means[b]), drawn)

    def _interval(self, value: float, drawn: NDArray[np.float64]) -> Interval:
        if self.queries < 2:
            return Interval(value, None, None)
        low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return Interval(value, float(low), float(high))
