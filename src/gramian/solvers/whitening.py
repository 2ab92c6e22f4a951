"""The map after which all directions vary alike."""

from __future__ import annotations

import torch
from torch import Tensor

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
    ``C^-1 = K K^T``, ``K`` lower triangular. ``C`` is the scatter over n, of weighted rows over
    the sum of their weights: with token frequencies for weights this is Zipfian whitening. Where
    rows do not vary in all directions, ``pca`` has that many fewer outputs and ``zca`` sends the
    others to zero. `colouring` goes back.

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
    weight, _ = _pair(moments, kind, rank, ridge)
    return Affine(Dense(weight), -(weight @ moments.mean))


@method("colouring", job="bridge", paper="Kessy, Lewin & Strimmer 2018")
def colouring(
    moments: Moments, *, kind: str = "pca", rank: int | None = None, ridge: float = 0.0
) -> Affine:
    """The way back from `whitening` with the same settings: white rows to rows of this site.

    ``W^+ y + mean``: exact where no direction was left out, else the nearest rows that the kept
    directions hold, those left out at their mean.

    Raises
    ------
    GramianError : as `whitening`.
    """
    _, back = _pair(moments, kind, rank, ridge)
    return Affine(Dense(back), moments.mean)


def _pair(moments: Moments, kind: str, rank: int | None, ridge: float) -> tuple[Tensor, Tensor]:
    """The weight (out, d) that whitens and the one (d, out) that goes back."""
    if kind not in KINDS:
        raise GramianError(f"kind is {kind!r}, expected one of {', '.join(KINDS)}")
    if moments.is_diagonal:
        raise GramianError("whitening needs full moments; only the diagonal is kept")
    # of weighted rows, such as frequencies that sum to one, their effective number
    rows = moments.count**2 / moments.count2 if moments.count2 > 0 else 0.0
    if rows < 2 * (1 - 1e-9) and moments.trace <= 0:
        raise GramianError(f"whitening: {rows:g} rows, expected at least 2")
    if not 0 <= ridge < float("inf"):
        raise GramianError(f"ridge is {ridge}, expected a finite number of at least 0")
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
        eye = torch.eye(moments.d, dtype=lower.dtype)
        return lower.T.contiguous(), torch.linalg.solve_triangular(lower.T, eye, upper=True)
    top = slice(len(values) - (rank or vary), None)
    basis, roots = vectors[:, top].flip(1), loaded[top].sqrt().flip(0)
    weight, back = (basis / roots).T, basis * roots
    if kind == "zca":
        weight, back = basis @ weight, back @ basis.T
    return weight.contiguous(), back.contiguous()
