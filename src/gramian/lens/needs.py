"""Which moments the lens reads."""

from __future__ import annotations

from itertools import pairwise

from gramian.networks.checkpoint import Checkpoint
from gramian.networks.needs import Need, Needs


def needs(checkpoint: Checkpoint, *, submodules: bool = True) -> Needs:
    """Moments for casts from every layer to the last and to the next one.

    The residual targets are increments ``y - x``; ``submodules`` adds the attention and the MLP
    of every layer, from what they read to what they add.
    """
    checkpoint.require_logits("the lens")
    blueprint = checkpoint.blueprint
    residual = blueprint.residual_sites()
    items = [Need(site, "final", increment=True) for site in residual[:-1]]
    items += [Need(a, b, increment=True) for a, b in pairwise(residual)]
    if submodules:
        for layer in blueprint.layers:
            items.append(Need(f"{layer.index}.attn_in", f"{layer.index}.attn_out"))
            items.append(Need(f"{layer.index}.mlp_in", f"{layer.index}.mlp_out"))
    return Needs.of(items)
