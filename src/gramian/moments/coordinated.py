"""Row sketches of two parties who never meet: a shared seed makes them keep the same keys."""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments.moments import NonFiniteRows
from gramian.moments.products import as_rows

Key = str | int
"""Name of a row, the same with both parties. A text and a number are never the same key."""
_DTYPES = (torch.float32, torch.float64)


@dataclass(frozen=True, order=True)
class Entry:
    """The place of one key in the order in which rows are kept."""

    rank: float
    """``u / |row|^2`` with ``u`` in (0, 1) hashed from the seed and the key."""
    digest: bytes
    """Decides between equal ranks, the same way everywhere."""
    key: Key = field(compare=False)


class CoordinatedSketch:
    """The ``k`` rows of least ``hash(seed, key) / |row|^2``, and the threshold behind them.

    Large rows are kept more often, and two sketches of one seed tend to keep the same keys, so
    products of their rows estimate ``A^T B`` (`cross_estimate`). The state depends on the rows
    alone: not on their order, the batches, or restarts; sketches of parts of the rows add. Rows of
    zeros are left out. A key that comes again with the same row is ignored.

    k : rows to keep; `sketch_size` tells how many an error asks for. width : numbers in a row.
    seed : shared by the parties, and by nobody who should not learn which keys are kept.
    dtype : of the rows kept, float32 or float64.

    Raises
    ------
    GramianError : k or width below 1, another dtype, or a seed that is no integer.
    """

    def __init__(
        self, k: int, width: int, *, seed: int, dtype: torch.dtype = torch.float32
    ) -> None:
        if k < 1 or width < 1:
            raise GramianError(
                f"a sketch of {k} rows of width {width}, expected at least 1 of each"
            )
        if dtype not in _DTYPES:
            raise GramianError(f"a sketch of {dtype} rows, expected float32 or float64")
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise GramianError(f"seed is {seed!r}, expected an integer")
        self.k, self.seed = k, seed
        self._entries: list[Entry] = []
        self._rows = torch.empty(0, width, dtype=dtype)

    def __len__(self) -> int:
        return min(self.k, len(self._entries))

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return self._rows.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        """Of the rows kept."""
        return self._rows.dtype

    @property
    def keys(self) -> list[Key]:
        """Keys of the rows kept, by rising rank."""
        return [entry.key for entry in self._entries[: self.k]]

    @property
    def rows(self) -> Tensor:
        """(n, width), in the order of the keys, n at most k."""
        return self._rows[: self.k]

    @property
    def threshold(self) -> float:
        """Rank of the first row left out; infinite while every row is kept."""
        return self._entries[self.k].rank if len(self._entries) > self.k else math.inf

    @property
    def probabilities(self) -> Tensor:
        """(n,) chance of each row to be kept, ``min(1, threshold |row|^2)``."""
        return torch.from_numpy(_squares(self.rows) * self.threshold).clamp_max(1.0)

    def update(self, keys: Sequence[Key], rows: Any) -> None:
        """Offer rows (n, width), of any float dtype, one key each.

        Raises
        ------
        GramianError : another width, not one key for each row, a key that is neither a text nor an
            integer, NaN or infinity in a row, or a kept key with another row than before.
        """
        given = as_rows(rows)
        if tuple(given.shape) != (len(keys), self.width) or not given.is_floating_point():
            raise GramianError(
                f"sketch: {len(keys)} keys and {given.dtype} rows of shape {tuple(given.shape)}, "
                f"expected floating point ({len(keys)}, {self.width})"
            )
        x = given.to("cpu", self.dtype).contiguous()
        squares = _squares(x)
        bad = np.flatnonzero(~np.isfinite(squares))
        if len(bad):
            raise NonFiniteRows("sketch", int(bad[0]), "holds NaN, infinity or too large numbers")
        entries: list[Entry] = []
        places: list[int] = []
        limit = self._limit()
        for i in np.flatnonzero(squares > 0).tolist():
            entry = make_entry(self.seed, keys[i], float(squares[i]))
            if entry <= limit:
                entries.append(entry)
                places.append(i)
        self._offer(entries, x[places])

    def _limit(self) -> Entry:
        """No entry above this one is kept."""
        if len(self._entries) > self.k:
            return self._entries[-1]
        return Entry(math.inf, b"", "")

    def _offer(self, entries: Sequence[Entry], rows: Tensor) -> None:
        place = {entry.digest: i for i, entry in enumerate(self._entries)}
        every = torch.cat([self._rows, rows])
        kept = list(range(len(self._entries)))
        named = [*self._entries, *entries]
        for i, entry in enumerate(entries, start=len(self._entries)):
            known = place.setdefault(entry.digest, i)
            if known == i:
                kept.append(i)
            elif not torch.equal(every[known], every[i]):
                raise GramianError(
                    f"key {entry.key!r} comes twice with different rows; a key names one row"
                )
        # One more than k: the rank of the last is the threshold.
        order = sorted(kept, key=named.__getitem__)[: self.k + 1]
        if order != list(range(len(self._entries))):
            self._entries, self._rows = [named[i] for i in order], every[order]

    def __add__(self, other: CoordinatedSketch) -> CoordinatedSketch:
        if not isinstance(other, CoordinatedSketch):
            return NotImplemented
        ours, theirs = ((s.k, s.width, s.seed, s.dtype) for s in (self, other))
        if ours != theirs:
            raise GramianError(
                f"sketches of (k, width, seed, dtype) {ours} and {theirs} do not add"
            )
        result = CoordinatedSketch(self.k, self.width, seed=self.seed, dtype=self.dtype)
        for part in (self, other):
            result._offer(part._entries, part._rows)
        return result

    def __repr__(self) -> str:
        return f"CoordinatedSketch({len(self)} of {self.k} rows, width {self.width})"


def make_entry(seed: int, key: Key, square: float) -> Entry:
    """The place of a row of squared length ``square``."""
    if isinstance(key, str):
        named: Key = key
        text = f"text:{key}"
    else:
        try:
            named = operator.index(key)
        except TypeError:
            raise GramianError(
                f"key {key!r} is a {type(key).__name__}, expected a text or an integer"
            ) from None
        text = f"number:{named}"
    digest = hashlib.sha256(
        f"gramian-sketch:{seed}:{text}".encode("utf-8", "surrogatepass")
    ).digest()[:16]
    uniform = (int.from_bytes(digest[:8], "big") + 0.5) / 2.0**64
    return Entry(uniform / square, digest, named)


def _squares(rows: Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Squared lengths, the same to the bit whatever rows stand beside a row."""
    wide = np.ascontiguousarray(rows.numpy(), dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        squares: np.ndarray[Any, np.dtype[np.float64]] = np.square(wide).sum(axis=1)
    return squares
