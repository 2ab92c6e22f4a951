"""What a rotation can reach at least, before any is fitted."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gramian.errors import GramianError
from gramian.moments import JointMoments
from gramian.registry import method

UNIT = 1e-3
"""Rows count as unit rows when their mean squared length is this close to one."""


@dataclass(frozen=True)
class ProcrustesBound:
    """A promise, one-sided: a small value means that a rotation aligns the rows; a large one says
    nothing, and neither says how well rows are retrieved."""

    delta: float
    """Root mean square of ``x_i.x_j - y_i.y_j`` over all pairs of rows."""
    error: float
    """The best rotation's mean squared error is at most this: ``sqrt(2 D) delta``."""
    cosine: float
    """Of unit rows, their mean cosine behind the best rotation is at least this; nan of others."""
    total: float = 2.0
    """``mean |x|^2 + mean |y|^2``, 2 of unit rows: the error of rows that have nothing in
    common."""

    @property
    def vacuous(self) -> bool:
        """Whether any rows of these lengths meet the bound."""
        return self.error >= self.total

    def to_json(self) -> dict[str, float | bool | None]:
        """Every field; a cosine that is not bounded is None."""
        cosine = None if math.isnan(self.cosine) else self.cosine
        values = {"delta": self.delta, "error": self.error, "total": self.total}
        return values | {"cosine": cosine, "vacuous": self.vacuous}


@method("procrustes_bound", job="bridge", paper="2510.13406")
def procrustes_bound(joint: JointMoments) -> ProcrustesBound:
    """Bound on the error of the best rotation, from how much the two Gram matrices differ.

    ``delta^2 = |Mxx|_F^2 - 2 |Mxy|_F^2 + |Myy|_F^2`` of the moments about zero over n, which is the
    mean of ``(x_i.x_j - y_i.y_j)^2`` over all pairs, without a Gram matrix of the rows. The
    rotation is one without a bias. A difference of sums: a delta below about 1e-8 of the squared
    length of the rows is rounding.

    Parameters
    ----------
    joint : joint moments (dx, dy), full on both sides. The cosine is bounded for rows scaled to
        length one before the moments were taken; moments show only that their mean squared length
        is one.

    Raises
    ------
    GramianError : no rows, or diagonal moments of a side.
    """
    if joint.count <= 0:
        raise GramianError("procrustes_bound: no rows; give more pairs")
    if joint.x.is_diagonal or joint.y.is_diagonal:
        raise GramianError("procrustes_bound needs full moments of both sides")
    n = joint.count
    xx, yy = (side.raw() / n for side in (joint.x, joint.y))
    xy = joint.raw_cross() / n
    square = float(xx.square().sum() - 2.0 * xy.square().sum() + yy.square().sum())
    delta = math.sqrt(max(0.0, square))
    error = math.sqrt(2.0 * max(joint.x.d, joint.y.d)) * delta
    lengths = float(xx.trace()), float(yy.trace())
    unit = all(abs(length - 1.0) <= UNIT for length in lengths)
    cosine = max(-1.0, 1.0 - error / 2.0) if unit else math.nan
    return ProcrustesBound(delta, error, cosine, sum(lengths))
