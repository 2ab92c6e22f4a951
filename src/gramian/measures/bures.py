"""Distances between two sites whose rows are not paired: what their moments alone allow."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures.effective_rank import spectrum_of
from gramian.measures.factors import covariance_of, factor, metric_roots
from gramian.moments import Moments
from gramian.registry import method


@method("bures_distance", job="compare", paper="Bhatia, Jain & Lim 2019, Expo. Math. 37(2)")
def bures_distance(a: Moments | Tensor, b: Moments | Tensor) -> float:
    """Bures-Wasserstein distance between two covariances, in the units of the rows.

    ``d^2 = tr A + tr B - 2 |A^1/2 B^1/2|_*``, the least squared transport between centred
    Gaussians. With factors ``A = F F^T`` and ``B = G G^T`` it is evaluated as the least
    ``|F Q - G|_F`` over orthogonal ``Q``, a norm of a difference instead of a difference of
    norms: of a matrix to itself, singular or not, it is zero to rounding, and there is no root
    of a product. Equivalent to ``ot.gaussian.bures_distance``.

    Parameters
    ----------
    a, b : moments (d,) of sites of one width, or covariances (d, d).

    Raises
    ------
    GramianError : unequal widths (see `spectral_distance`), diagonal moments, fewer than two
        rows, or a matrix that is not symmetric with finite entries and no eigenvalue below zero.
    """
    return _between(factor(covariance_of(a, "a")), factor(covariance_of(b, "b")))


@method("frechet_distance", job="compare", paper="Dowson & Landau 1982; 1706.08500")
def frechet_distance(a: Moments, b: Moments) -> float:
    """Wasserstein-2 distance between Gaussians of these means and covariances.

    ``d^2 = |mean_a - mean_b|^2 + bures_distance(a, b)^2``: on the features of the Inception
    network, its square is FID. In the units of the rows. Biased up in proportion to one over
    the number of rows: compare equal numbers of them.

    Raises
    ------
    GramianError : as `bures_distance`.
    """
    bures = bures_distance(a, b)
    return math.hypot(float((a.mean - b.mean).norm()), bures)


@method("spectral_distance", job="compare", paper="Bhatia, Jain & Lim 2019, Expo. Math. 37(2)")
def spectral_distance(a: Moments | Tensor, b: Moments | Tensor) -> float:
    """Distance between the shares of variance along principal directions, from 0 to sqrt 2.

    ``d^2 = sum_i (sqrt p_i - sqrt q_i)^2`` with ``p`` and ``q`` the eigenvalues over their sum,
    descending, the shorter padded with zeros. It is the least Bures distance over all
    rotations once both covariances have trace one: what is left to compare when rows are not
    paired and widths differ. It is zero for any two sites of one spectrum up to scale, however
    they are turned, so a small value says little. The triangle inequality holds.

    Parameters
    ----------
    a, b : moments of any widths, or eigenvalues (d,) in any order, none below zero.

    Returns nan when a side does not vary.

    Raises
    ------
    GramianError : diagonal moments, or eigenvalues below zero.
    """
    shares = [_root_shares(side) for side in (a, b)]
    width = max(len(share) for share in shares)
    p, q = (torch.nn.functional.pad(share, (0, width - len(share))) for share in shares)
    return float((p - q).norm())


@method("gbw_distance", job="compare", paper="2504.00660")
def gbw_distance(
    a: Moments | Tensor,
    b: Moments | Tensor,
    *,
    metric: Tensor | None = None,
    power: float = 1.0,
) -> float:
    """Generalised Bures-Wasserstein distance: in the units of a metric, after a matrix power.

    `bures_distance` between ``M^-1/2 A^power M^-1/2`` and the same of ``B``. With ``M`` a
    reference covariance, directions that are loud in the reference no longer decide; a power
    below one narrows the spectrum of ill-conditioned covariances.

    Parameters
    ----------
    a, b : moments of one width, or covariances (d, d).
    metric : ``M`` (d, d) symmetric positive definite, by default the identity.
    power : above zero.

    Raises
    ------
    GramianError : as `bures_distance`; a metric that is singular or of another shape; a power
        that is not above zero.
    """
    covariances = covariance_of(a, "a"), covariance_of(b, "b")
    factors = [factor(covariance, power) for covariance in covariances]
    if metric is not None:
        _, inverse = metric_roots(metric, len(covariances[0]))
        factors = [inverse @ each for each in factors]
    return _between(*factors)


def _between(f: Tensor, g: Tensor) -> float:
    """``min |F Q - G|_F`` over orthogonal ``Q``, the narrower factor being the one turned."""
    if len(f) != len(g):
        raise GramianError(
            f"covariances of widths {len(f)} and {len(g)} have no Bures distance; "
            "spectral_distance compares sites of different widths"
        )
    if f.shape[1] > g.shape[1]:
        f, g = g, f
    u, _, vh = torch.linalg.svd(f.T @ g, full_matrices=False)
    return float((f @ (u @ vh) - g).norm())


def _root_shares(side: Moments | Tensor) -> Tensor:
    """Roots of the eigenvalue shares (d,), descending, rounding taken for zero."""
    values = spectrum_of(side).sort(descending=True).values
    if not len(values) or float(values[0]) <= 0:
        return torch.full((1,), math.nan, dtype=torch.float64)
    floor = len(values) * torch.finfo(values.dtype).eps * values[0]
    values = values.where(values > floor, 0.0)
    return (values / values.sum()).sqrt()
