"""Blocks on the diagonal and a low-rank rest for a layer, by alternating closed forms."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import BlockDiagonal, LinearMap, LowRank, Sum
from gramian.moments import Moments
from gramian.solvers.structured import Problem, Structured, balanced, pinv
from gramian.solvers.truncate import Metric, truncation


def blocks_plus_low_rank(
    weight: Tensor,
    inputs: Moments | None = None,
    *,
    blocks: int | None = None,
    rank: int = 0,
    sweeps: int = 100,
    folds: Mapping[str, Moments] | None = None,
) -> Structured:
    """Blocks on the diagonal plus a low-rank matrix that give what a layer gives on its inputs.

    Either part has a closed form when the other is held: the blocks by least squares, the
    rest by truncating what the blocks leave. They alternate from both starts (blocks first, low
    rank first), and the better end is returned.

    Parameters
    ----------
    weight : (m, n), (out, in).
    inputs : full moments of the layer's input, width n, to fit on; without them the fit is of the
        weights.
    blocks : how many, a divisor of m and n. By default the largest up to the square root of
        their greatest common divisor.
    rank : of the rest; 0 for blocks alone.
    sweeps : at most so many alternations.
    folds : other moments of the input on which the error is reported.

    Raises
    ------
    GramianError : shapes that do not fit, moments without rows or of diagonal order.
    """
    problem = Problem(weight, inputs)
    m, n = problem.weight.shape
    count = balanced(math.gcd(m, n)) if blocks is None else blocks
    if type(count) is not int or count < 1 or m % count or n % count:
        raise GramianError(f"blocks is {count}, expected a number that divides {m} and {n}")
    if type(rank) is not int or not 0 <= rank <= min(m, n):
        raise GramianError(f"rank is {rank}, expected 0 to {min(m, n)}")
    ends = []
    for low_rank_first in (False, True) if rank else (False,):
        steps = _Steps(problem, inputs, count, rank)
        steps.start(low_rank_first)
        ends.append(problem.sweeps(steps.map, steps.sweep, sweeps if rank else 0))
    best, objective = min(ends, key=lambda end: end[1][-1])
    return problem.result(best, objective, folds or {})


class _Steps:
    def __init__(self, problem: Problem, inputs: Moments | None, count: int, rank: int) -> None:
        m, n = problem.weight.shape
        self.problem, self.inputs, self.rank = problem, inputs, rank
        self.metric = problem.metric()
        self.rows, self.columns = (torch.arange(d).reshape(count, -1) for d in (m, n))
        self.inverses = [pinv(self.metric[c][:, c]) for c in self.columns]
        self.blocks = torch.zeros(count, m // count, n // count, dtype=torch.float64)
        self.low = LowRank(
            torch.zeros(m, rank, dtype=torch.float64), torch.zeros(rank, n, dtype=torch.float64)
        )

    def start(self, low_rank_first: bool) -> None:
        if low_rank_first:
            self._truncate()
        self._fit_blocks()

    def sweep(self) -> None:
        self._truncate()
        self._fit_blocks()

    def map(self) -> LinearMap:
        blocks = BlockDiagonal(self.blocks.clone())
        return Sum((blocks, self.low)) if self.rank else blocks

    def _fit_blocks(self) -> None:
        """``B_k = (W - L)_k C_(:, k) C_kk^+``: rows of block k, all that its columns explain."""
        pull = self.problem.pull - self.low.up @ (self.low.down @ self.metric)
        for k, (rows, columns) in enumerate(zip(self.rows, self.columns, strict=True)):
            self.blocks[k] = pull[rows][:, columns] @ self.inverses[k]

    def _truncate(self) -> None:
        rest = self.problem.weight - BlockDiagonal(self.blocks).to_dense()
        metric: Metric = "none" if self.inputs is None else "full"
        found = truncation(rest, self.inputs, metric=metric)
        up, down = found.up[:, : self.rank], found.down[: self.rank]
        self.low = LowRank(up.contiguous(), down.contiguous())
