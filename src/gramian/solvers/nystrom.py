"""Second moments of low rank from a few of their columns, or from one thin product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import lapack
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import LinearMap, LowRank, Tag
from gramian.moments import Moments, SketchedMoments
from gramian.registry import method
from gramian.solvers.spectrum import eigh


@dataclass(frozen=True, eq=False)
class Nystrom:
    """``vectors diag(values) vectors^T``: never more than the matrix it stands for."""

    values: Tensor
    """(r,) float64, descending, above zero."""
    vectors: Tensor
    """(d, r), orthonormal columns."""
    trace: float
    """Of the whole matrix."""

    @property
    def rank(self) -> int:
        """Directions kept."""
        return len(self.values)

    @property
    def missing(self) -> float:
        """Share of the trace left out. What is left out is positive semidefinite, so this is the
        error in nuclear norm, exactly, and bounds that in every other."""
        return max(0.0, 1.0 - float(self.values.sum()) / self.trace) if self.trace > 0 else 0.0

    @property
    def map(self) -> LowRank:
        """The same as a map, applied as two thin products."""
        return LowRank(self.vectors * self.values, self.vectors.T, tags={Tag.SYMMETRIC})


@method("nystrom", job="solve", paper="2111.14385")
def nystrom(
    second: Moments | SketchedMoments | Tensor,
    rank: int | None = None,
    *,
    columns: Sequence[int] | Tensor | None = None,
    omega: Tensor | LinearMap | None = None,
) -> Nystrom:
    """Low-rank approximation ``C O (O^T C O)^+ (C O)^T`` of a positive semidefinite ``C``.

    Exact when ``O^T C O`` has the rank of ``C``. The core is scaled to unit diagonal, its
    eigenvalues up to 10 k eps are dropped, and no inverse is formed: one thin SVD of
    ``C O core^(-1/2)`` gives orthonormal vectors. With ``columns`` equivalent to scikit-learn's
    ``Nystroem`` on the same landmarks.

    Parameters
    ----------
    second : moments (their scatter is taken), sketched moments, or ``C`` (d, d) itself.
    rank : directions to keep, by default all of the core. A sketch some 10 columns wider than
        the rank loses little against the best approximation.
    columns : which columns of ``C`` to start from, for example `leading_columns`.
    omega : ``O``, (d, k), or a map from d to k whose transpose it is, as of a sketch.

    Raises
    ------
    GramianError : not one of ``columns`` and ``omega`` for a matrix, or one of them for sketched
        moments; wrong shapes; a matrix that is not symmetric, or not positive semidefinite.
    """
    if isinstance(second, SketchedMoments):
        if columns is not None or omega is not None:
            raise GramianError("sketched moments bring their own omega; leave columns and omega")
        product, core, trace = second.product, second.core(), second.trace
    else:
        matrix = _matrix(second)
        trace = float(matrix.trace())
        product, core = _started(matrix, columns, omega)
    if rank is not None and not 1 <= rank <= len(core):
        raise GramianError(f"rank is {rank}, expected 1 to {len(core)}, the width of the core")
    # C O D (D O^T C O D)^+ (C O D)^T with D = diag(core)^(-1/2): the same matrix, cut per column
    diagonal = core.diagonal()
    if float(diagonal.min()) < -1e-12 * float(diagonal.abs().max()):
        raise GramianError(
            f"the core has {float(diagonal.min()):.2e} on its diagonal: the matrix is not positive "
            "semidefinite; complete or shrink it first"
        )
    scale = torch.where(diagonal > 0, diagonal.clamp_min(1e-300).rsqrt(), 0.0)
    values, basis = eigh(scale[:, None] * core * scale)
    cut = 10 * len(core) * torch.finfo(torch.float64).eps
    if len(values) and float(values[0]) < -1e-6:
        raise GramianError(
            f"the core has the eigenvalue {float(values[0]):.2e} after scaling to unit diagonal: "
            "the matrix is not positive semidefinite; complete or shrink it first"
        )
    kept = values > cut
    root = (product * scale) @ (basis[:, kept] / values[kept].sqrt())
    left, singular, _ = torch.linalg.svd(root, full_matrices=False)
    found = singular.square()[:rank]
    above = found > 0
    return Nystrom(found[above], left[:, : len(found)][:, above].contiguous(), trace)


def leading_columns(second: Moments | Tensor, number: int) -> Tensor:
    """The columns that tell most of the rest, one after the other: pivoted Cholesky, (k,) indices.

    Fewer than ``number`` when the matrix has a smaller rank. Each is the coordinate of largest
    variance that the ones before leave unexplained.

    Raises
    ------
    GramianError : a number outside 1 to d, or a matrix that is not symmetric.
    """
    matrix = _matrix(second)
    if not 1 <= number <= len(matrix):
        raise GramianError(f"{number} columns of {len(matrix)}, expected 1 to {len(matrix)}")
    eps = torch.finfo(torch.float64).eps
    floor = 10 * len(matrix) * eps * float(matrix.diagonal().max())
    array = np.array(matrix.numpy(), order="F")
    _, pivots, rank, _ = lapack.dpstrf(array, tol=floor, lower=1, overwrite_a=1)
    return torch.from_numpy(pivots[: min(number, int(rank))].astype(np.int64) - 1)


def _matrix(second: Moments | Tensor) -> Tensor:
    if isinstance(second, Moments):
        if second.is_diagonal:
            raise GramianError("nystrom needs full moments; collect the site with order='full'")
        return second.scatter
    matrix = second.detach().to("cpu", torch.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise GramianError(f"matrix of shape {tuple(matrix.shape)}, expected (d, d)")
    if not bool(torch.isfinite(matrix).all()):
        raise GramianError("the matrix holds NaN or infinity; of masked moments, complete them")
    gap, size = float((matrix - matrix.T).abs().max()), float(matrix.abs().max())
    if gap > 1e-6 * size:
        raise GramianError(
            f"the matrix is off its transpose by {gap:.2e}, expected a symmetric one"
        )
    return (matrix + matrix.T) / 2


def _started(
    matrix: Tensor, columns: Sequence[int] | Tensor | None, omega: Tensor | LinearMap | None
) -> tuple[Tensor, Tensor]:
    """``C O`` and ``O^T C O``."""
    d = len(matrix)
    if (columns is None) == (omega is None):
        raise GramianError(
            "give either columns (for example leading_columns(matrix, k)) or omega, (d, k)"
        )
    if columns is not None:
        index = torch.as_tensor(columns, dtype=torch.long)
        if not len(index) or int(index.min()) < 0 or int(index.max()) >= d:
            raise GramianError(f"columns must be indices from 0 to {d - 1}, at least one")
        if len(set(index.tolist())) < len(index):
            raise GramianError("columns holds an index twice; name each once")
        return matrix[:, index], matrix[index][:, index]
    if isinstance(omega, LinearMap):
        thin = omega.to_dense(torch.float64).T
    else:
        assert omega is not None
        thin = omega.detach().to(torch.float64)
    if thin.ndim != 2 or thin.shape[0] != d or not thin.shape[1]:
        raise GramianError(f"omega of shape {tuple(thin.shape)}, expected ({d}, k)")
    product = matrix @ thin
    core = thin.T @ product
    return product, (core + core.T) / 2
