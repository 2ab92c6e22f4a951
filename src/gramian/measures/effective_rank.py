"""How many directions a site uses."""

from __future__ import annotations

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import Moments
from gramian.registry import method
from gramian.solvers.spectrum import eigenvalues, entropy_rank


@method("effective_rank", job="inspect", paper="Roy & Vetterli 2007, EUSIPCO")
def effective_rank(moments: Moments | Tensor) -> float:
    """Exponential of the entropy of the spectrum, from 1 to d.

    Of moments: of the singular values of their covariance, which are its eigenvalues. Of a
    tensor (d,): of these values, not negative, in any order. Zero when all are zero.
    """
    return entropy_rank(spectrum_of(moments))


@method("participation_ratio", job="inspect", paper="Gao et al. 2017, bioRxiv 214262")
def participation_ratio(moments: Moments | Tensor) -> float:
    """``(sum of eigenvalues)^2 / sum of their squares``, from 1 to d; of moments without an
    eigendecomposition."""
    if isinstance(moments, Moments) and not moments.is_diagonal:
        total, squares = moments.trace, float(moments.scatter.square().sum())
    else:
        values = spectrum_of(moments)
        total, squares = float(values.sum()), float(values.square().sum())
    return total * total / squares if squares > 0 else 0.0


@method("stable_rank", job="inspect", paper="Rudelson & Vershynin 2007, JACM 54(4)")
def stable_rank(moments: Moments | Tensor) -> float:
    """``sum of eigenvalues / largest``, from 1 to d: of the data matrix, ``|X|_F^2 / |X|_2^2``."""
    values = spectrum_of(moments)
    largest = float(values.max()) if len(values) else 0.0
    return float(values.sum()) / largest if largest > 0 else 0.0


def spectrum_of(moments: Moments | Tensor) -> Tensor:
    """Eigenvalues of the scatter, rounding below zero clamped, or the values given.

    Raises
    ------
    GramianError : diagonal moments, or values that are negative or not of shape (d,).
    """
    if isinstance(moments, Moments):
        if moments.is_diagonal:
            raise GramianError("a spectrum needs full moments; only the diagonal is kept")
        return eigenvalues(moments.scatter).clamp_min(0.0)
    values = moments.to(torch.float64)
    if values.ndim != 1 or bool((values < 0).any()):
        raise GramianError(
            f"eigenvalues of shape {tuple(values.shape)}, expected (d,) and none below zero"
        )
    return values
