"""What a rotation can reach at least, before any is fitted."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gramian.errors import GramianError
from gramian.moments import JointMoments
from gramian.registry import method


@dataclass(frozen=True)
class ProcrustesBound:
    """A promise, one-sided: a small value means that a rotation aligns the rows; a large one says
    nothing, and neither says how well rows are retrieved."""

    delta: float
    """Root mean square of ``x_i.x_j - y_i.y_j`` over all pairs of rows."""
    error: float
    """The best rotation's mean squared error is at most this: ``sqrt(2 D) delta``."""
    cosine: float
    """Of unit rows, their mean cosine behind the best rotation is at least this."""

    @property
    def vacuous(self) -> bool:
        """Whether unit rows meet the bound whatever they are."""
        return self.error >= 2.0

    def to_json(self) -> dict[str, float | bool]:
        """Every field."""
        values = {"delta": self.delta, "error": self.error, "cosine": self.cosine}
        return values | {"vacuous": self.vacuous}


@method("procrustes_bound", job="bridge", paper="2510.13406")
def procrustes_bound(joint: JointMoments) -> ProcrustesBound:
    """Bound on the error of the best rotation, from how much the two Gram matrices differ.

    ``delta^2 = |Mxx|_F^2 - 2 |Mxy|_F^2 + |Myy|_F^2`` of the moments about zero over n, which is the
    mean of ``(x_i.x_j - y_i.y_j)^2`` over all pairs, without a Gram matrix of the rows.

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
    return ProcrustesBound(delta, error, max(-1.0, 1.0 - error / 2.0))
