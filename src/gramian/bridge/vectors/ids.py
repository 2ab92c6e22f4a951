"""Ids of rows: texts, one for every row, no two alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.vectors.protocol import VectorBatch
from gramian.errors import GramianError


def as_ids(values: Iterable[object], where: str, start: int = 0) -> list[str]:
    """Ids as texts.

    Raises
    ------
    GramianError : one is missing or empty; the message names the row.
    """
    found = []
    for row, value in enumerate(values, start):
        if value is None or value == "" or value != value:  # NaN is not itself
            raise GramianError(f"{where}: row {row} has no id; give every row one")
        if isinstance(value, bytes):
            try:
                value = value.decode()
            except UnicodeDecodeError as error:
                raise GramianError(f"{where}: the id of row {row} is no text: {value!r}") from error
        found.append(str(value))
    return found


def check_unique(
    ids: Sequence[str], where: str, start: int = 0, counted: tuple[str, int] = ("rows", 0)
) -> None:
    """Refuse an id that comes twice.

    Raises
    ------
    GramianError : names the id and its two rows.
    """
    seen: dict[str, int] = {}
    for row, id in enumerate(ids, start):
        if id in seen:
            raise _repeated(where, id, (seen[id], row), counted)
        seen[id] = row


def _repeated(where: str, id: str, rows: tuple[int, int], counted: tuple[str, int]) -> GramianError:
    what, base = counted
    return GramianError(
        f"{where}: id {id!r} comes twice, in {what} {rows[0] + base} and {rows[1] + base}; ids "
        "must differ"
    )


Reader = Callable[[int, int], Iterator[VectorBatch]]


def distinct(
    read: Reader, where: str, size: int, start: int, counted: tuple[str, int] = ("rows", 0)
) -> Iterator[VectorBatch]:
    """The batches of a source, while no id comes twice.

    Of every id 64 bits are kept, in sorted runs; where they come twice, the rows are read again to
    tell ids that are alike from ids whose bits are.

    Parameters
    ----------
    read : reads batches of at most ``size`` rows from row ``start`` on.
    counted : what messages call rows, and the number of the first.

    Raises
    ------
    GramianError : an id comes twice; names it and its two rows.
    """
    runs: list[NDArray[np.int64]] = []
    for batch in read(size, start):
        check_unique(batch.ids, where, batch.start, counted)
        run = np.sort(np.fromiter(map(hash, batch.ids), dtype=np.int64, count=len(batch)))
        for old in runs:
            places = np.minimum(old.searchsorted(run), len(old) - 1)
            if (old[places] == run).any():
                _refuse_repeated(read, where, batch, counted)
                break
        yield batch
        # runs double, so that a row is sorted in again only log(n) times
        while runs and len(runs[-1]) <= 2 * len(run):
            run = np.sort(np.concatenate([runs.pop(), run]), kind="stable")
        if len(run):
            runs.append(run)


def _refuse_repeated(
    read: Reader, where: str, batch: VectorBatch, counted: tuple[str, int]
) -> None:
    rows = {id: row for row, id in enumerate(batch.ids, batch.start)}
    for earlier in read(4096, 0):
        for row, id in enumerate(earlier.ids, earlier.start):
            if row >= batch.start:
                return
            if id in rows:
                raise _repeated(where, id, (row, rows[id]), counted)
