"""The end of every compression: show the plan, and carry it out where a folder was named."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from gramian.cli.options import console, errors, print_json, waiting
from gramian.errors import GramianError, refuse_existing
from gramian.networks import Checkpoint, Plan, apply

Moments = Annotated[Path, typer.Argument(help="The folder that gramian collect wrote.")]
Model = Annotated[str, typer.Option(help="The model that the moments are of.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write the checkpoint here.")]
Of = Annotated[str, typer.Option(help="What --keep counts: the layers treated, or the model.")]


def percent(text: str, what: str) -> float:
    """Read ``75%`` or ``0.75``.

    Raises
    ------
    GramianError : neither, or outside (0, 1].
    """
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value <= 1:
        raise GramianError(f"{what} {text!r}: expected a share such as 75% or 0.75, at most 100%")
    return value


def finish(
    checkpoint: Checkpoint, plan: Plan, output: Path | None, *, json: bool, force: bool
) -> None:
    """Print the plan; with ``output`` write the checkpoint and print what was certified."""
    document: dict[str, Any] = {**plan.evidence, "out": None if output is None else str(output)}
    if not json:
        print_plan(plan)
        for warning in document["warnings"]:
            errors.print(f"[yellow]warning:[/] {warning}", soft_wrap=True)
    if output is not None:
        refuse_existing(output, force=force)
        with waiting(f"writing {output} and reading it again"):
            certified = apply(checkpoint, plan, output, force=force)
        document |= {"loads_in": dict(certified.loads_in), "bytes": certified.bytes}
        if not json:
            console.print(f"[bold]{output}[/]: {certified}", soft_wrap=True)
    elif not json:
        console.print("Nothing is written; give -o FOLDER to write it.")
    if json:
        print_json(document)


def print_plan(plan: Plan) -> None:
    """Sizes, layers, and where the result would load."""
    found = plan.evidence
    removed = found["removed"]
    console.print(
        f"[bold]{found['method']}[/] of {plan.model}: {found['parameters']:,} parameters of "
        f"{found['parameters_before']:,} ({removed['of_layers']:.1%} of the layers treated, "
        f"{removed['of_model']:.1%} of the model removed), {found['bytes'] / 1e6:,.1f} MB of "
        f"{found['bytes_before'] / 1e6:,.1f}, {found['kv_bytes_per_token']:,} bytes of keys and "
        f"values per token of {found['kv_bytes_per_token_before']:,}",
        soft_wrap=True,
    )
    if found["rows_per_dimension"] is not None:
        console.print(f"{found['rows_per_dimension']:.1f} rows per dimension")
    console.print(_layers(found["layers"]))
    loads = Table("program", "loads", title="Where the result loads")
    for program, how in found["loads_in"].items():
        loads.add_row(program, how)
    console.print(loads)


def _layers(entries: list[dict[str, Any]]) -> Table:
    parts = any("part" in entry for entry in entries)
    table = Table("layer", *(["part"] if parts else []), "kept", "predicted error on report")
    for entry in entries:
        error = entry["error_report"]
        table.add_row(
            str(entry["layer"]),
            *([entry.get("part", "")] if parts else []),
            f"{entry['kept']:.1%}",
            "" if error is None else f"{error:.4f}",
        )
    return table
