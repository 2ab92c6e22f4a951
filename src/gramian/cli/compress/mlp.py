"""gramian compress mlp: fewer neurons in every MLP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from gramian.cli.compress.finishing import Model, Moments, Of, Output, finish, percent
from gramian.cli.options import Device, Dtype, Force, Json, bar, waiting

if TYPE_CHECKING:
    from gramian.compress.compression import Of as Share

EXAMPLE = """
Examples:

    gramian collect bundled:smollm2 --data text.txt --tokens 16k --for mlp -o m.moments

    gramian compress mlp m.moments --model bundled:smollm2 --keep 75%

    gramian compress mlp m.moments --model bundled:smollm2 --keep 75% --multiple 256 -o narrower/

    gramian compress mlp m.moments --model bundled:smollm2 --keep 75% --select norm --no-refit
"""


def mlp(
    moments: Moments,
    model: Model,
    keep: Annotated[
        str, typer.Option(help="Share of the neurons to keep, 75%, or their number, 1152.")
    ] = "75%",
    of: Of = "layers",
    multiple: Annotated[
        int, typer.Option(help="Keep a multiple of this; k-quants of llama.cpp need 256.")
    ] = 1,
    select: Annotated[
        str, typer.Option(help="Choose by eliminate, leverage, pivoted or norm.")
    ] = "eliminate",
    refit: Annotated[
        bool, typer.Option("--refit/--no-refit", help="Refit what reads the neurons.")
    ] = True,
    output: Output = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    force: Force = False,
    json: Json = False,
) -> None:
    """Fewer neurons in every MLP, refitted: an ordinary, narrower checkpoint."""
    from gramian.compress.mlp import planning
    from gramian.compress.mlp.choosing import Selection
    from gramian.moments import MomentSet
    from gramian.networks import open as open_checkpoint

    number = keep.isdecimal() and int(keep) > 1
    share = 1.0 if number else percent(keep, "--keep")
    found = MomentSet.open(moments)
    checkpoint = open_checkpoint(model, device=device, dtype=dtype)
    with waiting(f"reading the weights of {model}"):
        checkpoint.digest  # noqa: B018
    with bar("choosing neurons", checkpoint.blueprint.depth) as advance:
        plan = planning.plan(
            checkpoint,
            found,
            keep=share,
            width=int(keep) if number else None,
            multiple=multiple,
            of=cast("Share", of),
            select=cast(Selection, select),
            refit=refit,
            progress=advance,
        )
    finish(checkpoint, plan, output, json=json, force=force)


mlp.__doc__ = (mlp.__doc__ or "") + EXAMPLE
