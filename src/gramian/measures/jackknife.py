"""How far a number would move on other documents: the jackknife over folds of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from gramian.errors import GramianError
from gramian.moments import JointMoments, Moments
from gramian.registry import method

M = TypeVar("M", Moments, JointMoments)


@method("jackknife", job="compare", paper="Busing, Meijer & van der Leeden 1999, Stat. Comput. 9")
def jackknife(values_of: Callable[[M], float], folds: Sequence[M]) -> tuple[float, float]:
    """A measure of all folds together, and its standard error by leaving out one at a time.

    The delete-m_j jackknife for folds of unequal sizes. With ``n`` rows, ``m_j`` of them in fold
    j of ``g``, ``h_j = n / m_j``, the value ``t`` of all and ``t_j`` without fold j, pseudo-values
    ``p_j = h_j t - (h_j - 1) t_j`` have the mean ``t_J = g t - sum_j (1 - m_j / n) t_j`` and the
    variance is ``1/g sum_j (p_j - t_J)^2 / (h_j - 1)``.

    Rows of one document are not independent, documents are: every document must lie in one fold
    as a whole. Each fold counts as one observation, so a handful of folds gives a rough error.

    Parameters
    ----------
    values_of : the measure, of moments or joint moments.
    folds : moments of disjoint sets of documents; folds without rows are left out.

    Returns the value of all folds (not the one corrected for bias) and its standard error, both
    nan where the measure is.

    Raises
    ------
    GramianError : fewer than two folds with rows; whatever the measure raises on all but one.
    """
    kept = [fold for fold in folds if fold.count > 0]
    if len(kept) < 2:
        raise GramianError(
            f"jackknife: {len(kept)} folds with rows, expected two or more; split the documents "
            "into more folds"
        )
    others = _without_each(kept)
    value = values_of(others[0] + kept[0])
    left_out = [values_of(other) for other in others]
    return value, jackknife_error(value, left_out, [fold.count for fold in kept])


def jackknife_error(value: float, left_out: Sequence[float], counts: Sequence[float]) -> float:
    """The standard error of `jackknife`, of values that are known already.

    Parameters
    ----------
    value : the measure of all folds.
    left_out : the measure without each fold in turn.
    counts : rows of each fold, above zero.

    Raises
    ------
    GramianError : fewer than two folds, or not as many counts as values.
    """
    g, total = len(counts), math.fsum(counts)
    if g < 2 or len(left_out) != g:
        raise GramianError(
            f"jackknife_error: {len(left_out)} values and {g} counts, expected one of each per "
            "fold, of two folds or more"
        )
    shares = [count / total for count in counts]
    # t_J = g t - sum_j (1 - m_j / n) t_j, as t plus what leaving out moves it by
    centre = value + math.fsum((1 - m) * (value - t) for m, t in zip(shares, left_out, strict=True))
    spread = math.fsum(
        (value + (1 / m - 1) * (value - t) - centre) ** 2 / (1 / m - 1)
        for m, t in zip(shares, left_out, strict=True)
    )
    return math.sqrt(spread / g)


def _without_each(folds: list[M]) -> list[M]:
    """For each fold the sum of all others, in two passes of additions."""
    after: list[M | None] = [None]
    for fold in reversed(folds[1:]):
        last = after[-1]
        after.append(fold if last is None else fold + last)
    sums: list[M] = []
    before: M | None = None
    for fold, rest in zip(folds, reversed(after), strict=True):
        if before is None:
            assert rest is not None
            sums.append(rest)
        else:
            sums.append(before if rest is None else before + rest)
        before = fold if before is None else before + fold
    return sums
