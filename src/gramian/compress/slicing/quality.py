"""Perplexity against discarded energy: a line through measured points, and how far off it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gramian.errors import GramianError


@dataclass(frozen=True)
class QualityFit:
    """``log(perplexity) = intercept + slope * discarded``, fitted to measured points."""

    intercept: float
    slope: float
    points: tuple[tuple[float, float], ...]
    """Discarded share and perplexity, as they were measured."""
    error: float | None
    """Largest factor by which the line misses a point, minus one; None where two points define
    it and nothing is left to judge it by."""

    def predict(self, discarded: float) -> float:
        """Perplexity on the line. Beyond the measured points it is a guess."""
        return math.exp(self.intercept + self.slope * discarded)


def fit_quality(discarded: Sequence[float], perplexity: Sequence[float]) -> QualityFit:
    """Fit the logarithm of measured perplexities to discarded shares of energy.

    Compress at two or three widths, measure each, and read what others would give between them.
    Nothing says that the relation is a line: ``error`` says how far the points are from one.

    Parameters
    ----------
    discarded : share of the energy on ``report``, one for each measured network; 0 for the
        network as it is.
    perplexity : of the same networks, on one text.

    Raises
    ------
    GramianError : fewer than two different shares, other lengths, perplexities below 1 or not
        finite.
    """
    if len(discarded) != len(perplexity) or len(set(discarded)) < 2:
        raise GramianError(
            f"{len(discarded)} discarded shares and {len(perplexity)} perplexities: expected as "
            "many of both, at two different shares or more"
        )
    if not all(math.isfinite(x) and 0 <= x <= 1 for x in discarded):
        raise GramianError(f"discarded shares {list(discarded)}: expected numbers from 0 to 1")
    if not all(math.isfinite(p) and p >= 1 for p in perplexity):
        raise GramianError(f"perplexities {list(perplexity)}: expected finite numbers from 1 on")
    x, y = np.asarray(discarded, dtype=float), np.log(np.asarray(perplexity, dtype=float))
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred))
    intercept = float(y.mean() - slope * x.mean())
    gap = float(np.abs(y - intercept - slope * x).max())
    points = tuple(zip(map(float, discarded), map(float, perplexity), strict=True))
    error = math.expm1(gap) if len(set(discarded)) > 2 else None
    return QualityFit(intercept, slope, points, error)
