"""Which moments choose heads."""

from __future__ import annotations

from gramian.errors import GramianError
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.needs import Need, Needs


def needs(checkpoint: Checkpoint) -> Needs:
    """The second moments of what the heads of every layer give, ``z``, whole.

    Raises
    ------
    GramianError : a layer without attention.
    """
    prefix = checkpoint.blueprint.main.prefix
    for layer in checkpoint.blueprint.layers:
        if "z" not in layer.taps:
            raise GramianError(
                f"layer {layer.index} of this {checkpoint.blueprint.model_type} network has no "
                "attention heads that are known"
            )
    return Needs.of(Need(f"{prefix}{layer.index}.z") for layer in checkpoint.blueprint.layers)
