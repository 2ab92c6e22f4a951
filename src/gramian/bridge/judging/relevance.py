"""Which item answers which query: judgements in the TREC format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gramian.errors import GramianError

Qrels = Mapping[str, Mapping[str, int]]
"""Query id -> item id -> grade; a grade of 0 or below is not relevant."""


def read_qrels(path: str | Path) -> dict[str, dict[str, int]]:
    """Read TREC judgements: a line of ``query iteration item grade`` each, by white space.

    The second column is ignored, as every reader of the format does. Empty lines are skipped. A
    file of three columns with the head ``query-id corpus-id score`` (BEIR) is read as well.

    Raises
    ------
    GramianError : no such file, not UTF-8, no judgement, or a line (which is named) of other
        columns, with a grade that is no whole number, or that judges one pair differently again.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise GramianError(f"{path}: {error.strerror}; pass a file of judgements") from error
    except UnicodeDecodeError as error:
        raise GramianError(f"{path}: not UTF-8 text ({error}); pass TREC judgements") from error
    found: dict[str, dict[str, int]] = {}
    short = False
    for number, line in enumerate(lines, start=1):
        parts = line.split()
        if not parts:
            continue
        if number == 1 and [part.lower() for part in parts] == ["query-id", "corpus-id", "score"]:
            short = True
            continue
        query, item, grade = _parsed(parts, short, f"{path}, line {number}")
        judged = found.setdefault(query, {})
        if judged.setdefault(item, grade) != grade:
            raise GramianError(
                f"{path}, line {number}: query {query!r} and item {item!r} were judged "
                f"{judged[item]} before and {grade} here; keep one of the two"
            )
    if not found:
        raise GramianError(f"{path} holds no judgement; expected lines of query, 0, item, grade")
    return found


def _parsed(parts: list[str], short: bool, where: str) -> tuple[str, str, int]:
    expected = 3 if short else 4
    if len(parts) != expected:
        columns = "query item grade" if short else "query iteration item grade"
        raise GramianError(f"{where}: {len(parts)} columns, expected {expected}: {columns}")
    try:
        return parts[0], parts[-2], int(parts[-1])
    except ValueError:
        raise GramianError(
            f"{where}: grade {parts[-1]!r}, expected a whole number such as 0, 1 or 2"
        ) from None
