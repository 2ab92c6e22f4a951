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
    plan = checkpoint.blueprint
    layers = [layer for layer in plan.layers if {"attn_in", "q", "k", "v"} <= set(layer.taps)]
    if not plan.causal or not layers:
        raise GramianError(
            f"{checkpoint.name} (a {plan.model_type} network) keeps no cache of keys and values "
            "from one token to the next; expected a causal language model"
        )
    return Needs.of(Need(f"{plan.main.prefix}{layer.index}.attn_in") for layer in layers)
