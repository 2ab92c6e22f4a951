"""How much of an old space can still be read, linearly, from a new one."""

from __future__ import annotations

from gramian.moments import JointMoments, squared_error
from gramian.registry import method
from gramian.solvers import ridge


@method("readable_fraction", job="bridge", paper="2303.14595")
def readable_fraction(
    train: JointMoments,
    select: JointMoments | None = None,
    report: JointMoments | None = None,
) -> float:
    """Share of the variance of the old space that the best affine map of the new one explains.

    1 when the new space is an invertible linear change of the old one, 0 when nothing of it is
    left; below zero where a map does worse on rows it has not seen than their mean.

    train, select, report : moments with the new space as ``x`` and the old one as ``y``. The ridge
    is chosen on ``select`` and the share stated on the last fold that is given.

    Raises
    ------
    GramianError : see `ridge`.
    """
    solution = ridge(train, select, report)
    fold = report or select or train
    variance = fold.y.trace
    return 1.0 - squared_error(fold, solution.map) / variance if variance > 0 else float("nan")
