"""One gain per coordinate, behind any map."""

from __future__ import annotations

import torch

from gramian.errors import GramianError
from gramian.maps import Affine, Diagonal, LinearMap
from gramian.moments import JointMoments, Quadratic
from gramian.moments.moments import linear_part
from gramian.registry import method
from gramian.solvers.evidence import Solution
from gramian.solvers.judged import judged


@method("diagonal_gain", job="bridge", paper="Drift-Adapter, 2509.23471")
def diagonal_gain(
    joint: JointMoments, map: LinearMap, report: JointMoments | None = None
) -> Solution:
    """The gain of every output coordinate of a map that fits best, folded into the map.

    An affine map gets the bias that brings mean to mean; a linear one stays without. A coordinate
    whose input does not vary keeps the gain 1.

    joint : joint moments (dx, dy) to fit on. report : a fold to state the error on.

    Raises
    ------
    GramianError : the map does not take the one width to the other.
    """
    if (map.in_features, map.out_features) != (joint.x.d, joint.y.d):
        raise GramianError(f"{map!r} does not fit moments of {joint.x.d} -> {joint.y.d}")
    intercept = isinstance(map, Affine)
    objective = Quadratic.from_joint(joint, intercept=intercept)
    weight = linear_part(map).to_dense(torch.float64)
    # s_j = (W B)_jj / (W A W^T)_jj
    along = (weight * objective.B.T).sum(1)
    spread = ((weight @ objective.A) * weight).sum(1)
    alive = spread > torch.finfo(spread.dtype).eps * spread.max()
    gain = torch.where(alive, along / spread.where(alive, torch.ones_like(spread)), 1.0)
    weight = gain[:, None] * weight
    found = Diagonal(gain) @ linear_part(map).to(dtype=torch.float64)
    if intercept:
        found = Affine(found, joint.y.mean - weight @ joint.x.mean)
    notes = [f"gains from {float(gain.min()):.4g} to {float(gain.max()):.4g}"]
    folds = {"train": joint, "report": report}
    return judged(found, folds, spread.clamp_min(0.0), rows=joint.count, notes=notes)
