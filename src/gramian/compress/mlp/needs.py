"""Which moments choose neurons."""

from __future__ import annotations

from gramian.networks.checkpoint import Checkpoint
from gramian.networks.moves.select_neurons import neurons
from gramian.networks.needs import Need, Needs


def needs(checkpoint: Checkpoint) -> Needs:
    """The second moments of the neurons of every MLP, whole.

    They are the widest of all sites: 8 bytes times the square of the neurons, for each fold and
    layer. That is 19 MB for 1536 neurons and 970 MB for 11008; ``needs(...).cost(checkpoint)``
    tells the sum, and collecting within a memory budget takes the layers in turns.

    Raises
    ------
    GramianError : a network with experts, whose neurons are not those of one MLP.
    """
    for layer in checkpoint.blueprint.layers:
        neurons(checkpoint.blueprint, layer)
    prefix = checkpoint.blueprint.main.prefix
    return Needs.of(Need(f"{prefix}{layer.index}.mlp_mid") for layer in checkpoint.blueprint.layers)
