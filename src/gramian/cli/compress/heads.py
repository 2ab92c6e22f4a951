"""gramian compress heads: fewer attention heads in every layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from gramian.cli.compress.finishing import Model, Moments, Of, Output, finish, percent
from gramian.cli.options import Device, Dtype, Force, Json, bar, waiting

if TYPE_CHECKING:
    from gramian.compress.compression import Of as Share

EXAMPLE = """
Examples:

    gramian collect bundled:smollm2 --data text.txt --tokens 16k --for heads -o m.moments

    gramian compress heads m.moments --model bundled:smollm2 --keep 6

    gramian compress heads m.moments --model bundled:smollm2 --keep 6 --within -o fewer-heads/
"""


def heads(
    moments: Moments,
    model: Model,
    keep: Annotated[str, typer.Option(help="Query heads to keep, 6, or a share of them, 67%.")],
    of: Of = "layers",
    within: Annotated[
        bool,
        typer.Option("--within", help="Take query heads inside the groups; keep keys and values."),
    ] = False,
    select: Annotated[str, typer.Option(help="Choose by eliminate or norm.")] = "eliminate",
    refit: Annotated[
        bool, typer.Option("--refit/--no-refit", help="Refit what reads the heads.")
    ] = True,
    output: Output = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    force: Force = False,
    json: Json = False,
) -> None:
    """Fewer attention heads, whole groups of them, refitted: an ordinary checkpoint."""
    from gramian.compress.heads import planning
    from gramian.moments import MomentSet
    from gramian.networks import open as open_checkpoint

    wanted = int(keep) if keep.isdecimal() else percent(keep, "--keep")
    found = MomentSet.open(moments)
    checkpoint = open_checkpoint(model, device=device, dtype=dtype)
    with waiting(f"reading the weights of {model}"):
        checkpoint.digest  # noqa: B018
    with bar("choosing heads", checkpoint.blueprint.depth) as advance:
        plan = planning.plan(
            checkpoint,
            found,
            keep=wanted,
            within=within,
            of=cast("Share", of),
            select=cast(planning.Selection, select),
            refit=refit,
            progress=advance,
        )
    finish(checkpoint, plan, output, json=json, force=force)


heads.__doc__ = (heads.__doc__ or "") + EXAMPLE
