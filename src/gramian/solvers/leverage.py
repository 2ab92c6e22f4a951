"""How much of its own direction every feature holds."""

from __future__ import annotations

import numpy as np
import torch
from scipy.linalg import lapack
from torch import Tensor

from gramian.errors import GramianError
from gramian.registry import method


@method("ridge_leverage", job="solve", paper="1411.1488")
def ridge_leverage(second: Tensor, ridge: float) -> Tensor:
    """Ridge leverage scores of features, ``diag(C (C + lambda I)^-1)``.

    Between 0 (no other than ``lambda`` would notice that the feature is gone) and 1 (nothing else
    holds what it holds), by one Cholesky factorisation. Their sum is the effective dimension.

    Parameters
    ----------
    second : (d, d) positive semidefinite.
    ridge : ``lambda`` above zero, in the units of ``second``; for moments with a few very long
        rows relative to the median eigenvalue, which these do not move.

    Returns
    -------
    (d,) float64.

    Raises
    ------
    GramianError : no square matrix, NaN or infinity, or a ridge that is not above zero.
    """
    # diag(C (C + l)^-1) = 1 - l diag((C + l)^-1)
    return (1.0 - ridge * precision(second, ridge).diagonal()).clamp(0.0, 1.0)


def precision(second: Tensor, ridge: float) -> Tensor:
    """``(C + lambda I)^-1``, (d, d) float64, of a positive semidefinite matrix.

    Raises
    ------
    GramianError : as of `ridge_leverage`, or a matrix that is not positive semidefinite.
    """
    if second.ndim != 2 or second.shape[0] != second.shape[1]:
        raise GramianError(f"second moments of shape {tuple(second.shape)}, expected (d, d)")
    if not bool(torch.isfinite(second).all()):
        raise GramianError("the second moments hold NaN or infinity; collect them again")
    if not 0 < ridge < float("inf"):
        raise GramianError(f"ridge is {ridge:g}, expected a finite number above 0")
    matrix = np.array(second.detach().to("cpu", torch.float64).numpy(), order="F")
    matrix[np.diag_indices_from(matrix)] += ridge
    factor, failed = lapack.dpotrf(matrix, lower=1, overwrite_a=1)
    if failed == 0:
        factor, failed = lapack.dpotri(factor, lower=1, overwrite_c=1)
    if failed != 0:
        raise GramianError(
            f"second moments with a ridge of {ridge:.2e} are not positive definite; give a larger "
            "ridge, or complete the moments first"
        )
    lower = torch.from_numpy(factor).tril()
    return lower + lower.tril(-1).T
