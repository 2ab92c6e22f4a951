"""A bounded sample of the rows of one space, and the mean of all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.rows import as_matrix
from gramian.bridge.unpaired.clusters import Rows
from gramian.bridge.unpaired.matching import unit
from gramian.errors import GramianError

BLOCK = 8192


class Cloud:
    """Rows of one space, offered in batches; memory stays at ``limit`` rows.

    limit : rows that are kept, drawn at random from all that are offered. seed : of the draw.
    """

    def __init__(self, limit: int = 20_000, *, seed: Any = 0) -> None:
        if limit < 1:
            raise GramianError(f"a cloud of {limit} rows, expected at least 1")
        self.limit, self.count = limit, 0
        self._draw = np.random.default_rng(seed)
        self._keys = np.empty(0)

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return int(self._shift.shape[0])

    @property
    def mean(self) -> NDArray[np.float64]:
        """The mean (d,) of all rows that were offered."""
        mean: NDArray[np.float64] = self._shift + self._sum / self.count
        return mean

    def update(self, rows: Any, name: str = "rows") -> None:
        """Offer rows (n, d), read block by block.

        Raises
        ------
        GramianError : no vectors, another width than before, NaN or infinity (the row is named).
        """
        array = as_matrix(rows, name, width=self.width if self.count else None)
        if not len(array):
            return
        if not self.count:
            self._shift = array[:BLOCK].mean(0, dtype=np.float64)
            self._sum = np.zeros_like(self._shift)
            self._kept = np.empty((0, len(self._shift)), np.float32)
        for start in range(0, len(array), BLOCK):
            # Rows are kept about the mean of the first of them, so that float32 holds what varies
            block = array[start : start + BLOCK] - self._shift
            self._sum += block.sum(0)
            self.count += len(block)
            keys = self._draw.random(len(block))
            fresh = np.arange(len(block))
            if len(self._keys) == self.limit:
                fresh = np.flatnonzero(keys < self._keys.max())
            keys = np.concatenate([self._keys, keys[fresh]])
            kept = np.concatenate([self._kept, block[fresh].astype(np.float32)])
            # The lowest keys are a sample without replacement, and their order is random
            order = np.argsort(keys)[: self.limit]
            self._keys, self._kept = keys[order], kept[order]

    def centred(self, name: str = "rows") -> tuple[Rows, float]:
        """The rows that were kept, (n, d), less the mean and of length 1; their mean length before.

        Raises
        ------
        GramianError : no rows, or rows that are all equal.
        """
        if not self.count:
            raise GramianError(f"no {name}; expected vectors (n, d)")
        rows = self._kept - (self._sum / self.count).astype(np.float32)
        lengths = np.linalg.norm(rows, axis=1)
        size = float(np.abs(self._shift).max(initial=0.0))
        if lengths.max() <= 1e-6 * size:
            raise GramianError(f"{name} are all equal, so that nothing tells them apart")
        return unit(rows), float(lengths.mean(dtype=np.float64))
