"""Covariances, their factors, and the roots of a metric."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures.whitening import significant
from gramian.moments import Moments
from gramian.solvers.spectrum import eigh

NEGATIVE = 1e-6
"""A negative eigenvalue larger than this times the largest one is no rounding."""


def covariance_of(side: Moments | Tensor, name: str) -> Tensor:
    """The covariance (d, d) in float64 of moments, or the matrix given after a check.

    Raises
    ------
    GramianError : diagonal moments, fewer than two rows, or a matrix that is not square,
        symmetric and finite.
    """
    if isinstance(side, Moments):
        if side.is_diagonal:
            raise GramianError(
                f"{name}: only the diagonal is kept; collect the site with order='full'"
            )
        return side.covariance()
    matrix = side.to("cpu", torch.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise GramianError(f"{name}: a covariance of shape {tuple(matrix.shape)}, expected (d, d)")
    if not bool(torch.isfinite(matrix).all()):
        raise GramianError(f"{name}: the covariance holds NaN or infinity")
    if float((matrix - matrix.T).abs().max()) > 1e-6 * float(matrix.abs().max()):
        raise GramianError(f"{name}: the covariance is not symmetric; pass (C + C.T) / 2")
    return (matrix + matrix.T) / 2


def factor(covariance: Tensor, power: float = 1.0) -> Tensor:
    """``F`` (d, rank) with ``F F^T = covariance^power``.

    Raises
    ------
    GramianError : an eigenvalue clearly below zero, or a power that is not above zero.
    """
    if not (power > 0 and math.isfinite(power)):
        raise GramianError(f"power is {power:g}, expected a number above zero")
    values, vectors, cut = significant(covariance)
    if cut > NEGATIVE or (not len(values) and float(covariance.abs().max()) > 0):
        raise GramianError(
            "the matrix has an eigenvalue clearly below zero and is no covariance; check how it "
            "was made, or clip its spectrum"
        )
    return vectors * values.pow(power / 2.0)


def metric_roots(metric: Tensor, d: int) -> tuple[Tensor, Tensor]:
    """``M^1/2`` and ``M^-1/2`` (d, d).

    Raises
    ------
    GramianError : a metric of another shape, not symmetric, or not positive definite.
    """
    matrix = covariance_of(metric, "metric")
    if len(matrix) != d:
        raise GramianError(f"metric of order {len(matrix)}, expected ({d}, {d})")
    values, vectors = eigh(matrix)
    if float(values[0]) <= d * torch.finfo(values.dtype).eps * float(values[-1]):
        raise GramianError(
            "the metric is singular, expected one that is positive definite; add a share of "
            "its mean eigenvalue to its diagonal"
        )
    roots = values.sqrt()
    return (vectors * roots) @ vectors.T, (vectors / roots) @ vectors.T
