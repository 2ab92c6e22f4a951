"""Which moments shrinking reads."""

from __future__ import annotations

from gramian.networks import Checkpoint, Need, Needs

SITES = ("attn_in", "z", "mlp_in", "mlp_mid")


def needs(checkpoint: Checkpoint, *, refit: bool = True) -> Needs:
    """Second moments of what every matrix reads, and of the end of the residual stream.

    ``refit=False`` asks for their diagonals alone: how large every feature is. That is enough to
    choose and to rescale; the least squares of ``shrink(..., refit=True)`` need them whole.
    """
    order = "full" if refit else "diagonal"
    found = [Need("final", order="diagonal")]
    for layer in checkpoint.blueprint.layers:
        for site in SITES:
            if site in layer.taps:
                found.append(Need(f"{layer.index}.{site}", order=order))  # type: ignore[arg-type]
    return Needs.of(found)
