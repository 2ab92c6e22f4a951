"""gramian resize shrink: a smaller network cut from a larger one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gramian.cli.options import Device, Dtype, Force, Json, bar, waiting
from gramian.cli.resize.sizes import heads as read_heads
from gramian.cli.resize.sizes import size
from gramian.cli.resize.writing import Layers, Model, Output, finish


def shrink(
    model: Model,
    moments: Annotated[
        Path | None, typer.Option(help="What gramian collect --for resize wrote.")
    ] = None,
    width: Annotated[str | None, typer.Option(help="Features of the residual stream.")] = None,
    mlp: Annotated[str | None, typer.Option(help="Neurons of every MLP.")] = None,
    heads: Annotated[str | None, typer.Option(help="Query heads and heads of keys: 6/2.")] = None,
    layers: Layers = None,
    rescale: Annotated[
        str, typer.Option(help="variance (measured), count (sqrt(n / n')), none.")
    ] = "variance",
    refit: Annotated[
        bool, typer.Option("--refit", help="Fit what every matrix reads by least squares.")
    ] = False,
    output: Output = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    force: Force = False,
    json: Json = False,
) -> None:
    """A smaller network cut from a trained one: a start for training, not a finished model.

    The features, neurons and heads that do most stay, by second moments or else by the lengths of
    weights; blocks go from the middle. Train the result, or use gramian compress where no
    training is planned.

    Examples:

        gramian collect MODEL --data DATA --for resize -o m.moments

        gramian resize shrink MODEL --moments m.moments --width 384 --mlp 1024 --heads 6/2
        --layers 20 -o out/
    """
    from typing import Any, cast

    from gramian.compress import resize
    from gramian.moments import MomentSet
    from gramian.networks import open as open_checkpoint

    found = None if moments is None else MomentSet.open(moments)
    checkpoint = open_checkpoint(model, device=device, dtype=dtype)
    with waiting(f"reading the weights of {model}"):
        checkpoint.model  # noqa: B018
    present = resize.shape_of(checkpoint)
    with bar("choosing") as advance:
        plan = resize.shrink(
            checkpoint,
            found,
            width=size(width, "--width", present.width),
            mlp=size(mlp, "--mlp", present.mlp),
            heads=read_heads(heads),
            layers=layers,
            rescale=cast(Any, rescale),
            refit=refit,
            progress=advance,
        )
    finish(checkpoint, plan, output, json=json, force=force)
