"""Which moments slicing reads: the residual stream at every place where something reads it."""

from __future__ import annotations

from gramian.networks import Checkpoint, Need, Needs


def stream_sites(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The residual stream before every branch and before the final norm, in network order."""
    blueprint = checkpoint.blueprint
    found: list[str] = []
    for layer in blueprint.layers:
        found.append(f"{layer.index}.resid_pre")
        if "resid_mid" in layer.taps:
            found.append(f"{layer.index}.resid_mid")
    return (*found, "final")


def needs(checkpoint: Checkpoint) -> Needs:
    """The full second moments of the residual stream before every branch and at the end.

    Raises
    ------
    GramianError : the network has no one residual stream from a token table to a head.
    """
    checkpoint.require_logits("slicing")
    return Needs.of(Need(site) for site in stream_sites(checkpoint))
