"""The mean of several covariances in the geometry of optimal transport."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures.factors import covariance_of, factor, metric_roots
from gramian.moments import Moments
from gramian.registry import method


@method("bures_mean", job="compare", paper="1511.05355")
def bures_mean(
    parts: Sequence[Moments | Tensor],
    weights: Sequence[float] | Tensor | None = None,
    *,
    metric: Tensor | None = None,
    power: float = 1.0,
    tolerance: float = 1e-10,
    steps: int = 1000,
) -> Tensor:
    """Covariance (d, d) of least weighted squared Bures distance to several covariances.

    The fixed point of ``G <- G^-1/2 (sum_i w_i (G^1/2 A_i G^1/2)^1/2)^2 G^-1/2``, evaluated
    without an inverse: with factors ``A_i = F_i F_i^T``, turn each to the current factor and
    average, ``L <- sum_i w_i F_i Q_i`` with ``Q_i`` the polar factor of ``F_i^T L``, and
    ``G = L L^T``. So singular covariances need no jitter. Started at the arithmetic mean.
    Equivalent to ``ot.gaussian.bures_wasserstein_barycenter``.

    Unlike the sum of moments, the mean keeps the spectra sharp when the parts are turned
    against each other.

    Parameters
    ----------
    parts : moments of one width, or covariances (d, d).
    weights : (k,) not negative, scaled to sum to one; by default equal.
    metric, power : take the mean in the geometry of `gbw_distance` instead.
    tolerance : settled when ``|change of G|_F`` is below this times ``|G|_F``.
    steps : at most this many.

    Raises
    ------
    GramianError : no parts, unequal widths, weights that are negative or all zero; a matrix that
        is no covariance; not settled after ``steps``.
    """
    covariances = [covariance_of(part, f"parts[{i}]") for i, part in enumerate(parts)]
    if not covariances:
        raise GramianError("bures_mean: no covariances given, expected one or more")
    d = len(covariances[0])
    for i, covariance in enumerate(covariances):
        if len(covariance) != d:
            raise GramianError(f"parts[{i}] has width {len(covariance)}, parts[0] has width {d}")
    shares = _shares(weights, len(covariances))
    factors = [_square(factor(covariance, power)) for covariance in covariances]
    if metric is None:
        return _outer_power(_settle(factors, shares, tolerance, steps), power)
    root, inverse = metric_roots(metric, d)
    centre = _settle([inverse @ each for each in factors], shares, tolerance, steps)
    return _outer_power(root @ centre, power)


def _settle(factors: list[Tensor], shares: Tensor, tolerance: float, steps: int) -> Tensor:
    """A factor of the mean."""
    start = sum(float(w) * (f @ f.T) for w, f in zip(shares, factors, strict=True))
    assert isinstance(start, Tensor)
    centre, mean, change = _square(factor((start + start.T) / 2)), start, math.inf
    for _ in range(steps):
        turned = torch.zeros_like(centre)
        for w, f in zip(shares.tolist(), factors, strict=True):
            u, _, vh = torch.linalg.svd(f.T @ centre)
            turned = torch.add(turned, f @ (u @ vh), alpha=w)
        found = turned @ turned.T
        scale = float(found.norm())
        change = float((found - mean).norm()) / scale if scale > 0 else 0.0
        centre, mean = turned, found
        if change <= tolerance:
            return centre
    raise GramianError(
        f"bures_mean: still moving by {change:.1e} of its norm after {steps} steps, expected "
        f"{tolerance:.1e}; allow more steps or a larger tolerance"
    )


def _outer_power(root: Tensor, power: float) -> Tensor:
    """``(L L^T)^(1 / power)``."""
    if power != 1.0:
        root = factor(root @ root.T, 1.0 / power)
    return root @ root.T


def _square(root: Tensor) -> Tensor:
    """The factor padded with zero columns to (d, d)."""
    return torch.nn.functional.pad(root, (0, root.shape[0] - root.shape[1]))


def _shares(weights: Sequence[float] | Tensor | None, k: int) -> Tensor:
    """Weights (k,) that sum to one."""
    if weights is None:
        return torch.full((k,), 1.0 / k, dtype=torch.float64)
    given = torch.as_tensor(weights, dtype=torch.float64)
    fit = tuple(given.shape) == (k,) and bool(torch.isfinite(given).all())
    if not fit or bool((given < 0).any()) or float(given.sum()) <= 0:
        raise GramianError(
            f"weights {given.tolist()}, expected {k} numbers, none below zero and not all zero"
        )
    return given / given.sum()
