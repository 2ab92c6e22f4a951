"""gramian compress kv: a smaller cache of keys and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from gramian.cli.compress.finishing import Model, Moments, Output, finish, percent
from gramian.cli.options import Device, Dtype, Force, Json, bar, console, waiting

if TYPE_CHECKING:
    from gramian.compress.kv.cutting import Method, Metric
    from gramian.compress.kv.planning import Allocate

EXAMPLE = """
Examples:

    gramian collect bundled:smollm2 --data text.txt --tokens 16k --for kv -o m.moments

    gramian compress kv m.moments --model bundled:smollm2 --keep 75%

    gramian compress kv m.moments --model bundled:smollm2 --keep 50% -o half-cache/

    gramian compress kv m.moments --model bundled:smollm2 --keys 50% --values 100% --groups head
"""


def kv(
    moments: Moments,
    model: Model,
    keep: Annotated[str | None, typer.Option(help="Share of the cache to keep: 50%.")] = None,
    keys: Annotated[str | None, typer.Option(help="Instead: share of the keys.")] = None,
    values: Annotated[str | None, typer.Option(help="And share of the values.")] = None,
    method: Annotated[
        str, typer.Option(help="palu, matryoshka (behind the rotation), svd (no data).")
    ] = "palu",
    groups: Annotated[
        str | None, typer.Option(help="Heads that share a basis: head, joint, or a number.")
    ] = None,
    metric: Annotated[
        str, typer.Option(help="Count errors where they are read, or plain.")
    ] = "read",
    allocate: Annotated[str, typer.Option(help="greedy, or uniform.")] = "greedy",
    multiple: Annotated[int, typer.Option(help="Ranks are multiples of this.")] = 1,
    centre: Annotated[
        bool, typer.Option("--centre/--no-centre", help="Put means into biases.")
    ] = False,
    sinks: Annotated[
        str, typer.Option(help="What the first token and its like weigh in the fit.")
    ] = "10%",
    dense: Annotated[
        bool,
        typer.Option("--dense", help="Multiply out: loads everywhere, caches as much as before."),
    ] = False,
    output: Output = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    force: Force = False,
    json: Json = False,
) -> None:
    """Keys and values in fewer directions: a cache that takes less memory per token.

    The folder carries its own modelling code; generate() then caches the coordinates alone.
    """
    from gramian.compress.kv import planning
    from gramian.moments import MomentSet
    from gramian.networks import open as open_checkpoint

    given = {"--keep": keep, "--keys": keys, "--values": values}
    shares = {name: None if text is None else percent(text, name) for name, text in given.items()}
    if not any(given.values()):
        shares["--keep"] = 0.5
    found = MomentSet.open(moments)
    checkpoint = open_checkpoint(model, device=device, dtype=dtype)
    with waiting(f"reading the weights of {model}"):
        checkpoint.digest  # noqa: B018
    with bar("cutting keys and values", checkpoint.blueprint.depth) as advance:
        plan = planning.plan(
            checkpoint,
            found,
            keep=shares["--keep"],
            keys=shares["--keys"],
            values=shares["--values"],
            method=cast("Method", method),
            groups=groups,
            metric=cast("Metric", metric),
            allocate=cast("Allocate", allocate),
            multiple=multiple,
            centre=centre,
            sinks=percent(sinks, "--sinks"),
            dense=dense,
            progress=advance,
        )
    if not json:
        kept = plan.evidence["kept"]
        console.print(f"{kept['k']:.1%} of the keys and {kept['v']:.1%} of the values are cached")
    finish(checkpoint, plan, output, json=json, force=force)


kv.__doc__ = (kv.__doc__ or "") + EXAMPLE
