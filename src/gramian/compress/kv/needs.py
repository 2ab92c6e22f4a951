"""What has to be collected before a cache is cut."""

from __future__ import annotations

from gramian.errors import GramianError
from gramian.networks import Checkpoint, Need, Needs


def needs(checkpoint: Checkpoint) -> Needs:
    """Second moments of the input of every attention (``attn_in``).

    Those of queries, keys and values follow through the weights, those of rotated keys by
    averaging over positions: no other site is collected.

    Raises
    ------
    GramianError : the network keeps no keys and values from one token to the next.
    """
    checkpoint.require_logits("compress kv")
    layers = [layer for layer in checkpoint.blueprint.layers if {"q", "k", "v"} <= set(layer.taps)]
    if not layers:
        raise GramianError(
            f"{checkpoint.name} (a {checkpoint.blueprint.model_type} network) has no attention "
            "whose keys and values are known; there is no cache to cut"
        )
    return Needs.of(Need(f"{layer.index}.attn_in") for layer in layers)
