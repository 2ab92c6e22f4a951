"""Coding rates: how many nats a site costs, together and class by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gramian.errors import GramianError
from gramian.moments import Moments
from gramian.registry import method


@dataclass(frozen=True)
class RateReduction:
    """The coding rate of all rows, of the classes apart, and what knowing the class saves."""

    total: float
    """``R``, nats per row."""
    classes: float
    """``R_c``: the rates of the classes, weighted by their rows."""

    @property
    def reduction(self) -> float:
        """``R - R_c``, never below zero: large when the classes lie in independent subspaces."""
        return self.total - self.classes


def coding_rate(moments: Moments, *, epsilon: float = 0.5) -> float:
    """Coding rate ``R = 1/2 ln det(I + d/(n eps^2) Z^T Z)`` in nats, from second moments.

    Parameters
    ----------
    moments : full, of width d; of rows of unit length (`unit_rows`) in the paper. Second moments
        about zero are taken.
    epsilon : the distortion, in the units of the rows. Some code bases call its square epsilon.

    Raises
    ------
    GramianError : diagonal moments, no rows, or an epsilon that is not positive.
    """
    if not epsilon > 0:
        raise GramianError(f"epsilon is {epsilon!r}, expected a positive number")
    if moments.is_diagonal:
        raise GramianError("a coding rate needs full moments; only the diagonal is kept")
    if moments.count <= 0:
        raise GramianError("coding rate of no rows")
    d = moments.d
    matrix = moments.raw() * (d / (moments.count * epsilon**2))
    matrix.diagonal().add_(1.0)
    return float(torch.linalg.cholesky(matrix).diagonal().log().sum())


@method("rate_reduction", job="inspect", paper="2006.08558")
def rate_reduction(classes: Sequence[Moments], *, epsilon: float = 0.5) -> RateReduction:
    """MCR2 score: the coding rate of all rows less that of the classes,
    ``R_c = sum_k (n_k/n) R_k``.

    Parameters
    ----------
    classes : full moments of the rows of each class; weighted rows serve for soft memberships.
        Their sum is the total. Classes without rows are left out.
    epsilon : the distortion, in the units of the rows.

    Raises
    ------
    GramianError : no class has rows, widths that differ, diagonal moments, or an epsilon that is
        not positive.
    """
    held = [m for m in classes if m.count > 0]
    if not held:
        raise GramianError("rate reduction of no rows; give the moments of each class")
    total: Moments = sum(held[1:], held[0])
    apart = sum(m.count / total.count * coding_rate(m, epsilon=epsilon) for m in held)
    return RateReduction(coding_rate(total, epsilon=epsilon), apart)
