"""gramian resize grow: a larger network that computes the same."""

from __future__ import annotations

from typing import Annotated, Any, cast

import typer

from gramian.cli.options import Device, Dtype, Force, Json, waiting
from gramian.cli.resize.sizes import heads as read_heads
from gramian.cli.resize.sizes import size
from gramian.cli.resize.writing import Layers, Model, Output, finish


def grow(
    model: Model,
    width: Annotated[
        str | None, typer.Option(help="Features of the residual stream: 2x, 1152.")
    ] = None,
    mlp: Annotated[str | None, typer.Option(help="Neurons of every MLP: 2x, 3072.")] = None,
    heads: Annotated[
        str | None, typer.Option(help="Query heads and heads of keys: 18/6; with the width.")
    ] = None,
    layers: Layers = None,
    layers_by: Annotated[
        str, typer.Option(help="zero (the same function), stack or interlace (another one).")
    ] = "zero",
    noise: Annotated[
        float, typer.Option(help="Let copies weigh differently by up to this share.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    output: Output = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    force: Force = False,
    json: Json = False,
) -> None:
    """A larger network with the same outputs, to train on.

    Features, neurons and heads are repeated and share their weights; new blocks add zero until
    they are trained. What was written is compared with the source before it gets its name.

    Examples:

        gramian resize grow bundled:smollm2 --width 2x --mlp 2x --layers 40 -o larger/

        gramian resize grow MODEL --mlp 2x --noise 0.5 -o wider/
    """
    from gramian.compress import resize
    from gramian.networks import open as open_checkpoint

    checkpoint = open_checkpoint(model, device=device, dtype=dtype)
    present = resize.shape_of(checkpoint)
    with waiting(f"reading the weights of {model}"):
        plan = resize.grow(
            checkpoint,
            width=size(width, "--width", present.width),
            mlp=size(mlp, "--mlp", present.mlp),
            heads=read_heads(heads),
            layers=layers,
            layers_by=cast(Any, layers_by),
            noise=noise,
            seed=seed,
        )
    finish(checkpoint, plan, output, json=json, force=force)
