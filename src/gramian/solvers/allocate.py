"""How many directions each of many matrices keeps, when their parameters are given in all."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.registry import method

Ranks = tuple[int | None, ...]
"""A rank for every matrix; None where it stays as it is, in one piece."""


@dataclass(frozen=True, eq=False)
class Curve:
    """What each rank of one matrix costs and loses."""

    values: Tensor
    """(k,) float64, descending, what each direction saves; see `Truncation.values`."""
    outputs: int
    inputs: int
    weight: float = 1.0
    """What its errors count beside those of the others: one over the squared length of its
    outputs makes all errors relative."""

    @property
    def whole(self) -> int:
        """Parameters of the matrix in one piece."""
        return self.outputs * self.inputs

    @property
    def each(self) -> int:
        """Parameters of one direction."""
        return self.outputs + self.inputs

    @property
    def most(self) -> int:
        """The largest rank whose factors are smaller than the matrix, ``m n / (m + n)`` rounded
        down to below it."""
        return (self.whole - 1) // self.each

    def cost(self, rank: int | None) -> int:
        """Parameters at a rank."""
        return self.whole if rank is None else rank * self.each

    def lost(self, rank: int | None) -> float:
        """Weighted squared error at a rank."""
        return 0.0 if rank is None else self.weight * float(self.values[rank:].sum())


def cost(curves: Sequence[Curve], ranks: Sequence[int | None]) -> int:
    """Parameters of all matrices at these ranks."""
    return sum(curve.cost(rank) for curve, rank in zip(curves, ranks, strict=True))


def uniform(curves: Sequence[Curve], keep: float, *, multiple: int = 1) -> Ranks:
    """The same share of every matrix, ``r = floor(keep m n / (m + n))``.

    Parameters
    ----------
    keep : share of the parameters, in (0, 1]; 1 leaves all as they are.
    multiple : ranks are multiples of it.

    Raises
    ------
    GramianError : a share outside (0, 1], or too small for one block of ``multiple`` directions.
    """
    _budget(curves, keep, multiple)
    if keep == 1:
        return (None,) * len(curves)
    found: list[int | None] = []
    for curve in curves:
        rank = math.floor(keep * curve.whole / curve.each / multiple + 1e-9) * multiple
        found.append(min(max(rank, multiple), _top(curve, multiple)) or None)
    return _checked(curves, tuple(found), keep, multiple)


def greedy(curves: Sequence[Curve], keep: float, *, multiple: int = 1) -> Ranks:
    """Least sum of weighted squared errors for the parameters, ranks and whole matrices together.

    A matrix in one piece loses nothing and costs ``m n``, so from some rank on it is the better
    buy than one more direction. The choices of every matrix are therefore walked along their
    lower convex hull, the steepest step of all first: no choice of at most as many parameters as
    have been spent when a step is taken loses less. What is left at the end is spent on single
    directions.

    Parameters
    ----------
    keep : share of the parameters, in (0, 1].
    multiple : ranks are multiples of it.

    Raises
    ------
    GramianError : a share outside (0, 1], or too small for one block of every matrix.
    """
    budget = _budget(curves, keep, multiple)
    paths = [_Path.of(curve, multiple) for curve in curves]
    hulls = [path.hull() for path in paths]
    places = _walk(hulls, [0] * len(paths), budget, stop=True)
    starts = [
        path.ranks.index(hull.ranks[place])
        for path, hull, place in zip(paths, hulls, places, strict=True)
    ]
    places = _walk(paths, starts, budget)
    return tuple(path.ranks[place] for path, place in zip(paths, places, strict=True))


@method("lite_asr", job="compress", paper="2502.20583")
def energy(
    curves: Sequence[Curve], share: float | None = None, *, keep: float = 1.0, multiple: int = 16
) -> Ranks:
    """In every matrix as many directions as hold a share of its energy, rounded up to a multiple.

    The rule of LiteASR: where that many would be no smaller than the matrix, it stays in one
    piece.

    Parameters
    ----------
    share : of each matrix's energy, in (0, 1]; None takes the largest that fits ``keep``.
    keep : share of all parameters, in (0, 1], where ``share`` is None.

    Raises
    ------
    GramianError : a share outside (0, 1], or too few parameters for one block of every matrix.
    """
    sums = [_shares(curve.values) for curve in curves]

    def ranks(least: float) -> Ranks:
        found = []
        for curve, held in zip(curves, sums, strict=True):
            needed = int((held < least * (1 - 1e-12)).sum()) + 1
            found.append(_fitting(curve, multiple * math.ceil(needed / multiple), multiple))
        return tuple(found)

    if share is not None:
        _require_share(share, "share")
        return ranks(share)
    return _bisect(curves, keep, multiple, ranks)


@method("welore", job="compress", paper="2407.11239")
def threshold(
    curves: Sequence[Curve], cut: float | None = None, *, keep: float = 1.0, multiple: int = 1
) -> Ranks:
    """In every matrix the directions whose singular value, scaled to run from 0 to 1, is above
    one cut for all.

    The rule of WeLore on the square roots of ``values``; a matrix whose factors would be no
    smaller stays in one piece.

    Parameters
    ----------
    cut : in [0, 1]; None takes the smallest that fits ``keep``.
    keep : share of all parameters, in (0, 1], where ``cut`` is None.

    Raises
    ------
    GramianError : a cut outside [0, 1], a share outside (0, 1], or too few parameters for one
        block of every matrix.
    """
    scaled = [_unit_range(curve.values.sqrt()) for curve in curves]

    def ranks(above: float) -> Ranks:
        found = []
        for curve, heights in zip(curves, scaled, strict=True):
            count = max(1, int((heights > above).sum()))
            found.append(_fitting(curve, multiple * math.ceil(count / multiple), multiple))
        return tuple(found)

    if cut is not None:
        if not 0 <= cut <= 1:
            raise GramianError(f"cut is {cut}, expected 0 to 1")
        return ranks(cut)
    return _bisect(curves, keep, multiple, lambda least: ranks(1 - least))


def _budget(curves: Sequence[Curve], keep: float, multiple: int) -> int:
    _require_share(keep, "keep")
    if multiple < 1:
        raise GramianError(f"multiple is {multiple}, expected at least 1")
    whole = sum(curve.whole for curve in curves)
    budget = whole if keep == 1 else math.floor(keep * whole + 1e-6)
    least = sum(curve.cost(_fitting(curve, multiple, multiple)) for curve in curves)
    if least > budget:
        raise GramianError(
            f"keeping {keep:.1%} of {whole:,} parameters is less than {multiple} "
            f"direction{'' if multiple == 1 else 's'} of each of {len(curves)} matrices cost "
            f"({least:,}); keep {least / whole:.1%} or more, or use a smaller multiple"
        )
    return budget


def _require_share(value: float, name: str) -> None:
    if not (math.isfinite(value) and 0 < value <= 1):
        raise GramianError(f"{name} is {value}, expected a share above 0 and at most 1")


def _checked(curves: Sequence[Curve], ranks: Ranks, keep: float, multiple: int) -> Ranks:
    budget = _budget(curves, keep, multiple)
    if cost(curves, ranks) <= budget:
        return ranks
    raise GramianError(
        f"ranks that are multiples of {multiple} do not go down to {keep:.1%} of every matrix; "
        "keep more, or use a smaller multiple"
    )


def _top(curve: Curve, multiple: int) -> int:
    """The largest multiple whose factors are smaller than the matrix; 0 where there is none."""
    return min(curve.most, len(curve.values)) // multiple * multiple


def _fitting(curve: Curve, rank: int, multiple: int) -> int | None:
    return rank if rank <= _top(curve, multiple) else None


@dataclass(frozen=True)
class _Path:
    """What a matrix may become, the cheapest first."""

    ranks: list[int | None]
    prices: list[int]
    losses: list[float]

    @classmethod
    def of(cls, curve: Curve, multiple: int) -> _Path:
        """Every rank that is smaller than the matrix, then the matrix in one piece."""
        some = list(range(multiple, _top(curve, multiple) + 1, multiple))
        # what is dropped at rank r is the sum of all values behind it
        tails = [*curve.values.flip(0).cumsum(0).flip(0).tolist(), 0.0]
        return cls(
            [*some, None],
            [curve.cost(rank) for rank in (*some, None)],
            [*(curve.weight * tails[rank] for rank in some), 0.0],
        )

    def slope(self, place: int, ahead: int) -> float:
        """What is saved for each parameter between two places."""
        saved = self.losses[place] - self.losses[ahead]
        return saved / (self.prices[ahead] - self.prices[place])

    def hull(self) -> _Path:
        """The choices on the lower convex hull of loss over price."""
        kept: list[int] = []
        for i in range(len(self.ranks)):
            while len(kept) > 1 and self.slope(*kept[-2:]) <= self.slope(kept[-1], i):
                kept.pop()
            kept.append(i)
        return _Path(
            [self.ranks[i] for i in kept],
            [self.prices[i] for i in kept],
            [self.losses[i] for i in kept],
        )


def _walk(
    paths: Sequence[_Path], places: Sequence[int], budget: int, *, stop: bool = False
) -> list[int]:
    """Places on all paths after the steepest steps that the budget pays for.

    stop : at the first step that does not fit, rather than leaving out only that path.
    """
    now = list(places)
    left = budget - sum(path.prices[place] for path, place in zip(paths, now, strict=True))
    heap = [
        (-path.slope(place, place + 1), i)
        for i, (path, place) in enumerate(zip(paths, now, strict=True))
        if place + 1 < len(path.ranks)
    ]
    heapq.heapify(heap)
    while heap:
        _, i = heapq.heappop(heap)
        path, place = paths[i], now[i]
        price = path.prices[place + 1] - path.prices[place]
        if price > left:
            if stop:
                break
            continue
        left, now[i] = left - price, place + 1
        if place + 2 < len(path.ranks):
            heapq.heappush(heap, (-path.slope(place + 1, place + 2), i))
    return now


def _bisect(
    curves: Sequence[Curve], keep: float, multiple: int, ranks: Callable[[float], Ranks]
) -> Ranks:
    """The ranks of the largest argument in (0, 1] whose parameters fit."""
    budget = _budget(curves, keep, multiple)
    if cost(curves, ranks(1.0)) <= budget:
        return ranks(1.0)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if cost(curves, ranks(middle)) <= budget:
            low = middle
        else:
            high = middle
    found = ranks(low)
    if cost(curves, found) > budget:
        raise GramianError(
            f"no common rule keeps as little as {keep:.1%} in multiples of {multiple}; keep more, "
            "or use a smaller multiple"
        )
    return found


def _shares(values: Tensor) -> Tensor:
    """(k,) share of the energy in the directions up to each."""
    total = float(values.sum())
    return values.cumsum(0) / total if total > 0 else torch.ones_like(values)


def _unit_range(heights: Tensor) -> Tensor:
    low, high = float(heights.min()), float(heights.max())
    return (heights - low) / (high - low) if high > low else torch.ones_like(heights)
