"""One eigendecomposition of second moments, used for a whole grid and for many targets."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import Moments

LARGEST = 8192
"""Order above which no dense eigendecomposition is done."""


def eigh(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, ascending, and eigenvectors as columns, of a symmetric float64 matrix.

    On CPU by LAPACK's divide and conquer in place, the fastest of the drivers.

    Raises
    ------
    GramianError : the order is above 8192.
    """
    if len(matrix) > LARGEST:
        raise GramianError(
            f"eigendecomposition of order {len(matrix)}, expected at most {LARGEST}; "
            "select some coordinates, or push the moments through a thinner map first"
        )
    if matrix.device.type != "cpu":
        values, vectors = torch.linalg.eigh(matrix)
        return values, vectors
    copy = np.array(matrix.numpy(), order="F")
    found, basis = scipy.linalg.eigh(copy, driver="evd", overwrite_a=True, check_finite=False)
    return torch.from_numpy(found), torch.from_numpy(basis)


def eigenvalues(matrix: Tensor) -> Tensor:
    """Eigenvalues alone, ascending, in about a third of the time of `eigh`; refuses as it does."""
    if matrix.device.type != "cpu" or len(matrix) > LARGEST:
        return eigh(matrix)[0]
    copy = np.array(matrix.numpy(), order="F")
    found = scipy.linalg.eigh(
        copy, driver="evd", overwrite_a=True, check_finite=False, eigvals_only=True
    )
    return torch.from_numpy(found)


def middle_eigenvalue(matrix: Tensor) -> float:
    """Median of the eigenvalues above rounding of a positive semidefinite matrix, of any order;
    1 when there is none. The scale of a ridge that a few long rows do not move."""
    copy = np.array(matrix.detach().to("cpu", torch.float64).numpy(), order="F")
    found = scipy.linalg.eigh(
        copy, driver="evd", overwrite_a=True, check_finite=False, eigvals_only=True
    )
    values = torch.from_numpy(found)
    positive = values[values > len(values) * torch.finfo(torch.float64).eps * float(values[-1])]
    return float(positive.quantile(0.5)) if len(positive) else 1.0


def entropy_rank(values: Tensor) -> float:
    """``exp`` of the entropy of eigenvalues, ``p = values / sum``; zero when all are zero."""
    positive = values[values > 0]
    if len(positive) == 0:
        return 0.0
    p = positive / positive.sum()
    return math.exp(-float((p * p.log()).sum()))


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues and eigenvectors of the second moments of an input.

    They are taken of the scatter as it is, without scaling: a ridge penalises ``|W|^2`` in the
    coordinates of the input, and the grid is exact only in that basis.
    """

    values: Tensor
    """(d,) ascending, rounding below zero clamped."""
    vectors: Tensor
    """(d, d), eigenvectors as columns."""
    centre: Tensor
    """(d,) what the moments are about: the mean, or zero without an intercept."""
    count: float
    """Rows behind them."""
    judged: Tensor | None = None
    """Second moments of the ``select`` fold about the same centre, in this basis."""

    @classmethod
    def of(
        cls, train: Moments, select: Moments | None = None, *, intercept: bool = True
    ) -> Spectrum:
        """The spectrum of one input, for all targets that share it.

        Parameters
        ----------
        select : moments of the same site in the fold that chooses.
        intercept : second moments about the mean of ``train``, else about zero.

        Raises
        ------
        GramianError : diagonal moments, no rows, or an order above 8192.
        """
        if train.is_diagonal:
            raise GramianError("the input has diagonal moments only; collect it with order='full'")
        if train.count <= 0:
            raise GramianError("the fold train has no rows; collect more text")
        centre = train.mean if intercept else torch.zeros_like(train.mean)
        values, vectors = eigh(train.scatter if intercept else train.raw())
        judged = None if select is None else vectors.T @ about(select, centre) @ vectors
        return cls(values.clamp_min(0.0), vectors, centre, train.count, judged)

    @property
    def d(self) -> int:
        """Order."""
        return len(self.values)

    @property
    def floor(self) -> float:
        """Eigenvalues up to this are rounding."""
        return self.d * torch.finfo(torch.float64).eps * float(self.values[-1])

    @property
    def rank(self) -> int:
        """Eigenvalues above rounding."""
        return int((self.values > self.floor).sum())

    @property
    def median(self) -> float:
        """Median of the eigenvalues above rounding; 1 when there is none.

        The scale of a ridge: one sink token owns the trace, but not the median.
        """
        positive = self.values[self.values > self.floor]
        return float(positive.quantile(0.5)) if len(positive) else 1.0

    @property
    def condition(self) -> float:
        """Largest over smallest eigenvalue, infinite when singular."""
        return float(self.values[-1] / self.values[0]) if self.rank == self.d else math.inf

    def inverse(self, ridge: float) -> Tensor:
        """``1 / (values + ridge)``; without a ridge, zero where the eigenvalue is rounding."""
        if ridge > 0:
            return 1.0 / (self.values + ridge)
        kept = self.values > self.floor
        return torch.where(kept, 1.0 / self.values.where(kept, torch.ones_like(self.values)), 0.0)


def about(moments: Moments, centre: Tensor) -> Tensor:
    """Second moments about a given centre, (d, d)."""
    gap = moments.mean - centre
    return torch.addr(moments.scatter, gap, gap, alpha=moments.count)
