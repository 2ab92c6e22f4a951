"""The comparison: a heat map per measure, and the closest layer of every layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gramian.report.section import Figure, Section, Series, Table, finite
from gramian.report.sections.places import short

if TYPE_CHECKING:
    from gramian.compare import Comparison, Matrix


def compare_section(comparison: Comparison, *, command: str, anchor: str = "compare") -> Section:
    """Every matrix as a heat map with its standard errors, and tables of the best matches."""
    first, second = comparison.models
    between = comparison.inside or first == second
    title = f"Layers of {first}" if between else f"{first} against {second}"
    kept, sinks = comparison.rows["kept"], comparison.rows["sinks"]
    intro = [
        f"{kept:,.0f} rows ({sinks:,.0f} sink rows apart) of {comparison.documents:,} documents."
    ]
    if not comparison.paired:
        other = comparison.rows["other_kept"]
        intro.append(
            f"The columns are {other:,.0f} rows collected apart: the shapes of the sites are "
            "compared, not their rows."
        )
    elif comparison.align is not None:
        intro.append(f"Rows of the two networks are aligned by {comparison.align}.")
    return Section(
        title=f"{title}, compared",
        anchor=anchor,
        intro=tuple(intro),
        figures=tuple(_heat_map(comparison, matrix) for matrix in comparison.matrices),
        tables=tuple(_best(matrix) for matrix in comparison.matrices),
        command=command,
        warnings=comparison.warnings,
    )


def _heat_map(comparison: Comparison, matrix: Matrix) -> Figure:
    rows, columns = short(matrix.x), short(matrix.y)
    values = matrix.values.tolist()
    errors = [[]] * len(rows) if matrix.errors is None else matrix.errors.tolist()
    series = tuple(
        Series(
            name,
            columns,
            values[i],
            [_pair(site, other, e) for other, e in _with(matrix.y, errors[i])],
            errors[i],
        )
        for i, (name, site) in enumerate(zip(rows, matrix.x, strict=True))
    )
    first, second = comparison.models
    inside = first == second
    return Figure(
        title=matrix.title,
        kind="heat map",
        x_title="layer" if inside else f"layer of {second}",
        y_title="layer" if inside else f"layer of {first}",
        series=series,
        value_title=matrix.measure,
        caption=f"{matrix.summary[:1].upper()}{matrix.summary[1:]}. "
        f"{'Larger' if matrix.similarity else 'Smaller'} is closer.",
        limits=(0.0, 1.0) if matrix.similarity else None,
    )


def _with(sites: tuple[str, ...], errors: list[float]) -> list[tuple[str, float | None]]:
    given = [finite(error) for error in errors] or [None] * len(sites)
    return list(zip(sites, given, strict=True))


def _pair(row: str, column: str, error: float | None) -> str:
    known = "" if error is None else f" (standard error {error:.2g})"
    return f"{row}, {column}{known}"


def _best(matrix: Matrix) -> Table:
    rows = tuple((best.site, best.match, best.value, best.error) for best in matrix.best())
    columns = ("site", "closest other site", matrix.measure, "standard error")
    return Table(f"Closest layers by {matrix.title}", columns, rows)
