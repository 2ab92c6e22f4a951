"""gramian compress slice: fewer features in the residual stream."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from gramian.cli.compress.finishing import Model, Moments, Of, Output, finish, percent
from gramian.cli.options import Device, Dtype, Force, Json, console, waiting
from gramian.errors import GramianError

EXAMPLE = """
Examples:

    gramian collect bundled:smollm2 --data text.txt --for slice -o m.moments

    gramian compress slice m.moments --model bundled:smollm2 --keep 80%

    gramian compress slice m.moments --model bundled:smollm2 --keep 80% -o sliced/

The residual stream is turned into its principal directions, and the last ones are cut off from
every matrix: an ordinary checkpoint with a smaller hidden_size. The table of sizes is of this very
network: one with a small body and a large vocabulary becomes larger, since its head can no longer
share the token table.
"""


def slice(
    moments: Moments,
    model: Model,
    keep: Annotated[str, typer.Option(help="Share of the directions to keep: 80% or 0.8.")],
    output: Output = None,
    rotation: Annotated[
        str, typer.Option(help="One for all places, shared, or per-site: sizes alone.")
    ] = "shared",
    multiple: Annotated[
        int | None,
        typer.Option(help="The width is one of this; default 8, or the heads where it must be."),
    ] = None,
    head: Annotated[str, typer.Option(help="untied, or tied where the network allows it.")] = (
        "untied"
    ),
    of: Of = "layers",
    device: Device = "cpu",
    dtype: Dtype = "float32",
    force: Force = False,
    json: Json = False,
) -> None:
    """Cut directions of the residual stream off from every matrix."""
    from gramian.compress import slicing
    from gramian.moments import MomentSet
    from gramian.networks import open as open_checkpoint

    share = percent(keep, "--keep")
    if rotation not in ("shared", "per-site"):
        raise GramianError(f"--rotation {rotation!r}: expected shared or per-site")
    if head not in ("untied", "tied"):
        raise GramianError(f"--head {head!r}: expected untied or tied")
    if of not in ("layers", "model"):
        raise GramianError(f"--of {of!r}: expected layers or model")
    if rotation == "per-site":
        raise GramianError(
            "--rotation per-site: a rotation for every place needs a matrix on every shortcut, "
            "which no ordinary checkpoint has; --rotation shared prints what it would weigh, and "
            "gramian.compress.slicing.simulated measures it in memory"
        )
    checkpoint = open_checkpoint(model, device=device, dtype=dtype)
    with waiting("taking the basis of the stream"):
        plan = slicing.plan(
            checkpoint,
            MomentSet.open(moments),
            keep=share,
            of=of,  # type: ignore[arg-type]
            multiple=multiple,
            head=head,  # type: ignore[arg-type]
        )
    if not json:
        _print_sizes(plan.evidence)
    finish(checkpoint, plan, output, json=json, force=force)


def _print_sizes(found: Any) -> None:
    table = Table("rotation", "head", "parameters", "of the model", "ordinary checkpoint")
    table.title = (
        f"{found['width_after']} of {found['width_before']} directions: how large every form of "
        "slicing is"
    )
    for one in found["sizes"]:
        table.add_row(
            one["rotation"],
            one["head"],
            f"{one['parameters']:,}",
            f"{one['share']:.1%}",
            "yes" if one["ordinary"] else "no",
        )
    console.print(table)
    console.print(
        f"{found['discarded_report']:.2%} of the energy lies outside on report (mean of "
        f"{len(found['sites'])} places)"
    )


slice.__doc__ = (slice.__doc__ or "") + EXAMPLE
