"""gramian compress rank: fewer directions in every linear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from gramian.cli.compress.finishing import Model, Moments, Of, Output, finish, percent
from gramian.cli.options import Device, Dtype, Force, Json, bar, waiting

if TYPE_CHECKING:
    from gramian.compress.compression import Of as Share

EXAMPLE = """
Examples:

    gramian collect bundled:smollm2 --data text.txt --tokens 16k --for rank -o m.moments

    gramian compress rank m.moments --model bundled:smollm2 --keep 80%

    gramian compress rank m.moments --model bundled:smollm2 --keep 80% --of model -o out/

    gramian compress rank m.moments --model bundled:smollm2 --keep 80% --dense -o out/

    gramian compress rank m.moments --model bundled:smollm2 --allocate uniform --metric none
"""


def rank(
    moments: Moments,
    model: Model,
    keep: Annotated[str, typer.Option(help="Share of the parameters to keep.")] = "80%",
    of: Of = "layers",
    allocate: Annotated[
        str, typer.Option(help="Share out by greedy, uniform, energy or threshold.")
    ] = "greedy",
    by_type: Annotated[
        bool, typer.Option("--by-type", help="The same share for q_proj, k_proj and so on.")
    ] = False,
    multiple: Annotated[
        int | None, typer.Option(help="Ranks are multiples of this; 16 for energy, else 1.")
    ] = None,
    metric: Annotated[
        str, typer.Option(help="What is known of inputs: full, diag (ASVD) or none (plain SVD).")
    ] = "full",
    alpha: Annotated[float, typer.Option(help="Power of the diagonal, with --metric diag.")] = 0.5,
    shrink: Annotated[
        float, typer.Option(help="Shrink second moments so far to their diagonal, 0 to 1.")
    ] = 0.0,
    centred: Annotated[
        bool | None,
        typer.Option(
            "--centred/--uncentred",
            help="Keep mean outputs by biases; by default of linears that have one.",
        ),
    ] = None,
    dense: Annotated[
        bool,
        typer.Option("--dense", help="Multiply factors out: as large, and it loads everywhere."),
    ] = False,
    output: Output = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    force: Force = False,
    json: Json = False,
) -> None:
    """Two thin factors in place of linears, nearest to what they gave."""
    from gramian.compress.rank import planning
    from gramian.errors import refuse_existing
    from gramian.moments import MomentSet
    from gramian.networks import open as open_checkpoint
    from gramian.solvers.truncate import Metric

    share = percent(keep, "--keep")
    if output is not None:
        refuse_existing(output, force=force)
    found = MomentSet.open(moments)
    checkpoint = open_checkpoint(model, device=device, dtype=dtype)
    with waiting(f"reading the weights of {model}"):
        checkpoint.digest  # noqa: B018
    with bar("solving linears") as advance:
        plan = planning.plan(
            checkpoint,
            found,
            keep=share,
            of=cast("Share", of),
            allocate=cast(planning.Allocate, allocate),
            by_type=by_type,
            multiple=multiple,
            metric=cast(Metric, metric),
            alpha=alpha,
            shrink=shrink,
            centred=centred,
            dense=dense,
            progress=advance,
        )
    finish(checkpoint, plan, output, json=json, force=force)


rank.__doc__ = (rank.__doc__ or "") + EXAMPLE
