"""gramian inspect: what the moments of a network say, site by site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gramian.cli.options import (
    Device,
    Dtype,
    Force,
    Json,
    bar,
    command_line,
    console,
    print_json,
    waiting,
)
from gramian.errors import refuse_existing

EXAMPLE = """
Examples:

    gramian inspect m.moments --sites "*.resid_pre,final"

    gramian inspect m.moments --model bundled:smollm2 --energy 0.95 --json
"""


def inspect(
    moments: Annotated[Path, typer.Argument(help="A folder written by gramian collect.")],
    model: Annotated[
        str | None, typer.Option(help="The model they are of: adds utilised ranks.")
    ] = None,
    sites: Annotated[str, typer.Option(help="Patterns of sites, by comma.")] = "*",
    energy: Annotated[float, typer.Option(help="Variance that utilised directions hold.")] = 0.99,
    threshold: Annotated[
        float, typer.Option(help="Times the median channel that make a loud channel.")
    ] = 6.0,
    plot: Annotated[Path | None, typer.Option(help="Write an HTML page.")] = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    force: Force = False,
    json: Json = False,
) -> None:
    """Spread, loud channels and sink rows of every site; with the model, what its weights use."""
    from gramian.inspect import inspect as run
    from gramian.moments import MomentSet
    from gramian.networks import open as open_checkpoint
    from gramian.report.inspect_tables import cautions_table, inspect_tables

    if plot is not None:
        refuse_existing(plot, force=force)
    found = MomentSet.open(moments)
    checkpoint = None
    if model is not None:
        checkpoint = open_checkpoint(model, device=device, dtype=dtype)
        with waiting(f"reading the weights of {model}"):
            checkpoint.digest  # noqa: B018
    patterns = [part.strip() for part in sites.split(",") if part.strip()] or ["*"]
    with bar("inspecting", len(found.sites)) as advance:
        inspection = run(
            found, checkpoint, sites=patterns, energy=energy, threshold=threshold, progress=advance
        )
    if plot is not None:
        from gramian.report import write_page
        from gramian.report.sections.inspect import inspect_section

        section = inspect_section(inspection, command=command_line())
        write_page([section], plot, title=f"Gramian inspect: {inspection.model}", force=force)
    if json:
        print_json(inspection.to_json())
        return
    rows = max(site.rows for site in inspection.sites)
    console.print(
        f"[bold]{moments}[/]: {inspection.model}, {len(inspection.sites)} sites, {rows:,.0f} rows "
        f"of the folds {', '.join(inspection.folds)}; sink rows left out",
        soft_wrap=True,
    )
    for table in inspect_tables(inspection):
        console.print(table)
    cautions = cautions_table(inspection.sites)
    if cautions is not None:
        console.print(cautions)
    if inspection.mean_utilisation is not None:
        console.print(
            f"mean layer utilisation: {inspection.mean_utilisation:.1%} of the full rank of "
            f"{len(inspection.linears)} linear layers at {energy:.4g} of the variance"
        )
    for note in inspection.notes:
        console.print(f"note: {note}", soft_wrap=True)
    if plot is not None:
        console.print(f"plot: {plot}")


inspect.__doc__ = (inspect.__doc__ or "") + EXAMPLE
