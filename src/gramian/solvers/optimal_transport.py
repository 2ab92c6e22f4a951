"""The map between two clouds of which no rows are paired, if both are Gaussian."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, Tag
from gramian.moments import Moments
from gramian.registry import method
from gramian.solvers.spectrum import eigh


@method("optimal_transport", job="bridge", paper="2306.02342")
def optimal_transport(
    source: Moments, target: Moments, *, alpha: float = 0.0, ridge: float = 0.0
) -> Affine:
    """The cheapest affine map that gives rows the mean and covariance of a target, unpaired.

    ``T = Cs^(-1/2) (Cs^(1/2) Ct Cs^(1/2))^(1/2) Cs^(-1/2)``, ``y = T (x - mu_s) + mu_t``;
    equivalent to ``ot.gaussian.bures_wasserstein_mapping`` on covariances over n. ``T`` is
    symmetric and positive: it stretches and never rotates. It corrects a shift between two sets of
    rows of one model; between two models, whose axes have nothing to do with each other, it cannot
    work, however well the covariances then agree.

    Of a source that does not vary in every direction, ``T`` still sends the rows the cheapest way,
    but no map makes variance out of none: of the target only as many directions are reached.

    Parameters
    ----------
    alpha : ``(1 - alpha) T + alpha I``: 0 the whole way, 1 stay (also outside, to overshoot).
    ridge : added to the covariance of both, relative to the mean variance of the source; steadies
        directions in which the source hardly varies.

    Raises
    ------
    GramianError : unequal widths, diagonal moments, no rows, an alpha that is not finite, a ridge
        that is negative or not finite.
    """
    if source.d != target.d:
        raise GramianError(
            f"optimal transport needs one width, not {source.d} and {target.d}; between different "
            "models use an unpaired bridge"
        )
    if source.is_diagonal or target.is_diagonal:
        raise GramianError("optimal transport needs full moments of both sides")
    if source.count <= 0 or target.count <= 0:
        raise GramianError("optimal transport: no rows on one side")
    if not 0 <= ridge < math.inf:
        raise GramianError(f"ridge is {ridge}, expected a finite number of at least 0")
    if not math.isfinite(alpha):
        raise GramianError(f"alpha is {alpha}, expected 0 (the whole way) to 1 (stay)")
    noise = ridge * source.trace / source.count / source.d
    before, after = (_factor(side.scatter / side.count, noise) for side in (source, target))
    # With Cs = F F^T, Ct = G G^T and G^T F = P S Q^T the same T is G P S^-1 P^T G^T, which needs no
    # inverse of Cs and no root of a product
    p, s, _ = torch.linalg.svd(after.T @ before, full_matrices=False)
    reached = s > source.d * torch.finfo(s.dtype).eps * (s[0] if len(s) else 0.0)
    thin = after @ (p[:, reached] / s[reached].sqrt())
    weight = (1.0 - alpha) * (thin @ thin.T)
    weight.diagonal().add_(alpha)
    mean_t = (1.0 - alpha) * target.mean + alpha * source.mean
    return Affine(Dense(weight, tags={Tag.SYMMETRIC}), mean_t - weight @ source.mean)


def _factor(covariance: Tensor, noise: float) -> Tensor:
    """``F`` (d, rank) with ``F F^T = covariance + noise I``."""
    values, vectors = eigh(covariance)
    values = values.clamp_min(0.0) + noise
    kept = values > len(values) * torch.finfo(values.dtype).eps * values[-1]
    return vectors[:, kept] * values[kept].sqrt()
