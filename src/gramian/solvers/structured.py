"""What fits of structured matrices share: the objective, least squares of any rank, the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import LinearMap
from gramian.moments import Moments
from gramian.solvers.spectrum import eigh
from gramian.solvers.truncate import check_moments, checked_weight

TOLERANCE = 1e-6
"""Sweeps end when one lowers the relative error by less than this share of it."""


@dataclass(frozen=True, eq=False)
class Structured:
    """A structured map for a layer, and what it loses."""

    map: LinearMap
    errors: Mapping[str, float]
    """Fold -> ``E |W x - W' x|^2 / E |W x|^2``; ``weight`` is ``|W - W'|^2 / |W|^2``."""
    objective: tuple[float, ...]
    """Relative squared error on what was fitted, at the start and after every sweep: it never
    rises."""


class Problem:
    """``E |W x - W' x|^2`` over structured ``W'``: the weight, and second moments of the input."""

    def __init__(self, weight: Tensor, inputs: Moments | None) -> None:
        self.weight = checked_weight(weight)
        self.second = second(inputs, self.weight.shape[1])
        self.pull = self.weight if self.second is None else self.weight @ self.second
        """``W C``."""
        self.size = float((self.pull * self.weight).sum())
        if not self.size > 0:
            raise GramianError("the layer gives zero on these inputs: there is nothing to fit")

    def metric(self) -> Tensor:
        """``C``; the identity without moments."""
        if self.second is None:
            return torch.eye(self.weight.shape[1], dtype=torch.float64)
        return self.second

    def error(self, matrix: Tensor) -> float:
        """Relative squared error of a matrix."""
        return relative(self.weight - matrix, self.second) / self.size

    def sweeps(
        self, make: Callable[[], LinearMap], sweep: Callable[[], None], count: int
    ) -> tuple[LinearMap, tuple[float, ...]]:
        """Sweep until the error hardly falls, ``count`` times at most; the map and the errors."""
        if count < 0:
            raise GramianError(f"sweeps is {count}, expected 0 or more")
        best = make()
        errors = [self.error(best.to_dense(torch.float64))]
        for _ in range(count):
            if errors[-1] <= 1e-28:
                break
            sweep()
            found = make()
            error = self.error(found.to_dense(torch.float64))
            if not error < errors[-1]:
                break
            best = found
            errors.append(error)
            if errors[-2] - error <= TOLERANCE * error:
                break
        return best, tuple(errors)

    def result(
        self,
        map: LinearMap,
        objective: tuple[float, ...],
        folds: Mapping[str, Moments],
    ) -> Structured:
        """The map with its error on the weight and on every fold."""
        gap = self.weight - map.to_dense(torch.float64)
        errors = {"weight": relative(gap, None) / relative(self.weight, None)}
        for name, fold in folds.items():
            metric = second(fold, self.weight.shape[1])
            total = relative(self.weight, metric)
            errors[name] = relative(gap, metric) / total if total > 0 else math.nan
        return Structured(map, errors, objective)


def second(inputs: Moments | None, width: int) -> Tensor | None:
    """``E x x^T``, (n, n); None without moments."""
    if inputs is None:
        return None
    check_moments(inputs, "inputs", width, full=True)
    return torch.addr(inputs.scatter / inputs.count, inputs.mean, inputs.mean)


def relative(gap: Tensor, metric: Tensor | None) -> float:
    """``tr(E C E^T)``, the squared norm without a metric."""
    moved = gap if metric is None else gap @ metric
    return max(0.0, float((moved * gap).sum()))


def pinv(gram: Tensor) -> Tensor:
    """Pseudo-inverse of positive semidefinite matrices (..., k, k): solves normal equations of
    any rank, since what they ask for lies in its range."""
    if gram.ndim == 2:
        values, basis = eigh(gram)
    else:
        values, basis = torch.linalg.eigh(gram)
    cut = 8 * gram.shape[-1] * torch.finfo(torch.float64).eps
    kept = values > cut * values.amax(-1, keepdim=True)
    inverse = torch.where(kept, values.reciprocal(), torch.zeros_like(values))
    return (basis * inverse[..., None, :]) @ basis.transpose(-1, -2)


def solved(gram: Tensor, target: Tensor) -> Tensor:
    """A solution X of ``gram X = target`` for positive semidefinite (..., k, k): by Cholesky, or
    where that is not safe the shortest one."""
    symmetric = (gram + gram.transpose(-1, -2)) / 2
    factor, failed = torch.linalg.cholesky_ex(symmetric)
    pivots = factor.diagonal(dim1=-2, dim2=-1)
    if not bool(failed.any()) and bool((pivots.amin(-1) > _SAFE * pivots.amax(-1)).all()):
        return torch.cholesky_solve(target, factor)
    return pinv(symmetric) @ target


_SAFE = 1e-6
"""Ratio of pivots: the square root of the least reciprocal condition that is taken."""


def grid_of(shape: tuple[int, int], grid: tuple[int, int] | None, what: str) -> tuple[int, int]:
    """The grid itself where it divides the matrix; by default the one nearest to square roots.

    Raises
    ------
    GramianError : numbers that do not divide (out, in).
    """
    if grid is None:
        return (balanced(shape[0]), balanced(shape[1]))
    whole = isinstance(grid, tuple) and len(grid) == 2 and all(type(n) is int for n in grid)
    if not whole or min(grid) < 1 or shape[0] % grid[0] or shape[1] % grid[1]:
        raise GramianError(
            f"a {what} grid of {grid!r} does not divide a matrix of {shape[0]} x {shape[1]}; "
            f"expected divisors of both, for example {balanced(shape[0])} and {balanced(shape[1])}"
        )
    return grid


def balanced(size: int) -> int:
    """The largest divisor that is not above the square root: 24 of 576, 32 of 1536."""
    return next(n for n in range(math.isqrt(size), 0, -1) if size % n == 0)


def checked_rank(rank: int, largest: int) -> int:
    """The rank itself where it is one.

    Raises
    ------
    GramianError : outside 1 to ``largest``.
    """
    if type(rank) is not int or not 1 <= rank <= largest:
        raise GramianError(f"rank is {rank}, expected 1 to {largest}")
    return rank
