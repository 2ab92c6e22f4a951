"""What items say about each other: the item-item regression with a zero diagonal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg.lapack
import torch
from numpy.typing import NDArray
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Dense
from gramian.registry import method

Array = NDArray[np.float64]

LARGEST_ITEMS = 46340
"""Order above which LAPACK's indices of 32 bits no longer reach the whole matrix."""
BLOCK = 1024
"""Rows that are copied together when the triangle is mirrored."""


@dataclass(frozen=True, eq=False)
class ItemWeights:
    """The weights of `ease`: the scores of a user with history ``x`` are ``x @ weights``."""

    weights: Tensor
    """B, (items, items) float64; its diagonal is exactly 0."""
    diagonal: Tensor
    """(items,) of ``P = (G + lam I)^-1``, so that ``P = (I - B) diag(diagonal)``."""
    lam: float

    @property
    def map(self) -> Dense:
        """The same as a map from histories to scores, rows (..., items) to (..., items)."""
        return Dense(self.weights.T)

    def with_user(self, history: Any, weight: float = 1.0) -> ItemWeights:
        """The weights after one more user, in O(items^2); history : (items,).

        Raises
        ------
        GramianError : a history of another width, or not finite.
        """
        return self._moved(history, weight)

    def without_user(self, history: Any, weight: float = 1.0) -> ItemWeights:
        """The weights as if that user had never been counted, in O(items^2).

        Raises
        ------
        GramianError : a history of another width, or of a user who cannot have been counted.
        """
        return self._moved(history, -weight)

    def _moved(self, history: Any, weight: float) -> ItemWeights:
        x = torch.as_tensor(np.asarray(history, np.float64))
        if tuple(x.shape) != self.diagonal.shape or not bool(torch.isfinite(x).all()):
            raise GramianError(
                f"a history of shape {tuple(x.shape)}, expected ({len(self.diagonal)},), one "
                "finite number per item"
            )
        # P' = P - w (P x)(P x)^T / (1 + w x^T P x), and B' = I - P' diag(P')^-1
        inverse = -self.weights * self.diagonal
        inverse.diagonal().copy_(self.diagonal)
        reach = inverse @ x
        scale = 1.0 + weight * float(x @ reach)
        if scale <= 1e-12:
            raise GramianError(
                "this user is not among those the weights were fitted on: without them the Gram "
                "matrix would not be one; check the history and its weight"
            )
        inverse = torch.addr(inverse, reach, reach, alpha=-weight / scale)
        diagonal = inverse.diagonal().clone()
        return ItemWeights(_zero_diagonal(inverse, diagonal), diagonal, self.lam)


@method("ease", job="solve", paper="1905.03375")
def ease(gram: Any, lam: float, *, overwrite: bool = False) -> ItemWeights:
    """Item-item weights of least squares under a ridge, with a zero diagonal, by one inverse.

    Minimises ``|X - X B|^2 + lam |B|^2`` subject to ``diag(B) = 0`` from ``G = X^T X`` alone:
    with ``P = (G + lam I)^-1``, ``B_ij = -P_ij / P_jj``. The inverse is taken by Cholesky in
    place, so that one copy of the matrix and a block is all the memory there is (20k items:
    3.2 GB), or none with ``overwrite``.

    Parameters
    ----------
    gram : (items, items), symmetric, as `ItemGram.gram`.
    lam : ridge, in the units of the Gram: counts of users. 100 to 10000 is usual.
    overwrite : the Gram may be destroyed and its memory used, if it is a float64 array.

    Raises
    ------
    GramianError : not square, not symmetric, NaN or infinity, more than 46340 items, a lam that
        is negative or not finite, or a matrix that is not positive definite with it.
    """
    source = gram.detach().cpu().numpy() if isinstance(gram, Tensor) else np.asarray(gram)
    if source.ndim != 2 or source.shape[0] != source.shape[1] or not source.size:
        raise GramianError(f"gram of shape {source.shape}, expected (items, items)")
    if len(source) > LARGEST_ITEMS:
        raise GramianError(
            f"{len(source)} items, expected at most {LARGEST_ITEMS}; leave out the rarest items"
        )
    if not math.isfinite(lam) or lam < 0:
        raise GramianError(f"lam is {lam}, expected a finite number of at least 0")
    matrix = _own(source, overwrite)
    _check_symmetric(matrix)
    matrix[np.diag_indices(len(matrix))] += lam
    inverse = _inverse(matrix, lam)
    diagonal = torch.from_numpy(inverse.diagonal().copy())
    return ItemWeights(_zero_diagonal(torch.from_numpy(inverse), diagonal), diagonal, float(lam))


def _own(source: NDArray[Any], overwrite: bool) -> Array:
    """A C-ordered float64 matrix that may be written over."""
    usable = source.dtype == np.float64 and source.flags.c_contiguous and source.flags.writeable
    return source if overwrite and usable else np.array(source, np.float64, order="C")


def _check_symmetric(matrix: Array) -> None:
    largest = 0.0
    gap = 0.0
    for start in range(0, len(matrix), BLOCK):
        rows = slice(start, start + BLOCK)
        block = matrix[rows]
        if not np.isfinite(block).all():
            raise GramianError("the gram holds NaN or infinity; build it from finite histories")
        largest = max(largest, float(np.abs(block).max()))
        gap = max(gap, float(np.abs(block - matrix[:, rows].T).max()))
    if gap > 1e-9 * largest:
        raise GramianError(
            f"the gram is not symmetric, off by {gap:g}; pass X^T X of a user-item matrix X"
        )


def _inverse(matrix: Array, lam: float) -> Array:
    """Inverse of a positive definite matrix in its own memory."""
    # a C-ordered symmetric matrix is, transposed, what LAPACK takes without a copy
    lapack = scipy.linalg.lapack
    factor, info = lapack.dpotrf(matrix.T, lower=0, overwrite_a=1, clean=0)
    if info == 0:
        factor, info = lapack.dpotri(factor, lower=0, overwrite_c=1)
    if info != 0:
        raise GramianError(
            f"the gram plus lam = {lam:g} is singular (order {info} of {len(matrix)}); items that "
            "always come together, or that nobody has, need lam > 0"
        )
    inverse: Array = factor.T  # the lower triangle is filled
    for start in range(0, len(inverse), BLOCK):
        stop = min(start + BLOCK, len(inverse))
        corner = inverse[start:stop, start:stop]
        corner[:] = np.tril(corner) + np.tril(corner, -1).T
        inverse[start:stop, stop:] = inverse[stop:, start:stop].T
    return inverse


def _zero_diagonal(inverse: Tensor, diagonal: Tensor) -> Tensor:
    """``-P_ij / P_jj`` with a zero diagonal, in the memory of P."""
    inverse.div_(-diagonal)
    inverse.diagonal().zero_()
    return inverse
