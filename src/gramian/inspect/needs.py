"""Which moments an inspection reads."""

from __future__ import annotations

from gramian.networks.checkpoint import Checkpoint
from gramian.networks.needs import Need, Needs, linears


def needs(checkpoint: Checkpoint, *, inputs: bool = False) -> Needs:
    """Full moments of the residual stream before every layer and before the final norm.

    ``inputs`` adds the input of every linear layer, which the utilised rank reads (the same as
    ``collect --for linears``); it costs several times as much. An inspection takes whatever a set
    holds: moments collected for another job serve as well.
    """
    residual = Needs.of(Need(site) for site in checkpoint.blueprint.residual_sites())
    return residual + linears(checkpoint) if inputs else residual
