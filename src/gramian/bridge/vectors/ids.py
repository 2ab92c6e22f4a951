"""Ids of rows: texts, one for every row, no two alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
        found.append(str(value))
    return found


def check_unique(ids: Sequence[str], where: str) -> None:
    """Refuse an id that comes twice.

    Raises
    ------
    GramianError : names the id and its two rows.
    """
    seen: dict[str, int] = {}
    for row, id in enumerate(ids):
        if id in seen:
            raise GramianError(
                f"{where}: id {id!r} comes twice, in rows {seen[id]} and {row}; ids must differ"
            )
        seen[id] = row
