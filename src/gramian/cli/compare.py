"""gramian compare: every layer against every other, inside a network or between two."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gramian.cli.options import Force, Json, bar, command_line, console, errors, print_json
from gramian.errors import refuse_existing

EXAMPLE = """
Examples:

    gramian collect bundled:smollm2 --data bundled:pydocs --for compare -o m.moments

    gramian compare m.moments

    gramian collect MODEL_A MODEL_B --data bundled:pydocs --for compare -o ab.moments

    gramian compare ab.moments --measure cka,svcca,angular --sinks --plot compare.html

    gramian compare a.moments b.moments --json

Measures: cka, cka_plain, cka_standardised, cca, cca_r2, svcca, pwcca, regression_r2, procrustes,
angular; of two sets collected apart only spectral, bures, frechet.
"""


def compare(
    moments: Annotated[Path, typer.Argument(help="A folder written by gramian collect.")],
    other: Annotated[
        Path | None, typer.Argument(help="A second one, collected apart: no paired rows.")
    ] = None,
    measure: Annotated[
        str | None, typer.Option(help="Measures, by comma (see below); default: cka and more.")
    ] = None,
    sites: Annotated[
        str | None, typer.Option(help="Sites, by comma; 'rows/columns' for two lists.")
    ] = None,
    sinks: Annotated[
        bool, typer.Option("--sinks", help="Also with the sink rows counted.")
    ] = False,
    inside: Annotated[
        str | None, typer.Option(help="a or b: within one network of a joint collection.")
    ] = None,
    standard_errors: Annotated[
        bool | None,
        typer.Option("--errors/--no-errors", help="Standard errors also of costly measures."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write an HTML page.")] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """How alike layers are: each against each, from moments alone."""
    from gramian.compare import compare as run
    from gramian.moments import MomentSet
    from gramian.report.compare_tables import columns_line, compare_tables

    if plot is not None:
        refuse_existing(plot, force=force)
    found = MomentSet.open(moments)
    second = None if other is None else MomentSet.open(other)
    with bar("comparing") as advance:
        comparison = run(
            found,
            second,
            measures=None if measure is None else _names(measure),
            sites=_sites(sites),
            sinks=sinks,
            inside=inside,
            errors=standard_errors,
            progress=advance,
        )
    if plot is not None:
        from gramian.report import write_page
        from gramian.report.sections.compare import compare_section

        section = compare_section(comparison, command=command_line())
        write_page([section], plot, title="Gramian compare", force=force)
    if json:
        print_json(comparison.to_json())
        return
    a, b = comparison.models
    models = a if a == b else f"{a} (rows) and {b} (columns)"
    rows = f"{comparison.rows['kept']:,} rows and {comparison.rows['sinks']:,} sink rows"
    if not comparison.paired:
        rows += f" against {comparison.rows['other_kept']:,} rows collected apart"
    aligned = f", rows aligned by {comparison.align}" if comparison.align else ""
    console.print(
        f"[bold]{models}[/]: {rows} of {comparison.documents:,} documents{aligned}",
        soft_wrap=True,
    )
    for table in compare_tables(comparison):
        console.print(table)
    console.print(columns_line(comparison.matrices[0]), soft_wrap=True)
    for warning in comparison.warnings:
        errors.print(f"[yellow]note:[/] {warning}", soft_wrap=True)
    if plot is not None:
        console.print(f"plot: {plot}")


compare.__doc__ = (compare.__doc__ or "") + EXAMPLE


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _sites(text: str | None) -> tuple[list[str], list[str]] | list[str] | None:
    """Read ``0.resid_pre,final`` or ``a:final/b:0.resid_pre,b:final``."""
    if text is None:
        return None
    rows, slash, columns = text.partition("/")
    return (_names(rows), _names(columns)) if slash else _names(rows)
