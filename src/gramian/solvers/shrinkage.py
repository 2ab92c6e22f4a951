"""Covariances from too few rows, drawn towards a multiple of the identity by a known amount."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import Moments
from gramian.registry import method


@dataclass(frozen=True, eq=False)
class Shrinkage:
    """``(1 - intensity) S + intensity target I`` with ``S = scatter / count``."""

    covariance: Tensor
    """(d, d) float64."""
    intensity: float
    """0 leaves the covariance as it is, 1 leaves only its mean variance."""
    target: float
    """``tr S / d``, the mean variance."""
    moments: Moments
    """The same as moments, for solvers and maps; without the quartic part."""


@method("ledoit_wolf", job="solve", paper="Ledoit & Wolf 2004, J. Multivariate Analysis 88(2)")
def ledoit_wolf(moments: Moments) -> Shrinkage:
    """Covariance shrunk by the intensity of least expected squared error, from moments alone.

    Equivalent to ``sklearn.covariance.ledoit_wolf`` on the rows: the fourth-order sum it takes
    over them is the quartic part of the moments. Of weighted rows, n is ``(sum w)^2 / sum w^2``.

    Raises
    ------
    GramianError : diagonal moments, fewer than 2 rows, or moments without their quartic part.
    """
    s, n = _sample(moments, "ledoit_wolf")
    if moments.quartic is None:
        raise GramianError(
            "ledoit_wolf needs the fourth-order sums, which these moments do not keep; collect "
            "them with order='full', or use linear_shrinkage, which needs none"
        )
    d, mean, square = len(s), float(s.diagonal().mean()), float(s.square().sum())
    # E |S - Sigma|^2 ~ (mean |x|^4 - |S|^2) / n, over |S - mean I|^2
    noise = (moments.quartic.square / moments.count - square) / n
    spread = square - d * mean * mean
    intensity = min(max(noise, 0.0), spread) / spread if _varies(spread, square) else 0.0
    return _shrunk(moments, s, intensity, mean)


@method("linear_shrinkage", job="solve", paper="1308.2608")
def linear_shrinkage(moments: Moments) -> Shrinkage:
    """Covariance shrunk by the intensity that is best as d and n grow together.

    Needs ``tr S``, ``|S|_F`` and n only, so it works on moments of any origin, without
    fourth-order sums. Of weighted rows, n is ``(sum w)^2 / sum w^2``.

    Raises
    ------
    GramianError : diagonal moments, or fewer than 2 rows.
    """
    s, n = _sample(moments, "linear_shrinkage")
    d, mean, square = len(s), float(s.diagonal().mean()), float(s.square().sum())
    # 1 - alpha = (tr^2 S / n) / (|S|^2 - tr^2 S / d) for a target of the same trace
    spread = square - d * mean * mean
    intensity = min((d * mean) ** 2 / n / spread, 1.0) if _varies(spread, square) else 1.0
    return _shrunk(moments, s, intensity, mean)


def _sample(moments: Moments, solver: str) -> tuple[Tensor, float]:
    """Covariance about the mean, over n, and the effective number of rows."""
    if moments.is_diagonal:
        raise GramianError(f"{solver} needs full moments; collect the site with order='full'")
    rows = moments.count**2 / moments.count2 if moments.count2 > 0 else 0.0
    if rows < 2:
        raise GramianError(f"{solver}: {rows:g} rows, expected at least 2; collect more text")
    return moments.scatter / moments.count, rows


def _varies(spread: float, square: float) -> bool:
    """Whether the covariance differs from a multiple of the identity by more than rounding."""
    return spread > 16 * torch.finfo(torch.float64).eps * square


def _shrunk(moments: Moments, s: Tensor, intensity: float, mean: float) -> Shrinkage:
    covariance = (1.0 - intensity) * s
    covariance.diagonal().add_(intensity * mean)
    scatter = covariance * moments.count
    shrunk = Moments(moments.count, moments.count2, moments.mean, scatter)
    return Shrinkage(covariance, intensity, mean, shrunk)
