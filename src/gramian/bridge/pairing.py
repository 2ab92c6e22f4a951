"""Two sets of vectors of the same items, brought together by id."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.vectors import VectorSource
from gramian.errors import GramianError

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of rows, source and target, in the order of the source.

    Where both sides list the same ids in the same order they are streamed. Otherwise the target's
    rows of the common ids are held in memory.
    """

    source: VectorSource
    target: VectorSource
    count: int
    """Pairs that there are."""
    dropped: tuple[int, int]
    """Rows of the source, and of the target, that have no partner."""
    aligned: bool
    limit: int | None = None

    @classmethod
    def of(cls, source: VectorSource, target: VectorSource, *, limit: int | None = None) -> Pairs:
        """Find out which rows belong together.

        Raises
        ------
        GramianError : no id is on both sides, or an id comes twice on one.
        """
        if _plain(source) and _plain(target):
            if source.count != target.count:
                raise GramianError(
                    f"{source.address} has {source.count} rows and {target.address} "
                    f"{target.count}, and both are told apart by row numbers alone; give both "
                    "ids (x.ids.txt beside x.npy), or files of equal length"
                )
            found = source.count or 0
            return cls(source, target, _least(found, limit), (0, 0), True, limit)
        left, right = _ids(source), _ids(target)
        if left == right:
            return cls(source, target, _least(len(left), limit), (0, 0), True, limit)
        common = set(left) & set(right)
        if not common:
            raise GramianError(
                f"{source.address} and {target.address} have no id in common (the first are "
                f"{left[0]!r} and {right[0]!r}); pairs are found by id. For texts that differ, "
                "fit with --unpaired"
            )
        dropped = (len(left) - len(common), len(right) - len(common))
        return cls(source, target, _least(len(common), limit), dropped, False, limit)

    def batches(self, size: int = 4096) -> Iterator[tuple[list[str], Floats, Floats]]:
        """Ids, source rows and target rows.

        Raises
        ------
        GramianError : the sides end at different rows.
        """
        left = self.limit if self.limit is not None else self.count
        for ids, x, y in self._all(size):
            if left <= 0:
                return
            yield ids[:left], x[:left], y[:left]
            left -= len(ids)

    def _all(self, size: int) -> Iterator[tuple[list[str], Floats, Floats]]:
        if self.aligned:
            both = zip_longest(_sized(self.source, size), _sized(self.target, size))
            for one, other in both:
                if one is None or other is None or len(one[0]) != len(other[0]):
                    raise GramianError(
                        f"{self.source.address} and {self.target.address} end at different rows"
                    )
                yield one[0], one[1], other[1]
            return
        places, rows = self._held()
        for batch in self.source.batches(size):
            kept = [row for row, id in enumerate(batch.ids) if id in places]
            if kept:
                ids = [batch.ids[row] for row in kept]
                yield ids, batch.vectors[kept], rows[[places[id] for id in ids]]

    def _held(self) -> tuple[dict[str, int], Floats]:
        wanted = set(_ids(self.source))
        places: dict[str, int] = {}
        parts: list[Floats] = []
        for batch in self.target.batches():
            kept = [row for row, id in enumerate(batch.ids) if id in wanted]
            for row in kept:
                places[batch.ids[row]] = len(places)
            parts.append(batch.vectors[kept])
        return places, np.concatenate(parts)

    def read(self) -> tuple[list[str], Floats, Floats]:
        """All pairs at once."""
        parts = list(self.batches())
        ids = [id for part in parts for id in part[0]]
        return ids, np.concatenate([p[1] for p in parts]), np.concatenate([p[2] for p in parts])


def _sized(source: VectorSource, size: int) -> Iterator[tuple[list[str], Floats]]:
    """Batches of exactly one size (but the last), whatever the source hands out."""
    ids: list[str] = []
    parts: list[Floats] = []
    for batch in source.batches(size):
        ids += batch.ids
        parts.append(batch.vectors)
        while len(ids) >= size:
            rows = np.concatenate(parts)
            yield ids[:size], rows[:size]
            ids, parts = ids[size:], [rows[size:]]
    if ids:
        yield ids, np.concatenate(parts)


def _plain(source: VectorSource) -> bool:
    """Whether rows are told apart by their numbers alone."""
    return hasattr(source, "ids") and source.ids is None


def _ids(source: VectorSource) -> list[str]:
    known = getattr(source, "ids", None)
    found = list(known) if known else [id for batch in _named(source) for id in batch]
    if len(set(found)) < len(found):
        seen: set[str] = set()
        twice = next(id for id in found if id in seen or seen.add(id))  # type: ignore[func-returns-value]
        raise GramianError(f"{source.address}: id {twice!r} comes twice; ids must differ")
    return found


def _named(source: VectorSource) -> Iterator[list[str]]:
    from gramian.bridge.texts import EmbeddedTexts

    if isinstance(source, EmbeddedTexts):
        yield source.texts.ids
        return
    for batch in source.batches():
        yield batch.ids


def _least(count: int, limit: int | None) -> int:
    return count if limit is None else min(count, limit)
