"""Is a principal subspace stable, and is another one consistent with it?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from scipy.stats import chi2
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures.spread import floored
from gramian.moments import Moments
from gramian.moments.products import as_rows
from gramian.registry import method
from gramian.solvers.spectrum import eigh


@method("principal_angles", job="inspect", paper="Björck & Golub 1973, Math. Comp. 27(123)")
def principal_angles(a: Any, b: Any) -> Tensor:
    """Angles between two subspaces in radians, ascending, accurate near 0 as near pi/2.

    Parameters
    ----------
    a, b : (d, k) and (d, m), columns that span the subspaces; they need not be orthonormal.

    Returns ``min(k, m)`` angles. Equivalent to ``scipy.linalg.subspace_angles``, which gives them
    in descending order.

    Raises
    ------
    GramianError : shapes that do not fit, columns that depend on each other, NaN.
    """
    first, second = orthonormal(a, "a"), orthonormal(b, "b")
    if len(first) != len(second):
        raise GramianError(f"subspaces of spaces of {len(first)} and {len(second)} dimensions")
    if first.shape[1] < second.shape[1]:
        first, second = second, first
    cosines = first.T @ second
    # Small angles by their sines: those of what the first subspace leaves of the second.
    sine = torch.linalg.svdvals(second - first @ cosines).flip(0).clamp_max(1.0)
    cosine = torch.linalg.svdvals(cosines).clamp_max(1.0)
    return torch.where(cosine.square() >= 0.5, sine.arcsin(), cosine.arccos())


def orthonormal(columns: Any, what: str = "basis") -> Tensor:
    """An orthonormal basis (d, k) of the span of columns, in float64.

    Raises
    ------
    GramianError : not (d, k) with 1 <= k <= d, NaN or infinity, or columns that depend on each
        other.
    """
    matrix = as_rows(columns)
    shape = tuple(matrix.shape)
    if matrix.ndim != 2 or not 1 <= shape[1] <= shape[0]:
        raise GramianError(f"{what}: shape {shape}, expected (d, k) with 1 <= k <= d")
    matrix = matrix.to("cpu", torch.float64)
    if not bool(torch.isfinite(matrix).all()):
        raise GramianError(f"{what}: holds NaN or infinity")
    lengths = torch.linalg.vector_norm(matrix, dim=0)
    if bool((lengths > 0).all()):
        q: Tensor
        q, r = torch.linalg.qr(matrix / lengths)
        if float(r.diagonal().abs().min()) > shape[0] * torch.finfo(torch.float64).eps:
            return q
    raise GramianError(f"{what}: the {shape[1]} columns depend on each other; give a basis")


@dataclass(frozen=True, eq=False)
class SubspaceTest:
    """Whether a subspace is consistent with the leading principal subspace of some rows."""

    statistic: float
    """Chi-square under the hypothesis; infinite when a hypothesised direction is orthogonal to
    the principal subspace."""
    dof: int
    """``k (d - k)``."""
    p_value: float
    angles: Tensor
    """(k,) principal angles to the principal subspace, radians, ascending."""
    gap: float
    """``lambda_k / lambda_(k+1)``: near 1 the principal subspace itself is not determined."""
    rows: float
    """Independent rows that were counted on."""

    def accepts(self, level: float = 0.95) -> bool:
        """Whether the subspace lies in the confidence region of this level."""
        if not 0 < level < 1:
            raise GramianError(f"level is {level!r}, expected a number between 0 and 1")
        return self.statistic <= float(chi2.ppf(level, self.dof))


@method("subspace_test", job="inspect", paper="2209.02025")
def subspace_test(
    moments: Moments,
    basis: Any,
    *,
    rows: float | None = None,
    elliptical: bool = False,
) -> SubspaceTest:
    """Test that the k leading principal directions of the rows' law span a given subspace.

    For independent normal rows the statistic is asymptotically chi-square with ``k (d - k)``
    degrees of freedom; the subspaces that it accepts are a confidence region.

    Parameters
    ----------
    moments : full, of rows that vary in all d directions.
    basis : (d, k), columns that span the subspace, 1 <= k < d; another model's, or yesterday's.
    rows : effective number of independent rows where they depend on each other (tokens of one
        text), by default their count.
    elliptical : rows with tails heavier (or lighter) than normal, of elliptical law: the statistic
        is divided by ``1 + kappa``, estimated from the sums of fourth order.

    Raises
    ------
    GramianError : shapes that do not fit, a singular covariance, no more rows than dimensions, or
        ``elliptical`` without sums of fourth order.
    """
    if moments.is_diagonal:
        raise GramianError("a subspace test needs full moments; only the diagonal is kept")
    given = orthonormal(basis)
    d, k = given.shape
    if d != moments.d or k >= d:
        raise GramianError(
            f"a basis of shape {(d, k)} for rows of width {moments.d}, expected (d, k) with k < d"
        )
    n = moments.count if rows is None else rows
    values, vectors = eigh(moments.scatter)
    rank = int((floored(values.clamp_min(0.0)) > 0).sum())
    if rank < d or not n > d:
        raise GramianError(
            f"rows that vary in {rank} of {d} directions, and {n:g} independent rows: the test "
            f"needs all directions and more than {d} rows; select coordinates that vary, or push "
            "the moments through a thinner map"
        )
    values, vectors = values.flip(0), vectors.flip(1)
    leading, rest = vectors[:, :k], vectors[:, k:]
    gap = float(values[k - 1] / values[k])
    angles = principal_angles(leading, given)
    if float(angles[-1]) > math.pi / 2 - 1e-12:
        return SubspaceTest(math.inf, k * (d - k), 0.0, angles, gap, n)
    # B = U_rest^T V (U_lead^T V)^-1; T = n sum_(i<=k<j) (l_i - l_j)^2 / (l_i l_j) B_ji^2
    tilt = torch.linalg.solve(leading.T @ given, rest.T @ given, left=False)
    above, below = values[None, :k], values[k:, None]
    weight = (above - below).square() / (above * below)
    statistic = n * float((weight * tilt.square()).sum())
    if elliptical:
        statistic /= _tail(moments)
    dof = k * (d - k)
    return SubspaceTest(statistic, dof, float(chi2.sf(statistic, dof)), angles, gap, n)


def _tail(moments: Moments) -> float:
    """``1 + kappa`` of an elliptical law: 1 for a normal one."""
    if moments.quartic is None:
        raise GramianError(
            "elliptical=True needs the sums of fourth order (quartic) of the moments; these were "
            "collected or mapped without"
        )
    # E|x - mean|^4 = (1 + kappa) (2 tr S^2 + (tr S)^2)
    n = moments.count
    squares = float(moments.scatter.square().sum()) / n**2
    trace = moments.trace / n
    return moments.quartic.square / n / (2 * squares + trace * trace)
