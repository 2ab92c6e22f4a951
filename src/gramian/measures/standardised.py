"""Every channel brought to one standard deviation, so that a few loud ones decide nothing."""

from __future__ import annotations

from torch import Tensor

from gramian.maps import Diagonal
from gramian.measures.varying import CONSTANT, varying
from gramian.moments import JointMoments, Moments


def standardised(joint: JointMoments, floor: float = CONSTANT) -> JointMoments:
    """The joint moments with every channel of both sides divided by its standard deviation.

    A channel counts as constant, and becomes zero throughout, when its standard deviation is at
    most ``floor`` times its RMS value. The deviation is that of the rows at hand
    (``sqrt(scatter / count)``), so every variance becomes one.

    Sums of fourth order do not pass through a map that is not orthogonal: what is returned has
    none, and serves plain CKA and every other measure, but not debiased CKA.

    Raises
    ------
    GramianError : a floor outside [0, 1).
    """
    scales = (Diagonal(_inverse_deviation(side, floor)) for side in (joint.x, joint.y))
    return joint.through(*scales)


def _inverse_deviation(moments: Moments, floor: float) -> Tensor:
    """(d,) one over the standard deviation, zero for constant channels."""
    kept = varying(moments, floor)
    variance = (moments.variances / max(moments.count, 1e-300)).where(kept, 1.0)
    return variance.rsqrt().where(kept, 0.0)
