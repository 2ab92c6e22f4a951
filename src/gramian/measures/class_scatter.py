"""Class means and scatters of a site, from its moments jointly with the labels.

``JointMoments.from_labels(x, labels)`` keeps all that is needed: class counts, class means and
the total scatter ``C_T``. With ``mu`` the mean of all n rows,

    S_B = sum_k (n_k/n) (mu_k - mu)(mu_k - mu)^T,  S_T = C_T / n,  S_W = S_T - S_B.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import JointMoments
from gramian.solvers.spectrum import eigh

_EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True, eq=False)
class ClassScatter:
    """Class means and scatters of a site; classes without rows are left out."""

    counts: Tensor
    """(K,) rows of each class."""
    means: Tensor
    """(K, d) float64."""
    mean: Tensor
    """(d,) of all rows."""
    spokes: Tensor
    """(d, K): ``sqrt(n_k/n) (mu_k - mu)`` as columns; ``S_B`` is this times its transpose."""
    total: Tensor
    """``S_T``, (d, d)."""

    @classmethod
    def of(cls, joint: JointMoments) -> ClassScatter:
        """Read out of joint moments with one-hot labels.

        Raises
        ------
        GramianError : ``y`` is not one-hot, fewer than two classes have rows, or only the
            diagonal of ``x`` is kept.
        """
        if joint.x.is_diagonal:
            raise GramianError("class measures need full moments of x; only the diagonal is kept")
        n = joint.count
        if n <= 0:
            raise GramianError("class measures of no rows; collect more text")
        counts = n * joint.y.mean
        # One-hot: the shares sum to 1, and the scatter of column k is n_k (1 - n_k/n).
        spread = joint.y.variances - counts * (1 - counts / n)
        if abs(float(counts.sum()) - n) > 1e-6 * n or float(spread.abs().max()) > 1e-6 * n:
            raise GramianError(
                "the target of these joint moments is not a one-hot label; make them with "
                "JointMoments.from_labels(x, labels)"
            )
        there = counts > 1e-6
        if int(there.sum()) < 2:
            raise GramianError(
                f"{int(there.sum())} class has rows, expected at least 2; label more documents"
            )
        counts = counts[there]
        gaps = joint.cross[:, there] / counts
        return cls(
            counts,
            joint.x.mean + gaps.T,
            joint.x.mean,
            gaps * (counts / n).sqrt(),
            joint.x.scatter / n,
        )

    @property
    def classes(self) -> int:
        """K, the number of classes that have rows."""
        return len(self.counts)

    @property
    def rows(self) -> float:
        """n."""
        return float(self.counts.sum())

    @property
    def between(self) -> Tensor:
        """``S_B``, (d, d)."""
        return self.spokes @ self.spokes.T

    @property
    def within(self) -> Tensor:
        """``S_W``, (d, d)."""
        return self.total - self.between


def inverse_root(total: Tensor, ridge: float) -> Tensor:
    """R (d, r) with ``R R^T`` the inverse of a scatter on its range.

    Cut after scaling to unit diagonal, which changes no trace of a product with a scatter inside
    the range. With a ridge there is no scaling.
    """
    d = len(total)
    if ridge > 0:
        values, vectors = eigh(total)
        return vectors * (values.clamp_min(0.0) + ridge * float(total.trace()) / d).rsqrt()
    diagonal = total.diagonal().clamp_min(0.0)
    scale = torch.where(diagonal > 0, diagonal.rsqrt(), 0.0)
    values, vectors = eigh(scale[:, None] * total * scale)
    kept = values > _EPS * d * values[-1].clamp_min(0.0)
    return scale[:, None] * vectors[:, kept] * values[kept].rsqrt()


def rank_between(found: ClassScatter) -> int:
    """Rank of ``S_B``; gaps between means that are rounding against the rows do not count."""
    values = torch.linalg.svdvals(found.spokes)
    length = math.sqrt(float(found.total.trace().clamp_min(0.0) + found.mean.square().sum()))
    floor = max(relative_cut(found.spokes) * float(values[0]), 4.0 * _EPS * length)
    return int((values > floor).sum())


def relative_cut(matrix: Tensor) -> float:
    """Singular values below this times the largest are rounding."""
    return max(matrix.shape) * _EPS * 8.0
