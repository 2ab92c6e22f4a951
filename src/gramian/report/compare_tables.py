"""What ``gramian compare`` prints: a block of shades per measure, and the best match beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from gramian.compare import Best, Comparison, Matrix

SHADES = (" ", "░", "▒", "▓", "█")
"""From far to close; told apart without colour."""
STYLES = ("dim", "blue", "cyan", "green", "bold yellow")
MISSING = "·"
WIDE = 24
"""With more columns than this a cell is one character wide, else two."""


def compare_tables(comparison: Comparison) -> list[Table]:
    """One table per measure: shades of every pair, and for each row its closest column."""
    return [_table(matrix) for matrix in comparison.matrices]


def columns_line(matrix: Matrix) -> str:
    """Which columns the numbers over the shades stand for."""
    if len(matrix.y) == 1:
        return f"column: {matrix.y[0]}"
    return f"columns: 0 is {matrix.y[0]} … {len(matrix.y) - 1} is {matrix.y[-1]}"


def _table(matrix: Matrix) -> Table:
    steps = _steps(matrix)
    cell = 1 if len(matrix.y) > WIDE else 2
    title = f"{matrix.title}: {matrix.summary}"
    table = Table(
        title=title,
        caption=_legend(matrix, steps),
        title_justify="left",
        caption_justify="left",
        header_style="bold",
    )
    table.add_column("site", no_wrap=True)
    table.add_column(_ruler(len(matrix.y), cell), no_wrap=True)
    table.add_column("closest", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    best = {found.site: found for found in matrix.best()}
    for site, values in zip(matrix.x, matrix.values.tolist(), strict=True):
        found = best.get(site)
        closest, number = ("", "") if found is None else (found.match, _number(found))
        table.add_row(site, _shaded(values, steps, cell, matrix.similarity), closest, number)
    return table


def _number(found: Best) -> str:
    error = "" if found.error is None else f" ±{found.error:.3f}"
    return f"{found.value:.3f}{error}"


def _steps(matrix: Matrix) -> list[float]:
    """Limits of the shades, rising: equal steps over the values of different sites."""
    values = [
        value
        for x, row in zip(matrix.x, matrix.values.tolist(), strict=True)
        for y, value in zip(matrix.y, row, strict=True)
        if x != y and not math.isnan(value)
    ] or [value for row in matrix.values.tolist() for value in row if not math.isnan(value)]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    return [low + (high - low) * i / len(SHADES) for i in range(len(SHADES) + 1)]


def _shaded(values: Sequence[float], steps: Sequence[float], cell: int, similarity: bool) -> Text:
    text = Text()
    for value in values:
        if math.isnan(value):
            text.append(MISSING * cell, "dim")
            continue
        level = sum(value >= limit for limit in steps[1:-1])
        level = level if similarity else len(SHADES) - 1 - level
        text.append(SHADES[level] * cell, STYLES[level])
    return text


def _ruler(columns: int, cell: int) -> str:
    """Column numbers, every fifth one that fits, over the cells."""
    line = ""
    for column in range(0, columns, 5):
        if column * cell + len(str(column)) <= columns * cell:
            line = line.ljust(column * cell) + str(column)
    return line


def _legend(matrix: Matrix, steps: Sequence[float]) -> str:
    """What the shades stand for, from close to far."""
    parts = []
    for level in range(len(SHADES) - 1, 0, -1):
        if matrix.similarity:
            parts.append(f"{SHADES[level]} from {steps[level]:.3g}")
        else:
            parts.append(f"{SHADES[level]} to {steps[len(SHADES) - level]:.3g}")
    missing = f", {MISSING} no value" if bool(matrix.values.isnan().any()) else ""
    return f"{', '.join(parts)}, blank beyond{missing}"
