"""Sizes as they are typed: 1152, 2x, 6/2."""

from __future__ import annotations

import re

from gramian.errors import GramianError

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([x×]?)")


def size(text: str | None, what: str, present: int) -> int | None:
    """Read ``1152``, or ``2x`` as a multiple of the present size.

    Raises
    ------
    GramianError : neither, or a multiple that is no whole number.
    """
    if text is None:
        return None
    match = _SIZE.fullmatch(text.strip())
    value = float(match[1]) * (present if match[2] else 1) if match else 0.5
    if value != int(value):
        raise GramianError(
            f"{what} {text!r}: expected a whole number such as 1152, or a multiple such as 2x of "
            f"the present {present}"
        )
    return int(value)


def heads(text: str | None) -> tuple[int, int] | None:
    """Read ``6/2`` (query heads and heads of keys), or ``8`` for as many of both.

    Raises
    ------
    GramianError : neither.
    """
    if text is None:
        return None
    queries, _, keys = text.partition("/")
    try:
        return int(queries), int(keys or queries)
    except ValueError:
        raise GramianError(
            f"--heads {text!r}: expected query heads and heads of keys such as 6/2, or one number "
            "where they are as many"
        ) from None
