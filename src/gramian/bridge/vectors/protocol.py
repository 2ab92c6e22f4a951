"""What files and stores of vectors have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from gramian.errors import GramianError

Floats = NDArray[np.float32]
Stamp = Mapping[str, str]
"""What is known of vectors: model, revision, dtype, prefix, bridge; empty where nothing is."""


@dataclass(frozen=True, eq=False)
class VectorBatch:
    """Some consecutive rows.

    Raises
    ------
    GramianError : not one id (and text) for every vector.
    """

    ids: list[str]
    vectors: Floats
    """(n, d)."""
    texts: list[str] | None = None
    start: int = 0
    """Number of the first row in its source."""

    def __post_init__(self) -> None:
        counts = {len(self.ids), len(self.vectors)}
        if self.texts is not None:
            counts.add(len(self.texts))
        if len(counts) > 1 or self.vectors.ndim != 2:
            raise GramianError(
                f"batch of {len(self.ids)} ids and vectors of shape {self.vectors.shape}"
            )

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Limits:
    """What a place for vectors can hold."""

    what: str
    dimensions: int | None = None
    dtypes: tuple[str, ...] = ("float32",)
    notes: tuple[str, ...] = ()

    def check(self, dim: int) -> None:
        """Refuse vectors that do not fit, before anything is written.

        Raises
        ------
        GramianError : more dimensions than the place takes.
        """
        if self.dimensions is not None and dim > self.dimensions:
            raise GramianError(
                f"{self.what} holds at most {self.dimensions:,} dimensions, the vectors have "
                f"{dim:,}; write them elsewhere, or bridge into a narrower space"
            )


@runtime_checkable
class VectorSource(Protocol):
    """Vectors that can be read in a stable order, from any row on, and by id."""

    address: str
    dim: int
    count: int | None
    """None where only reading to the end would tell."""
    dtype: str

    @property
    def stamp(self) -> Stamp:
        """What the place says of its vectors; empty where it says nothing."""
        ...

    def batches(self, size: int = 4096, start: int = 0) -> Iterator[VectorBatch]:
        """All rows from one on, in batches."""
        ...

    def take(self, ids: Sequence[str]) -> VectorBatch:
        """The rows of these ids, in this order; an unknown id is an error."""
        ...


@runtime_checkable
class SearchableSource(VectorSource, Protocol):
    """A source with a search of its own."""

    def search(self, queries: Any, k: int) -> tuple[list[list[str]], Floats]:
        """Ids and scores of the ``k`` nearest rows, best first, in the store's own metric."""
        ...


class VectorSink(Protocol):
    """A new place for vectors; what is written in part goes on where it stopped."""

    done: int
    """Rows that are safely there."""

    def write(self, batch: VectorBatch) -> None:
        """Append rows; ``batch.start`` must be ``done``."""
        ...

    def finish(self, stamp: Stamp) -> None:
        """Complete the place under its own name, with what is known of its vectors."""
        ...


def check_next(address: str, batch: VectorBatch, done: int, dim: int) -> None:
    """Refuse a batch that is not what a sink with ``done`` rows of ``dim`` numbers expects.

    Raises
    ------
    GramianError : rows from elsewhere, or another width.
    """
    if batch.start != done:
        raise GramianError(f"{address}: rows from {batch.start} on, expected from {done} on")
    if batch.vectors.shape[1:] != (dim,):
        raise GramianError(
            f"{address}: vectors of shape {batch.vectors.shape}, expected (n, {dim})"
        )


def take_by_scan(source: VectorSource, ids: Sequence[str]) -> VectorBatch:
    """The rows of these ids, from one pass over a source that has no index of them.

    Raises
    ------
    GramianError : an id is not there.
    """
    wanted = {id: place for place, id in enumerate(ids)}
    found: dict[str, tuple[Floats, str | None]] = {}
    for batch in source.batches():
        for row, id in enumerate(batch.ids):
            if id in wanted and id not in found:
                text = None if batch.texts is None else batch.texts[row]
                found[id] = (batch.vectors[row], text)
        if len(found) == len(wanted):
            break
    return gathered(source, ids, found)


def gathered(
    source: VectorSource, ids: Sequence[str], found: Mapping[str, tuple[Floats, str | None]]
) -> VectorBatch:
    """One batch of rows that were found by id, in the order asked for.

    Raises
    ------
    GramianError : some were not found; the message names the first.
    """
    missing = [id for id in ids if id not in found]
    if missing:
        raise GramianError(
            f"{len(missing)} of {len(ids)} ids are not in {source.address}, the first is "
            f"{missing[0]!r}"
        )
    vectors = np.stack([found[id][0] for id in ids]) if ids else np.empty((0, source.dim))
    texts = [found[id][1] for id in ids]
    named = [text for text in texts if text is not None]
    return VectorBatch(
        list(ids),
        vectors.astype(np.float32, copy=False),
        named if ids and len(named) == len(ids) else None,
    )
