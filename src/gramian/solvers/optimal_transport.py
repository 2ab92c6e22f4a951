"""The map between two clouds of which no rows are paired, if both are Gaussian."""

from __future__ import annotations

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

    ``T = Cs^(-1/2) (Cs^(1/2) Ct Cs^(1/2))^(1/2) Cs^(-1/2)``, ``y = T (x - mu_s) + mu_t``. ``T`` is
    symmetric and positive: it stretches and never rotates. It corrects a shift between two sets of
    rows of one model; between two models, whose axes have nothing to do with each other, it cannot
    work, however well the covariances then agree. Directions in which the source does not vary
    are sent to zero.

    Parameters
    ----------
    alpha : ``(1 - alpha) T + alpha I``: 0 the whole way, 1 stay (also outside, to overshoot).
    ridge : added to the covariance of both, relative to the mean variance of the source; steadies
        directions in which the source hardly varies.

    Raises
    ------
    GramianError : unequal widths, diagonal moments, no rows, a negative ridge.
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
    if ridge < 0:
        raise GramianError(f"ridge is {ridge}, expected at least 0")
    before, after = source.scatter / source.count, target.scatter / target.count
    noise = ridge * before.trace() / source.d
    eye = torch.eye(source.d, dtype=before.dtype)
    before, after = before + noise * eye, after + noise * eye
    root, inverse = _root(before)
    middle, _ = _root(root @ after @ root)
    weight = inverse @ middle @ inverse
    weight = (1.0 - alpha) * (weight + weight.T) / 2 + alpha * eye
    mean_s, mean_t = source.mean, (1.0 - alpha) * target.mean + alpha * source.mean
    return Affine(Dense(weight, tags={Tag.SYMMETRIC}), mean_t - weight @ mean_s)


def _root(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Root and pseudo-inverse root of a covariance."""
    values, vectors = eigh((matrix + matrix.T) / 2)
    kept = values > len(values) * torch.finfo(values.dtype).eps * values[-1].clamp_min(0.0)
    vectors, root = vectors[:, kept], values[kept].sqrt()
    return (vectors * root) @ vectors.T, (vectors / root) @ vectors.T
