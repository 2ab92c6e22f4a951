"""Entropy and nuclear norm of a matrix of rows, from its second moments.

The singular values of the rows are the square roots of the eigenvalues of ``sum x x^T``. Of
moments these measures take the second moments about zero, as the papers do: of the rows as they
are. Rows are centred and brought to unit length with `unit_rows` before their moments are taken
where a measure is meant for such rows.
"""

from __future__ import annotations

import math

from torch import Tensor

from gramian.errors import GramianError
from gramian.measures.effective_rank import spectrum_of
from gramian.moments import Moments
from gramian.registry import method
from gramian.solvers.spectrum import eigenvalues, entropy_rank


@method("matrix_entropy", job="inspect", paper="2410.10672")
def matrix_entropy(moments: Moments | Tensor) -> float:
    """Entropy of the eigenvalues of the second moments, over ``ln d``: 0 to 1.

    The paper's figure of a text: of the moments of ``unit_rows(rows, centred=True)``. Of
    eigenvalues (d,): of these. nan when d = 1 or all are zero.

    Raises
    ------
    GramianError : diagonal moments, or eigenvalues below zero.
    """
    values = second_spectrum(moments)
    rank = entropy_rank(values)
    return math.log(rank) / math.log(len(values)) if len(values) > 1 and rank > 0 else math.nan


@method("rankme", job="inspect", paper="2210.02885")
def rankme(moments: Moments | Tensor) -> float:
    """Exponential of the entropy of the singular values of the rows, from 1 to d.

    `effective_rank` is the same of their squares. Of moments: of the rows as they are, mean
    included. Of eigenvalues (d,): of their square roots. Zero when all are zero.
    """
    return entropy_rank(second_spectrum(moments).sqrt())


@method("nuclear_norm", job="inspect", paper="2410.10672")
def nuclear_norm(moments: Moments | Tensor) -> float:
    """Sum of the singular values of the rows (n, d), exactly.

    Of moments: of the rows as they are. Of eigenvalues (d,) of ``sum x x^T``: the sum of their
    square roots.
    """
    return float(second_spectrum(moments).sqrt().sum())


@method("matrix_nuclear_norm", job="inspect", paper="2410.10672")
def matrix_nuclear_norm(moments: Moments) -> float:
    """The paper's stand-in for the nuclear norm of n rows: the ``min(n, d)`` largest column
    norms, added and divided by n.

    The paper takes it of ``unit_rows(rows, centred=True)`` of one text and averages over texts.
    With n >= d it is an upper bound of ``nuclear_norm / n``, equal only when the columns are
    orthogonal; it depends on the basis. Kept for comparison: the exact norm costs one
    eigendecomposition, whatever n is. Diagonal moments do.

    Raises
    ------
    GramianError : no rows.
    """
    if moments.count <= 0:
        raise GramianError("nuclear norm of no rows")
    norms = (moments.variances + moments.count * moments.mean.square()).clamp_min(0.0).sqrt()
    kept = min(int(moments.count), moments.d)
    return float(norms.sort(descending=True).values[:kept].sum()) / moments.count


def second_spectrum(moments: Moments | Tensor) -> Tensor:
    """Eigenvalues of the second moments about zero, or the values given; none below zero."""
    if isinstance(moments, Tensor):
        return spectrum_of(moments)
    if moments.is_diagonal:
        raise GramianError("a spectrum needs full moments; only the diagonal is kept")
    return eigenvalues(moments.raw()).clamp_min(0.0)
