"""Moments of rows that are taken in blocks."""

from __future__ import annotations

from typing import Any

from gramian.moments import Moments

BLOCK = 65536
"""Rows that are in float64 together."""


def moments_of(rows: Any, weight: Any = None) -> Moments:
    """Moments of an (n, d) array, which may be a memory map; weight : (n,) or None."""
    total = Moments.empty(rows.shape[1], quartic=False)
    for first in range(0, len(rows), BLOCK):
        part = slice(first, first + BLOCK)
        of_part = None if weight is None else weight[part]
        total = total + Moments.from_rows(rows[part], of_part, quartic=False)
    return total
