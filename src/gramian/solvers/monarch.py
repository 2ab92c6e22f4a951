"""The Monarch matrix nearest to a layer: in closed form, or for the inputs that the layer sees."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from gramian.maps import Monarch
from gramian.moments import Moments
from gramian.registry import method
from gramian.solvers.structured import (
    Problem,
    Structured,
    checked_rank,
    grid_of,
    pinv,
    solved,
)
from gramian.solvers.truncate import checked_weight


def monarch_projection(
    weight: Tensor, grid: tuple[int, int] | None = None, *, rank: int = 1
) -> Monarch:
    """The Monarch matrix of least squared distance to a weight (m, n), exactly.

    Parameters
    ----------
    grid : (L, K), divisors of m and n. By default the largest up to their square roots.
    rank : of each of the L K slices.

    Raises
    ------
    GramianError : a grid that does not divide the matrix, or a rank above that of a slice.
    """
    w = checked_weight(weight)
    groups, pieces = grid_of((w.shape[0], w.shape[1]), grid, "Monarch")
    slices = w.reshape(-1, groups, pieces, w.shape[1] // pieces).permute(1, 2, 0, 3)
    r = checked_rank(rank, min(slices.shape[2:]))
    # Slices (l, k) have no parameter in common: each has its own best approximation of rank r.
    u, s, v = torch.linalg.svd(slices, full_matrices=False)
    root = s[..., :r].sqrt()
    left = (u[..., :r] * root[..., None, :]).permute(0, 2, 1, 3)
    right = (root[..., None] * v[..., :r, :]).transpose(0, 1)
    return Monarch(left.contiguous(), right.contiguous())


@method("monarch", job="compress", paper="2204.00595")
def monarch(
    weight: Tensor,
    inputs: Moments | None = None,
    *,
    grid: tuple[int, int] | None = None,
    rank: int = 1,
    sweeps: int = 30,
    folds: Mapping[str, Moments] | None = None,
) -> Structured:
    """Monarch matrix that gives what a layer gives on its inputs.

    Without moments the closed form of `monarch_projection`. With them it starts there and
    alternates exact least squares in ``E |W x - M x|^2``: the left factor all at once, the right
    one a group of inputs at a time.

    Parameters
    ----------
    weight : (m, n), (out, in).
    inputs : full moments of the layer's input, width n, to fit on.
    grid, rank : as in `monarch_projection`.
    sweeps : at most so many alternations.
    folds : other moments of the input on which the error is reported.

    Raises
    ------
    GramianError : shapes that do not fit, moments without rows or of diagonal order.
    """
    problem = Problem(weight, inputs)
    start = monarch_projection(weight, grid, rank=rank)
    if inputs is None:
        objective: tuple[float, ...] = (problem.error(start.to_dense()),)
        return problem.result(start, objective, folds or {})
    steps = _Steps(problem, start)
    best, objective = problem.sweeps(steps.map, steps.sweep, sweeps)
    return problem.result(best, objective, folds or {})


class _Steps:
    """Both least squares. For every l: W_l (o, n), left A_l (o, K r), right R_l (K r, n), of which
    the rows of group k are zero outside its columns."""

    def __init__(self, problem: Problem, start: Monarch) -> None:
        groups, pieces = start.grid
        self.metric = problem.metric()
        n = problem.weight.shape[1]
        self.pull = problem.pull.reshape(-1, groups, n).transpose(0, 1)
        self.left = start.left.flatten(2).clone()
        self.right = start.right.transpose(0, 1).contiguous()  # (L, K, r, i)
        self.columns = torch.arange(n).reshape(pieces, -1)
        self.inverses = [pinv(self.metric[c][:, c]) for c in self.columns]

    def map(self) -> Monarch:
        groups, pieces, rank, _ = self.right.shape
        left = self.left.reshape(groups, -1, pieces, rank)
        return Monarch(left.clone(), self.right.transpose(0, 1).clone())

    def sweep(self) -> None:
        """A_l = W_l C R_l^T (R_l C R_l^T)^+, then for every group
        R_lk = (A_k^T A_k)^+ A_k^T (W_l - sum_(j /= k) A_j R_lj) C_(:, k) C_kk^+."""
        moved = self._moved()
        gram = self._read(moved)
        self.left = solved(gram, self._read(self.pull).transpose(1, 2)).transpose(1, 2)
        rank = self.right.shape[2]
        product = self.left.transpose(1, 2) @ self.left
        wanted = self.left.transpose(1, 2) @ self.pull
        for k, columns in enumerate(self.columns):
            rows = slice(k * rank, (k + 1) * rank)
            own = product[:, rows, rows]
            present = self.right[:, k] @ self.metric[columns][:, columns]
            others = product[:, rows] @ moved[:, :, columns] - own @ present
            target = wanted[:, rows][:, :, columns] - others
            self.right[:, k] = solved(own, target) @ self.inverses[k]
            moved[:, rows] = self.right[:, k] @ self.metric[columns]

    def _moved(self) -> Tensor:
        """``R_l C``, (L, K r, n)."""
        pieces = [self.right[:, k] @ self.metric[c] for k, c in enumerate(self.columns)]
        return torch.cat(pieces, dim=1)

    def _read(self, rows: Tensor) -> Tensor:
        """``rows R_l^T``: (L, a, n) to (L, a, K r)."""
        pieces = rows.reshape(*rows.shape[:-1], *self.columns.shape)
        return torch.einsum("laki,lkri->lakr", pieces, self.right).flatten(2)
