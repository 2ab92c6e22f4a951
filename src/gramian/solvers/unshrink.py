"""Predictions without the shrinkage that their regression put on them."""

from __future__ import annotations

import torch

from gramian.errors import GramianError
from gramian.maps import Affine, Dense
from gramian.moments import JointMoments
from gramian.registry import method
from gramian.solvers.evidence import Solution
from gramian.solvers.judged import judged


@method("unshrink", job="solve", paper="2508.01341")
def unshrink(solution: Solution, fold: JointMoments, *, multivariate: bool = False) -> Solution:
    """A regression map whose predictions, regressed on the truth, have slope 1 and no offset.

    ``yhat ~ K y + m`` is fitted on a fold the map has not seen, and the map becomes
    ``K^-1 (yhat - m)``. Squared error grows by it: this is for norms and effects that shrinkage
    biases towards the mean, not for the best guess of single rows.

    Parameters
    ----------
    solution : of any solver; fold : joint moments (dx, dy) of held-out rows.
    multivariate : K is a matrix (needs full moments of ``y``); else one number for all
        coordinates together, ``tr Cov(yhat, y) / tr Cov(y)``.

    Raises
    ------
    GramianError : unequal widths, a target that does not vary, predictions that do not follow
        it (slope of at most 0), or a matrix K that cannot be inverted.
    """
    map = solution.map
    if map.shape != (fold.y.d, fold.x.d):
        raise GramianError(f"{map!r} and a fold of {fold.x.d} -> {fold.y.d}; expected one shape")
    if multivariate and fold.y.is_diagonal:
        raise GramianError("multivariate unshrinking needs full moments of y; only the diagonal")
    if not fold.y.trace > 0:
        raise GramianError("the target does not vary in this fold; give more rows")
    weight = map.to_dense(torch.float64)
    cross = weight @ fold.cross  # Cov(yhat, y), sums
    if multivariate:
        # K = Cov(yhat, y) Cov(y)^-1, so K^-1 W = Cov(y) Cov(yhat, y)^-1 W
        singular = torch.linalg.svdvals(cross)
        if float(singular[-1]) <= len(cross) * 2.0**-52 * float(singular[0]):
            raise GramianError(
                "predictions do not span the target, so their shrinkage cannot be undone in "
                "every direction; use multivariate=False"
            )
        values, note = fold.y.scatter @ torch.linalg.solve(cross, weight), "by a matrix"
    else:
        slope = float(cross.diagonal().sum()) / fold.y.trace
        if slope <= 0:
            raise GramianError(
                f"predictions do not follow the target: slope {slope:g} on this fold"
            )
        values, note = weight / slope, f"by a slope of {slope:.6g}"
    moved = Affine(Dense(values), fold.y.mean - values @ fold.x.mean)
    notes = (*solution.evidence.notes, f"unshrunk {note} on {fold.count:g} rows")
    spread = torch.linalg.svdvals(cross)
    return judged(moved, {"select": fold}, spread, rows=fold.count, notes=notes)
