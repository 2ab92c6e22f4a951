"""Linearity of every layer: with and without sink rows, with and without the residual."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from gramian.lens.casts import check
from gramian.measures import linearity
from gramian.moments import FOLDS, MomentSet
from gramian.networks.checkpoint import Checkpoint


@dataclass(frozen=True)
class LayerLinearity:
    """Linearity of the step from one residual site to the next (arXiv 2405.12250)."""

    site: str
    linearity: float
    """Sink rows left out."""
    linearity_with_sinks: float
    linearity_no_residual: float
    """Sink rows left out, target ``y - x``."""
    linearity_orthogonal: float
    """Sink rows left out, the map restricted to a scaled rotation."""


def layer_linearity(checkpoint: Checkpoint, moments: MomentSet) -> tuple[LayerLinearity, ...]:
    """Score every layer on all the rows that were collected (in sample, as in the paper).

    Raises
    ------
    GramianError : moments of another model, or collected without what the lens needs.
    """
    check(checkpoint, moments)
    residual = checkpoint.blueprint.residual_sites()
    found = []
    for site, after in pairwise(residual):
        step = moments.joint(site, after, fold=FOLDS, increment=True)
        with_sinks = moments.joint(site, after, fold=FOLDS, increment=True, sinks=True)
        whole = step.with_source()
        found.append(
            LayerLinearity(
                site=site,
                linearity=linearity(whole),
                linearity_with_sinks=linearity(with_sinks.with_source()),
                linearity_no_residual=linearity(step),
                linearity_orthogonal=linearity(whole, kind="orthogonal"),
            )
        )
    return tuple(found)
