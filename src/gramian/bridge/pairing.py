"""Two sets of vectors of the same items, brought together by id."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.texts import EmbeddedTexts
from gramian.bridge.vectors import Address, VectorSource
from gramian.errors import GramianError

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of rows, source and target, in the order of the source.

    Where both sides list the same ids in the same order they are streamed. Otherwise the target's
    rows of the common ids are held in memory. Texts without a partner are not embedded.
    """

    source: VectorSource
    target: VectorSource
    count: int
    """Pairs that are used."""
    dropped: tuple[int, int]
    """Rows of the source, and of the target, that have no partner."""
    aligned: bool
    unused: int = 0
    """Pairs beyond the limit."""
    chosen: frozenset[str] | None = None
    """Their ids, where not every row of the source is one; None: all."""

    @classmethod
    def of(cls, source: VectorSource, target: VectorSource, *, limit: int | None = None) -> Pairs:
        """Find out which rows belong together.

        limit : use no more pairs than this, drawn by a hash of their ids.

        Raises
        ------
        GramianError : no id is on both sides, an id comes twice on one, row numbers on one side
            and ids on the other, or a limit below 1.
        """
        if limit is not None and limit < 1:
            raise GramianError(f"{limit} pairs were asked for, expected at least 1")
        source, target = _numbered(source, target)
        left, right = _ids(source), _ids(target)
        if left == right and (limit is None or limit >= len(left)):
            return cls(source, target, len(left), (0, 0), True)
        common = set(left) & set(right)
        if not common:
            raise GramianError(
                f"{source.address} and {target.address} have no id in common (the first are "
                f"{left[0]!r} and {right[0]!r}); pairs are found by id"
            )
        chosen = frozenset(common if limit is None else sorted(common, key=_drawn)[:limit])
        dropped = (len(left) - len(common), len(right) - len(common))
        source, target = (_only(side, chosen) for side in (source, target))
        return cls(source, target, len(chosen), dropped, False, len(common) - len(chosen), chosen)

    def batches(self, size: int = 4096) -> Iterator[tuple[list[str], Floats, Floats]]:
        """Ids, source rows and target rows.

        Raises
        ------
        GramianError : the sides end at different rows.
        """
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
        assert self.chosen is not None
        places: dict[str, int] = {}
        parts: list[Floats] = []
        for batch in self.target.batches():
            kept = [row for row, id in enumerate(batch.ids) if id in self.chosen]
            for row in kept:
                places[batch.ids[row]] = len(places)
            parts.append(batch.vectors[kept])
        return places, np.concatenate(parts)

    def read(self) -> tuple[list[str], Floats, Floats]:
        """All pairs at once."""
        parts = list(self.batches())
        ids = [id for part in parts for id in part[0]]
        return ids, np.concatenate([p[1] for p in parts]), np.concatenate([p[2] for p in parts])


def recorded_weights(source: VectorSource) -> Mapping[str, float] | None:
    """The weights by id that ``gramian bridge sample --strategy telling`` wrote; None elsewhere.

    Raises
    ------
    GramianError : a record without its weight.
    """
    if source.stamp.get("strategy") != "telling" or isinstance(source, EmbeddedTexts):
        return None
    path = Address.parse(source.address).path
    found: dict[str, float] = {}
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            record = json.loads(line)
            weight = record.get("weight")
            if isinstance(weight, bool) or not isinstance(weight, int | float) or weight <= 0:
                raise GramianError(
                    f"{path}, line {number}: weight is {weight!r}, expected a number above 0, as "
                    "gramian bridge sample wrote it"
                )
            found[str(record["id"])] = float(weight)
    return found


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


def _numbered(one: VectorSource, other: VectorSource) -> tuple[VectorSource, VectorSource]:
    """Both sides, with row numbers for ids where neither has any.

    Raises
    ------
    GramianError : row numbers that do not belong together: unequal lengths, or the lines of a
        text file beside ids.
    """
    plain = (_plain(one), _plain(other))
    if all(plain):
        if one.count != other.count:
            raise GramianError(
                f"{one.address} has {one.count} rows and {other.address} {other.count}, and both "
                "are told apart by row numbers alone; give both ids (x.ids.txt beside x.npy, "
                ".tsv or .jsonl for texts), or files of equal length"
            )
        return _renumbered(one), _renumbered(other)
    for side, its_own, against in ((one, plain[0], other), (other, plain[1], one)):
        if its_own and isinstance(side, EmbeddedTexts):
            raise GramianError(
                f"the texts for {side.address} have line numbers alone, {against.address} has "
                "ids; give texts with ids, as .tsv or .jsonl"
            )
    return one, other


def _plain(source: VectorSource) -> bool:
    """Whether rows are told apart by their numbers alone."""
    if isinstance(source, EmbeddedTexts):
        return source.texts.numbered
    return hasattr(source, "ids") and source.ids is None


def _renumbered(source: VectorSource) -> VectorSource:
    if not isinstance(source, EmbeddedTexts):
        return source
    return source.of(source.texts.by_row())


def _only(source: VectorSource, ids: Collection[str]) -> VectorSource:
    return source.of(source.texts.only(ids)) if isinstance(source, EmbeddedTexts) else source


def _ids(source: VectorSource) -> list[str]:
    if isinstance(source, EmbeddedTexts):
        return source.texts.ids
    if _plain(source) and source.count is not None:
        return [str(row) for row in range(source.count)]
    known = getattr(source, "ids", None)
    found = list(known) if known else [id for batch in source.batches() for id in batch.ids]
    if len(set(found)) < len(found):
        seen: set[str] = set()
        twice = next(id for id in found if id in seen or seen.add(id))  # type: ignore[func-returns-value]
        raise GramianError(f"{source.address}: id {twice!r} comes twice; ids must differ")
    return found


def _drawn(id: str) -> bytes:
    return blake2b(id.encode(), digest_size=8, person=b"gramian-pairs").digest()
