"""Which moments depth methods read, so that every cut of every length has its fit."""

from __future__ import annotations

from itertools import pairwise

from gramian.errors import GramianError
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.needs import Need, Needs
from gramian.networks.sites import BETWEEN


def longest_cut(checkpoint: Checkpoint) -> int:
    """Blocks of the longest cut that is collected for unless told otherwise: a quarter of all."""
    return -(-checkpoint.blueprint.depth // 4)


def needs(
    checkpoint: Checkpoint, *, max_remove: int | None = None, linearity: bool = True
) -> Needs:
    """Moments for all cuts of up to ``max_remove`` consecutive blocks, from one collection.

    The map of a cut is fitted from the MLP's output before it to what the removed blocks add,
    the difference of the stream after and before them: of every MLP's output a cross scatter
    with the stream before the cut and with the stream at each of its possible ends. Every more
    block in the longest cut takes ``depth * d**2`` numbers more, so it is bounded. Cosines and
    squared distances of the stream at every two depths are a few hundred numbers in all.

    Parameters
    ----------
    max_remove : blocks in the longest cut; a quarter of the depth, rounded up, when None.
        Dropping needs none of these cross scatters: 0 leaves them all out.
    linearity : also the pairs from each block's input to what it adds, for its linearity score.

    Raises
    ------
    GramianError : a negative number of blocks.
    """
    blueprint = checkpoint.blueprint
    longest = longest_cut(checkpoint) if max_remove is None else max_remove
    if longest < 0:
        raise GramianError(f"max_remove is {longest}, expected a number of blocks of at least 0")
    prefix = blueprint.main.prefix
    residual = blueprint.residual_sites()
    items = [Need(f"{prefix}{site}", order="diagonal") for site in BETWEEN]
    items += [Need(site, order="diagonal") for site in residual]
    for layer in blueprint.layers[:-1]:
        # A norm after the MLP (Gemma) leaves no matrix for a map: those blocks are only dropped.
        if "mlp_out" in layer.writers and longest:
            ends = residual[layer.index + 1 : layer.index + 2 + longest]
            items += [Need(f"{prefix}{layer.index}.mlp_out", end) for end in ends]
    if linearity:
        items += [Need(a, b, increment=True) for a, b in pairwise(residual)]
    return Needs.of(items)


def needs_of_cut(checkpoint: Checkpoint, start: int, count: int) -> Needs:
    """What the fit of one cut reads: ``count`` blocks from ``start`` on."""
    blueprint = checkpoint.blueprint
    residual, prefix = blueprint.residual_sites(), blueprint.main.prefix
    source = f"{prefix}{start - 1}.mlp_out"
    return Needs.of([Need(source, residual[start]), Need(source, residual[start + count])])


def needs_of_scores(checkpoint: Checkpoint) -> Needs:
    """What the scores of blocks and cuts read, beside linearity."""
    blueprint = checkpoint.blueprint
    prefix = blueprint.main.prefix
    names = [*(f"{prefix}{site}" for site in BETWEEN), *blueprint.residual_sites()]
    return Needs.of(Need(name, order="diagonal") for name in names)
