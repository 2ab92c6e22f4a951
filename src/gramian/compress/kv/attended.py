"""Moments of what attention reads: sink rows count as they are attended to, not as they come."""

from __future__ import annotations

import math

import torch

from gramian.errors import GramianError
from gramian.moments import Moments, MomentSet

FOLDS = ("train", "select")


def check_sinks(share: float | None) -> None:
    """Raise unless it is None or a share in [0, 1)."""
    if share is not None and not (math.isfinite(share) and 0 <= share < 1):
        raise GramianError(
            f"sinks is {share}, expected a share from 0 to below 1, such as 0.1, or None to count "
            "sink rows as they come"
        )


def attended(moments: MomentSet, site: str, share: float | None) -> Moments:
    """Moments of a site in which the sink rows make up a share of the whole weight.

    Heads that find nothing attend to the first token, whose value is small for that very reason:
    one row in a window, of little length, is read more than any other. Counted as it comes it
    would be the first to be cut.

    Parameters
    ----------
    share : in [0, 1); None counts every row once.
    """
    every = moments.moments(site, fold=FOLDS, sinks=True).without_quartic()
    others = moments.moments(site, fold=FOLDS, sinks=False).without_quartic()
    count = every.count - others.count
    if share is None or count <= 0 or others.count <= 0:
        return every
    # The moments of the sinks are what the whole has and the others have not.
    mean = (every.count * every.mean - others.count * others.mean) / count
    scatter = every.raw() - others.raw() - count * torch.outer(mean, mean)
    weight = share / (1 - share) * others.count / count
    sinks = Moments(weight * count, weight * weight * count, mean, weight * scatter)
    return others + sinks
