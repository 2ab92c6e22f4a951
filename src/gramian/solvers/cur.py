"""A matrix written with some of its own columns and rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import LowRank
from gramian.registry import method

Array = NDArray[np.float64]
Index = NDArray[np.int64]
KINDS = ("pivot", "leverage")
CORES = ("best", "cross")


@dataclass(frozen=True, eq=False)
class Cur:
    """``matrix[:, columns] @ core @ matrix[rows]``."""

    columns: Tensor
    """(c,) indices, the most telling first."""
    rows: Tensor
    """(r,) indices; fewer than asked for where the rank needs no more."""
    core: Tensor
    """(c, r) float64; zero for columns and rows that others make superfluous."""
    map: LowRank
    """The same product with one thin factor orthonormal, which rounds less than the core does."""
    relative_error: float
    """``|matrix - product| / |matrix|``, Frobenius norms."""


@method("cur", job="solve", paper="2111.14385")
def cur(
    matrix: Tensor,
    rank: int,
    oversample: int | None = None,
    *,
    kind: str = "pivot",
    core: str = "best",
    seed: int = 0,
) -> Cur:
    """Low-rank approximation whose factors are columns and rows of the matrix itself.

    So its factors keep what the coordinates mean, which singular vectors do not. Exact when the
    matrix has that rank. Rank decisions are made on pivoted QR at 10 max(shape) eps, systems are
    solved by triangular substitution, and no pseudo-inverse is formed.

    Parameters
    ----------
    matrix : (out, in), of any float dtype; computed in float64.
    rank : columns to take.
    oversample : rows beyond the columns, by default half as many.
    kind : ``"pivot"``: columns and rows by pivoted QR, deterministic. ``"leverage"``: drawn
        without repetition by their share in the leading singular subspace, from ``seed``.
    core : ``"best"``: ``C^+ A R^+``, of least squared error for these columns and rows.
        ``"cross"``: from the crossing ``A[rows, columns]`` alone, so the rest of the matrix is
        not read again.

    Raises
    ------
    GramianError : an unknown kind or core, a rank outside 1 to min(shape), NaN or infinity, or a
        matrix of zeros.
    """
    for name, value, known in (("kind", kind, KINDS), ("core", core, CORES)):
        if value not in known:
            raise GramianError(f"{name} is {value!r}, expected {' or '.join(map(repr, known))}")
    a = _array(matrix)
    if not 1 <= rank <= min(a.shape):
        raise GramianError(f"rank is {rank} of a matrix {a.shape}, expected 1 to {min(a.shape)}")
    extra = (rank + 1) // 2 if oversample is None else oversample
    if extra < 0:
        raise GramianError(f"oversample is {oversample}, expected at least 0")
    number = min(rank + extra, len(a))
    if kind == "pivot":
        columns = _pivots(a, rank)
        rows = _pivots(a[:, columns].T, len(columns))
        more = [row for row in _pivots(a.T, number).tolist() if row not in set(rows.tolist())]
        rows = np.asarray([*rows.tolist(), *more[: number - len(rows)]], np.int64)
    else:
        source = np.random.default_rng(seed)
        left, _, right = scipy.linalg.svd(a, full_matrices=False)
        columns = _drawn(np.square(right[:rank]).sum(0), rank, source)
        rows = _drawn(np.square(left[:, :rank]).sum(1), number, source)
    made, product = (_best if core == "best" else _cross)(a, columns, rows)
    gap = a - product.to_dense().numpy()
    return Cur(
        torch.from_numpy(columns),
        torch.from_numpy(rows),
        torch.from_numpy(made),
        product,
        float(np.linalg.norm(gap) / np.linalg.norm(a)),
    )


def _array(matrix: Tensor) -> Array:
    if matrix.ndim != 2 or not matrix.is_floating_point():
        raise GramianError(
            f"{matrix.dtype} matrix of shape {tuple(matrix.shape)}, expected floating point "
            "(out, in)"
        )
    a: Array = matrix.detach().to("cpu", torch.float64).numpy()
    if not np.isfinite(a).all():
        raise GramianError("the matrix holds NaN or infinity")
    if not a.any():
        raise GramianError("the matrix is zero: it has no columns to choose")
    return a


def _pivots(a: Array, number: int) -> Index:
    """Columns in the order of pivoted QR, up to the rank."""
    r, order = scipy.linalg.qr(a, mode="r", pivoting=True)
    return np.asarray(order[: min(number, _rank(np.asarray(r, np.float64), a.shape))], np.int64)


def _rank(r: Array, shape: tuple[int, ...]) -> int:
    diagonal = np.abs(np.diagonal(r))
    return int((diagonal > 10 * max(shape) * np.finfo(np.float64).eps * diagonal[0]).sum())


def _drawn(scores: Array, number: int, source: np.random.Generator) -> Index:
    share = scores / scores.sum()
    number = min(number, int((share > 0).sum()))
    chosen = source.choice(len(scores), size=number, replace=False, p=share)
    return np.asarray(chosen[np.argsort(-scores[chosen], kind="stable")], np.int64)


def _basis(a: Array) -> tuple[Array, Array, Index]:
    """``a[:, order] = q r`` with orthonormal q and triangular r, cut at the rank."""
    q, r, order = scipy.linalg.qr(a, mode="economic", pivoting=True)
    whole, triangle = np.asarray(q, np.float64), np.asarray(r, np.float64)
    kept = _rank(triangle, a.shape)
    return whole[:, :kept], triangle[:kept, :kept], np.asarray(order[:kept], np.int64)


def _best(a: Array, columns: Index, rows: Index) -> tuple[Array, LowRank]:
    # C = Qc Tc, R^T = Qr Tr:  C C^+ A R^+ R = Qc (Qc^T A Qr) Qr^T,  core = Tc^-1 (...) Tr^-T
    qc, tc, pc = _basis(a[:, columns])
    qr, tr, pr = _basis(a[rows].T)
    middle = qc.T @ a @ qr
    core = np.zeros((len(columns), len(rows)))
    solved = scipy.linalg.solve_triangular(tc, middle)
    core[np.ix_(pc, pr)] = scipy.linalg.solve_triangular(tr, solved.T).T
    return core, LowRank(torch.from_numpy(qc.copy()), torch.from_numpy(middle @ qr.T))


def _cross(a: Array, columns: Index, rows: Index) -> tuple[Array, LowRank]:
    # A[rows, columns] = Q T:  core = T^-1 Q^T, least squares over the crossing rows
    q, t, order = _basis(a[np.ix_(rows, columns)])
    core = np.zeros((len(columns), len(rows)))
    core[order] = scipy.linalg.solve_triangular(t, q.T)
    down = scipy.linalg.solve_triangular(t, q.T @ a[rows])
    return core, LowRank(torch.from_numpy(a[:, columns[order]].copy()), torch.from_numpy(down))
