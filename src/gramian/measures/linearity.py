"""How linear the step from one site to another is."""

from __future__ import annotations

import torch

from gramian.errors import GramianError
from gramian.maps import Affine, Dense
from gramian.moments import JointMoments, Quadratic, squared_error
from gramian.registry import method
from gramian.solvers import minimise


@method("linearity", job="compare", paper="2405.12250")
def linearity(joint: JointMoments, *, kind: str = "affine", residual: bool = True) -> float:
    """Share of the variance of ``y`` that a map of ``x`` explains, 0 to 1.

    The paper's score, ``1 - min_A |X~ A - Y~|^2`` over centred rows of unit Frobenius norm, is
    the variance-weighted R^2 of least squares with an intercept. It is in-sample: independent
    rows give about ``d / n``; see `adjusted` and `held_out_linearity`.

    Parameters
    ----------
    joint : joint moments (dx, dy); moments of ``y`` may be diagonal.
    kind : ``"affine"`` as in the paper (in spite of the name Procrustes similarity its map is
        free), or ``"orthogonal"``: ``(sum of singular values of Sxy)^2 / (tr Sxx tr Syy)``.
    residual : with False, ``y - x`` takes the place of ``y``. Moments that already hold the
        increment are passed as they are.

    Returns nan when ``y`` (or ``x``, for orthogonal maps) does not vary.

    Raises
    ------
    GramianError : another kind, diagonal moments of ``x``, or widths that differ for an increment.
    """
    if not residual:
        joint = joint.increment()
    variance = joint.y.trace
    if kind == "orthogonal":
        spread = joint.x.trace * variance
        nuclear = float(torch.linalg.svdvals(joint.cross).sum())
        return nuclear * nuclear / spread if spread > 0 else float("nan")
    if kind != "affine":
        raise GramianError(f"kind is {kind!r}, expected 'affine' or 'orthogonal'")
    # tr(Syx Sxx^+ Sxy) / tr Syy
    weight, _ = minimise(Quadratic.from_joint(joint))
    return float((weight.T * joint.cross).sum()) / variance if variance > 0 else float("nan")


def adjusted(r2: float, rows: float, dimensions: int) -> float:
    """R^2 without its in-sample bias: ``1 - (1 - R^2)(n - 1)/(n - d - 1)``.

    Raises
    ------
    GramianError : no more rows than dimensions plus one.
    """
    if rows <= dimensions + 1:
        raise GramianError(
            f"adjusted R^2 needs more than {dimensions + 1} rows for {dimensions} dimensions, "
            f"got {rows:g}; collect more text"
        )
    return 1.0 - (1.0 - r2) * (rows - 1.0) / (rows - dimensions - 1.0)


def held_out_linearity(fit: JointMoments, judge: JointMoments) -> float:
    """The affine score of the map fitted on one fold, on the rows of another.

    Below zero when the mean of ``y`` would have done better.
    """
    weight, _ = minimise(Quadratic.from_joint(fit))
    map = Affine(Dense(weight), fit.y.mean - weight @ fit.x.mean)
    variance = judge.y.trace
    return 1.0 - squared_error(judge, map) / variance if variance > 0 else float("nan")
