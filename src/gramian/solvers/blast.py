"""Blocks with shared bases for a layer, by alternating exact least squares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Blast
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
from gramian.solvers.truncate import Metric, truncation


@method("blast", job="compress", paper="2410.21262")
def blast(
    weight: Tensor,
    inputs: Moments | None = None,
    *,
    rank: int,
    grid: tuple[int, int] | None = None,
    sweeps: int = 100,
    starts: int = 1,
    seed: int = 0,
    folds: Mapping[str, Moments] | None = None,
) -> Structured:
    """Blocks ``left_i diag(gains_ij) right_j`` that give what a layer gives on its inputs.

    It starts from the low-rank map of the same rank that loses least (gains of one), so that it
    is never worse, and alternates exact least squares in left bases, gains and right bases: no
    step size. The published fit takes preconditioned gradient steps in the weights alone. The
    objective has several minima: more starts, from seeded random bases, may find a lower one.

    Parameters
    ----------
    weight : (m, n), (out, in).
    inputs : full moments of the layer's input, width n, to fit on; without them the fit is of the
        weights.
    rank : of each block, 1 to min(m, n).
    grid : (rows, columns) of blocks, divisors of m and n. By default the largest up to 16.
    sweeps : at most so many alternations, of every start.
    starts, seed : how many starts, the first as above; of the ends the best is returned.
    folds : other moments of the input on which the error is reported.

    Raises
    ------
    GramianError : shapes that do not fit, moments without rows or of diagonal order, no start.
    """
    if starts < 1:
        raise GramianError(f"starts is {starts}, expected 1 or more")
    problem = Problem(weight, inputs)
    m, n = problem.weight.shape
    shape = grid_of((m, n), grid or (_few(m), _few(n)), "BLAST")
    r = checked_rank(rank, min(m, n))
    metric: Metric = "none" if inputs is None else "full"
    low = truncation(weight, inputs, metric=metric)
    first = Blast(*_factored(low.up[:, :r], low.down[:r], shape))
    ends = []
    for start in (first, *_random(first, starts - 1, seed)):
        steps = _Steps(problem, start)
        ends.append(problem.sweeps(steps.map, steps.sweep, sweeps))
    best, objective = min(ends, key=lambda end: end[1][-1])
    return problem.result(best, objective, folds or {})


def _factored(up: Tensor, down: Tensor, grid: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """A low-rank map in blocks."""
    left = up.reshape(grid[0], -1, up.shape[1])
    right = down.reshape(len(down), grid[1], -1).transpose(0, 1)
    return left, torch.ones(*grid, len(down), dtype=torch.float64), right


def _random(like: Blast, count: int, seed: int) -> Iterator[Blast]:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield Blast(*(t.clone().normal_(generator=generator) for t in like.tensors().values()))


def _few(size: int) -> int:
    return next(n for n in range(16, 0, -1) if size % n == 0)


class _Steps:
    """The three least squares. With U_i = left_i, s_ij the gains and V_j = right_j, (r, q):
    W_i (p, n) is fitted by U_i Z_i, Z_i = [diag(s_i1) V_1, ..., diag(s_ib) V_b]."""

    def __init__(self, problem: Problem, start: Blast) -> None:
        rows, columns = start.grid
        self.metric = problem.metric()
        self.pull = problem.pull.reshape(rows, -1, problem.weight.shape[1])
        self.left, self.gains = start.left.clone(), start.gains.clone()
        self.right = start.right.clone()
        self.columns = torch.arange(start.in_features).reshape(columns, -1)
        self.inverses = [pinv(self.metric[c][:, c]) for c in self.columns]

    def map(self) -> Blast:
        return Blast(self.left.clone(), self.gains.clone(), self.right.clone())

    def sweep(self) -> None:
        """Bring the bases to unit length, then solve for left bases, gains and right bases."""
        self._balance()
        spread = self._spread()
        gram = spread @ self.metric @ spread.transpose(1, 2)
        self.left = solved(gram, spread @ self.pull.transpose(1, 2)).transpose(1, 2)
        self._balance()
        product = self.left.transpose(1, 2) @ self.left
        wanted = self.left.transpose(1, 2) @ self.pull
        moved = self._spread() @ self.metric
        for j, columns in enumerate(self.columns):
            # Gains of column j: ((U_i^T U_i) o (V_j C_jj V_j^T)) s_ij = diag(U_i^T rest_i V_j^T)
            right = self.right[j]
            length = right @ self.metric[columns][:, columns] @ right.T
            rest = self._rest(wanted, product, moved, j)
            target = torch.einsum("arq,rq->ar", rest, right)
            gains = solved(product * length, target[..., None])
            self._set(moved, j, gains=gains[..., 0])
            # Right basis: sum_i (s_i s_i^T o U_i^T U_i) V_j C_jj = sum_i diag(s_i) U_i^T rest_i
            scale = self.gains[:, j]
            core = (product * scale[:, :, None] * scale[:, None]).sum(0)
            rest = self._rest(wanted, product, moved, j)
            target = torch.einsum("ar,arq->rq", scale, rest)
            self._set(moved, j, right=solved(core, target) @ self.inverses[j])

    def _set(
        self, moved: Tensor, j: int, *, gains: Tensor | None = None, right: Tensor | None = None
    ) -> None:
        """Replace gains or basis of column j, and their part of ``Z_i C``."""
        before = self._part(j)
        if gains is not None:
            self.gains[:, j] = gains
        if right is not None:
            self.right[j] = right
        moved += (self._part(j) - before) @ self.metric[self.columns[j]]

    def _part(self, j: int) -> Tensor:
        return self.gains[:, j, :, None] * self.right[j]

    def _spread(self) -> Tensor:
        """All ``Z_i``, (rows, r, n)."""
        return torch.cat([self._part(j) for j in range(len(self.columns))], dim=2)

    def _rest(self, wanted: Tensor, product: Tensor, moved: Tensor, j: int) -> Tensor:
        """``U_i^T (W_i - U_i Z_i without column j) C_(:, j)``, (rows, r, q)."""
        columns = self.columns[j]
        own = self._part(j) @ self.metric[columns][:, columns]
        return wanted[:, :, columns] - product @ (moved[:, :, columns] - own)

    def _balance(self) -> None:
        """Unit columns in ``left`` and unit rows in ``right``; the gains take what they had."""
        left, right = self.left.norm(dim=1), self.right.norm(dim=2)
        self.gains = self.gains * left[:, None] * right[None]
        self.left = self.left / left.clamp_min(_TINY)[:, None]
        self.right = self.right / right.clamp_min(_TINY)[:, :, None]


_TINY = 1e-300
