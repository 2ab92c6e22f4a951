"""The end of both commands: show the plan, and carry it out where a folder was named."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from gramian.cli.options import console, errors, print_json, waiting
from gramian.errors import refuse_existing
from gramian.networks import Checkpoint, Plan, apply

Model = Annotated[str, typer.Argument(help="A folder, a .gguf, a hub id, bundled:smollm2.")]
Layers = Annotated[int | None, typer.Option(help="Number of blocks.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write the checkpoint here.")]

NAMES = {
    "width": "features of the stream",
    "mlp": "neurons of an MLP",
    "heads": "query heads",
    "key_heads": "heads of keys",
    "head_dim": "features of a head",
    "layers": "blocks",
}


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
        document |= {
            "loads_in": dict(certified.loads_in),
            "bytes": certified.bytes,
            "certificate": {
                "reference_error": certified.reference_error,
                "tolerance": certified.tolerance,
                "change": certified.change,
                "agreement": certified.agreement,
            },
        }
        if not json:
            console.print(f"[bold]{output}[/]: {certified}", soft_wrap=True)
    elif not json:
        console.print("Nothing is written; give -o FOLDER to write it.")
    if json:
        print_json(document)


def print_plan(plan: Plan) -> None:
    """Sizes before and after, and whether the function stays."""
    found = plan.evidence
    console.print(
        f"[bold]{found['method']}[/] of {plan.model}: {found['parameters']:,} parameters "
        f"({found['parameters_before']:,} before), {found['bytes'] / 1e6:,.1f} MB "
        f"({found['bytes_before'] / 1e6:,.1f}), {found['kv_bytes_per_token']:,} bytes of keys and "
        f"values per token ({found['kv_bytes_per_token_before']:,})",
        soft_wrap=True,
    )
    table = Table("", "before", "after")
    for name, words in NAMES.items():
        table.add_row(words, str(found["shape_before"][name]), str(found["shape"][name]))
    console.print(table)
    if found["function"] == "unchanged":
        console.print("The function stays what it was:")
        for reason in found["why_unchanged"]:
            console.print(f"  {reason}", soft_wrap=True)
    else:
        console.print("The function changes.")
    if any(entry["error_report"] is not None for entry in found["layers"]):
        console.print(_errors(found["layers"]))
    loads = Table("program", "loads", title="Where the result loads")
    for program, how in found["loads_in"].items():
        loads.add_row(program, how)
    console.print(loads)


def _errors(entries: list[dict[str, Any]]) -> Table:
    table = Table("layer", "read at", "kept", "predicted error on report")
    for entry in entries:
        error = entry["error_report"]
        table.add_row(
            str(entry["layer"]),
            entry["part"],
            f"{entry['kept']:.1%}",
            "" if error is None else f"{error:.4f}",
        )
    return table
