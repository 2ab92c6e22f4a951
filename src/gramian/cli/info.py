"""gramian info: what is in a folder of moments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gramian.cli.machines import missing
from gramian.cli.options import Json, console, print_json


def info(
    moments: Annotated[Path, typer.Argument(help="A folder written by gramian collect.")],
    json: Json = False,
) -> None:
    """Check every file of a collection and say what it holds.

    Example:

        gramian info smollm2.moments
    """
    from gramian.moments import MomentSet
    from gramian.report.tables import record_table

    found = MomentSet.open(moments, verify=True)
    document: dict[str, Any] = found.describe()
    if json:
        print_json(document)
        return
    recipe = found.recipe
    second = recipe.partner
    joint = "" if second is None else f" and {second.model}, rows aligned by {second.align}"
    console.print(
        f"[bold]{moments}[/]: {recipe.model} (weights {recipe.weights[:12]}){joint}, windows of "
        f"{recipe.length}{' with BOS' if recipe.bos else ''}, template {recipe.template[:12]}, "
        f"products in {recipe.precision}; {found.nbytes / 1e6:,.1f} MB, every file verified",
        soft_wrap=True,
    )
    if found.shards is not None:
        console.print(missing(found, moments), soft_wrap=True, highlight=False)
    counts = [{"fold": fold, **count} for fold, count in found.counts.items()]
    console.print(record_table("folds", counts, ["fold", "documents", "tokens", "rows", "sinks"]))
    console.print(f"{len(found.sites)} sites: {_abbreviated(list(found.sites))}", soft_wrap=True)
    console.print(
        f"{len(found.pairs)} pairs: {_abbreviated([str(pair) for pair in found.pairs])}",
        soft_wrap=True,
    )


def _abbreviated(names: list[str], shown: int = 6) -> str:
    if len(names) <= shown:
        return ", ".join(names)
    return f"{', '.join(names[:shown])} and {len(names) - shown} more (--json lists them all)"
