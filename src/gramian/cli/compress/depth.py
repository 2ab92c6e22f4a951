"""gramian compress depth: remove blocks, with a linear map in their place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.table import Table

from gramian.cli.compress.finishing import Model, Output, finish
from gramian.cli.options import Device, Dtype, Force, Json, console, print_json, waiting
from gramian.errors import GramianError

EXAMPLE = """
Examples:

    gramian collect MODEL --data TEXT --for depth -o m.moments

    gramian compress depth m.moments --model MODEL --scores

    gramian compress depth m.moments --model MODEL --remove 3 -o out/

    gramian compress depth m.moments --model MODEL --layers 12,13,14 --method drop -o out/

    gramian compress depth --model MODEL --remove 3 --method laco --data TEXT -o out/
"""


def depth(
    moments: Annotated[
        Path | None, typer.Argument(help="The folder that gramian collect wrote; laco reads none.")
    ] = None,
    model: Model = "",
    remove: Annotated[int | None, typer.Option(help="Blocks to remove in all.")] = None,
    method: Annotated[
        str, typer.Option(help="replace by a linear map, drop, or laco.")
    ] = "replace",
    cuts: Annotated[int, typer.Option(help="Runs of blocks at most.")] = 1,
    layers: Annotated[
        str | None, typer.Option(help="The blocks to remove, by comma, instead of --remove.")
    ] = None,
    by: Annotated[
        str, typer.Option(help="Choose cuts by angular distance, influence or residual.")
    ] = "angular",
    objective: Annotated[
        str, typer.Option(help="Of the map: ls; weighted or cosine (collect with --rows).")
    ] = "ls",
    ridge: Annotated[
        float | None, typer.Option(help="Towards the identity; chosen on select by default.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="For laco: a few documents that merges are checked on.")
    ] = None,
    span: Annotated[int, typer.Option(help="For laco: blocks that one merge takes together.")] = 4,
    threshold: Annotated[
        float | None, typer.Option(help="For laco: least cosine; lowered by default as needed.")
    ] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="Print the scores of all blocks.")
    ] = False,
    output: Output = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    force: Force = False,
    json: Json = False,
) -> None:
    """Remove whole blocks; a linear map of the MLP before them takes their place."""
    from gramian.compress import depth as room
    from gramian.data import documents
    from gramian.errors import refuse_existing
    from gramian.moments import MomentSet
    from gramian.networks import open as open_checkpoint

    if not model:
        raise GramianError("give the model that the moments are of with --model")
    if output is not None:
        refuse_existing(output, force=force)
    if moments is None and (method != "laco" or scores):
        raise GramianError("give the folder that gramian collect --for depth wrote")
    found = None if moments is None else MomentSet.open(moments)
    checkpoint = open_checkpoint(model, device=device, dtype=dtype)
    with waiting(f"reading the weights of {model}"):
        checkpoint.digest  # noqa: B018
    if scores:
        assert found is not None
        with waiting("scoring blocks"):
            scored = room.scores(checkpoint, found)
        _print_scores(scored, json=json)
        return
    options: dict[str, Any] = {}
    if method == "laco":
        options = {"span": span, "threshold": threshold}
        if data is not None:
            options["docs"] = documents(data)
    elif data is not None:
        raise GramianError("--data goes with --method laco; the others read moments")
    with waiting("planning"):
        plan = room.plan(
            checkpoint,
            found,
            remove=remove,
            method=cast(room.Method, method),
            cuts=cuts,
            layers=None if layers is None else numbers(layers),
            by=cast(room.By, by),
            objective=cast(room.Objective, objective),
            ridge=ridge,
            **options,
        )
    finish(checkpoint, plan, output, json=json, force=force)


depth.__doc__ = (depth.__doc__ or "") + EXAMPLE


def numbers(text: str) -> tuple[int, ...]:
    """Read ``12,13,14`` or ``12-14``.

    Raises
    ------
    GramianError : neither.
    """
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            found += range(int(first), int(last) + 1) if dash else [int(first)]
        except ValueError:
            raise GramianError(
                f"--layers {text!r}: expected numbers of blocks such as 12,13,14 or 12-14"
            ) from None
    return tuple(found)


def _print_scores(scored: Any, *, json: bool) -> None:
    writer = scored.sink_writer
    if json:
        print_json(
            {
                "sink_writer": None if writer is None else writer.layer,
                "blocks": [block.to_json() for block in scored.blocks],
            }
        )
        return
    names = ("block", "cosine", "angular", "influence", "change", "explained", "linearity", "sinks")
    table = Table(*names, title="What every block does to the residual stream")
    for block in scored.blocks:
        figures = (
            block.cosine,
            block.angular,
            block.influence,
            block.change,
            block.explained,
            block.linearity,
            block.cosine_sinks,
        )
        table.add_row(str(block.layer), *("" if x is None else f"{x:.3f}" for x in figures))
    console.print(table)
    if writer is not None:
        console.print(str(writer), soft_wrap=True)
