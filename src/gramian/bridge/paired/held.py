"""A bounded sample of pairs that is kept as rows, to judge what moments cannot: retrieval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.paired.assignment import Keys


@dataclass(frozen=True, eq=False)
class HeldRows:
    """The pairs of lowest key: the same whatever the batches, and never the same key twice."""

    limit: int
    keys: Keys
    x: NDArray[Any]
    y: NDArray[Any]

    @classmethod
    def empty(cls, limit: int, dx: int, dy: int) -> HeldRows:
        return cls(limit, np.empty(0, np.uint64), np.empty((0, dx)), np.empty((0, dy)))

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, keys: Keys, x: NDArray[Any], y: NDArray[Any], which: NDArray[Any]) -> HeldRows:
        """With the rows ``which`` of a batch, as far as their keys are among the lowest.

        keys : (n,) of the batch, x : (n, dx), y : (n, dy); only what is kept is copied.
        """
        if self.limit == 0:
            return self
        if len(self) >= self.limit:
            which = which[keys[which] < self.keys[-1]]
        if not len(which):
            return self
        every = np.concatenate([self.keys, keys[which]])
        unique, first = np.unique(every, return_index=True)
        first = first[: self.limit]
        old = first < len(self)
        places = which[first[~old] - len(self)]
        kept_x = _merged(self.x, x, first, old, places)
        return HeldRows(
            self.limit, unique[: self.limit], kept_x, _merged(self.y, y, first, old, places)
        )

    def without(self, keys: Keys) -> HeldRows:
        """Without the pairs of these keys."""
        return self.where(~np.isin(self.keys, keys))

    def where(self, stay: NDArray[np.bool_]) -> HeldRows:
        """Only the pairs where ``stay`` (n,) is true."""
        return HeldRows(self.limit, self.keys[stay], self.x[stay], self.y[stay])


class Holding:
    """Held rows that are gathered: what comes in waits, and is sorted in now and then."""

    def __init__(self, limit: int, dx: int, dy: int) -> None:
        self._rows = HeldRows.empty(limit, dx, dy)
        self._waiting: list[tuple[Keys, NDArray[Any], NDArray[Any]]] = []

    def add(self, keys: Keys, x: NDArray[Any], y: NDArray[Any], which: NDArray[Any]) -> None:
        """Offer the rows ``which`` of a batch; only what may be kept is copied."""
        rows = self._rows
        if rows.limit == 0:
            return
        if len(rows) >= rows.limit:
            which = which[keys[which] < rows.keys[-1]]
        if len(which):
            self._waiting.append((keys[which], x[which], y[which]))
        if sum(len(waiting) for waiting, *_ in self._waiting) >= rows.limit:
            self.now()

    def now(self) -> HeldRows:
        """The rows so far."""
        if self._waiting:
            keys, x, y = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
            self._rows = self._rows.add(keys, x, y, np.arange(len(keys)))
            self._waiting = []
        return self._rows

    def remove(self, keys: Keys) -> None:
        """Take out the pairs of these keys."""
        self._rows = self.now().without(keys)


def _merged(
    held: NDArray[Any],
    batch: NDArray[Any],
    first: NDArray[Any],
    old: NDArray[Any],
    places: NDArray[Any],
) -> NDArray[Any]:
    dtype = np.float64 if batch.dtype == np.float64 else np.float32
    result = np.empty((len(first), batch.shape[1]), dtype)
    result[old] = held[first[old]]
    result[~old] = batch[places]
    return result
