"""The map after which all directions vary alike."""

from __future__ import annotations

import torch

from gramian.errors import GramianError
from gramian.maps import Affine, Dense
from gramian.moments import Moments
from gramian.registry import method
from gramian.solvers.spectrum import eigh

KINDS = ("pca", "zca", "cholesky")


@method("whitening", job="bridge", paper="Kessy, Lewin & Strimmer 2018; 2103.15316")
def whitening(
    moments: Moments, *, kind: str = "pca", rank: int | None = None, ridge: float = 0.0
) -> Affine:
    """Affine map of rows to mean zero and the identity as covariance, from moments alone.

    ``C = U L U^T``; ``pca``: ``L^(-1/2) U^T``, leading directions first; ``zca``:
    ``U L^(-1/2) U^T``, nearest to the rows as they are; ``cholesky``: ``K^T`` with
    ``C^-1 = K K^T``, lower triangular. The map's ``pinv`` goes back.

    Parameters
    ----------
    rank : directions to keep, by falling variance; None keeps all that vary.
    ridge : added to the eigenvalues, relative to their mean: whitening makes noise as loud as
        signal, and this limits how much.

    Raises
    ------
    GramianError : an unknown kind, diagonal moments, fewer than two rows, rows that are all equal,
        a rank out of range, or ``cholesky`` of a singular covariance.
    """
    if kind not in KINDS:
        raise GramianError(f"kind is {kind!r}, expected one of {', '.join(KINDS)}")
    if moments.is_diagonal:
        raise GramianError("whitening needs full moments; only the diagonal is kept")
    if moments.count < 2:
        raise GramianError(f"whitening: {moments.count:g} rows, expected at least 2")
    if ridge < 0:
        raise GramianError(f"ridge is {ridge}, expected at least 0")
    values, vectors = eigh(moments.scatter / moments.count)
    kept = values > len(values) * torch.finfo(values.dtype).eps * values[-1].clamp_min(0.0)
    vary = int(kept.sum())
    if not vary:
        raise GramianError("whitening: the rows are all equal, nothing varies")
    if rank is not None and not 1 <= rank <= vary:
        raise GramianError(f"rank is {rank}, expected 1 to {vary}, the directions that vary")
    loaded = values + ridge * values[kept].mean()
    if kind == "cholesky":
        if (vary < moments.d and ridge == 0) or rank is not None:
            raise GramianError(
                f"kind 'cholesky' keeps all {moments.d} directions and {rank or vary} of them "
                "are wanted or vary; take kind='pca', or a ridge above 0"
            )
        covariance = (vectors * loaded) @ vectors.T
        lower = torch.linalg.cholesky(torch.linalg.inv((covariance + covariance.T) / 2))
        weight = lower.T.contiguous()
    else:
        top = slice(len(values) - (rank or vary), None)
        weight = (vectors[:, top] / loaded[top].sqrt()).T.flip(0)
        if kind == "zca":
            weight = vectors[:, top].flip(1) @ weight
    return Affine(Dense(weight.contiguous()), -(weight @ moments.mean))
