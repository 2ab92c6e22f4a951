"""Distances between two sites over the same rows that obey the triangle inequality."""

from __future__ import annotations

import math

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Permutation
from gramian.measures.varying import require_full, require_rows, varies
from gramian.measures.whitening import Whitening, require_more_rows, significant
from gramian.moments import JointMoments, Moments
from gramian.registry import method

KINDS = ("euclidean", "angular")


@method("procrustes_distance", job="compare", paper="Schönemann 1966, Psychometrika 31(1)")
def procrustes_distance(joint: JointMoments) -> float:
    """Root mean squared distance between paired rows after the best rotation and shift.

    ``d^2 = (tr Cxx + tr Cyy - 2 |Cxy|_*) / n``, in the units of the rows; the smaller width is
    padded with zeros. The same as ``shape_distance(joint, alpha=1, kind="euclidean")``.

    Raises
    ------
    GramianError : fewer than two rows.
    """
    return shape_distance(joint)


@method("shape_distance", job="compare", paper="2110.14739")
def shape_distance(joint: JointMoments, alpha: float = 1.0, kind: str = "euclidean") -> float:
    """Distance between two sites after partial whitening and the best rotation.

    Centred rows pass through ``Z = s (alpha I + (1 - alpha) S^-1/2)``, with ``S`` the covariance
    over the directions that vary and ``s`` such that the total variance stays. With
    ``M = Zx Sxy Zy``, the Euclidean distance is ``d^2 = tr Sx + tr Sy - 2 |M|_*`` and the
    angular one ``arccos(|M|_* / sqrt(tr Sx tr Sy))``, from 0 to pi/2. Unequal widths are padded
    with zeros. Both are metrics: symmetric, and the triangle inequality holds.

    Equal to ``LinearMetric`` of netrep on rows divided by ``sqrt(n)``; without this division
    the meaning of ``alpha`` and the Euclidean distance would depend on the number of rows.
    Where it pads the narrower side it also counts variance in the padding, for ``alpha`` between
    0 and 1; here the total variance of each side stays what it is.

    Squares of distances are differences of sums: what is below about 1e-7 of the scale of the
    rows (of a radian) is rounding.

    Parameters
    ----------
    joint : joint moments (dx, dy). With ``alpha=1`` ``y`` may be diagonal.
    alpha : 1 for Procrustes, 0 for full whitening, which is invariant to invertible maps.
        In between, as in netrep, the mixture depends on the scale of the rows: compare sites of
        one scale.
    kind : ``"euclidean"``, in the units of the rows, or ``"angular"``, in radians, which with
        ``alpha`` 0 or 1 does not see the scale of a side.

    Returns nan for the angle when a side does not vary.

    Raises
    ------
    GramianError : ``alpha`` outside [0, 1] or another kind; fewer than two rows; diagonal
        moments with ``alpha < 1``; with ``alpha=0`` no more rows than dimensions on both sides.
    """
    if not 0 <= alpha <= 1:
        raise GramianError(f"alpha is {alpha:g}, expected 0 (whitened) to 1 (rows as they are)")
    if kind not in KINDS:
        raise GramianError(f"kind is {kind!r}, expected 'euclidean' or 'angular'")
    require_rows(joint.x, 2, "shape_distance")
    cross = joint.cross / joint.count
    if alpha < 1:
        parts = _partial(joint.x, alpha, "x"), _partial(joint.y, alpha, "y")
        if alpha == 0:
            ranks = parts[0].shape[1], parts[1].shape[1]
            require_more_rows(joint.x, ranks, "shape_distance with alpha=0")
        cross = parts[0].T @ cross @ parts[1]
    x, y = math.sqrt(joint.x.trace / joint.count), math.sqrt(joint.y.trace / joint.count)
    shared = math.fsum(torch.linalg.svdvals(cross).tolist())
    if kind == "euclidean":
        # tr Sx + tr Sy - 2 |M|_* = (sqrt tr Sx - sqrt tr Sy)^2 + 2 (sqrt(tr Sx tr Sy) - |M|_*)
        return math.sqrt((x - y) ** 2 + 2.0 * max(x * y - shared, 0.0))
    if not (varies(joint.x) and varies(joint.y)):
        return math.nan
    # arccos c = 2 arcsin sqrt((1 - c) / 2), which stays exact where c is near one
    return 2.0 * math.asin(math.sqrt(min(max((1.0 - shared / x / y) / 2.0, 0.0), 0.5)))


def _partial(moments: Moments, alpha: float, side: str) -> Tensor:
    """The partial whitening of one side up to a rotation behind it, (d, rank)."""
    require_full(moments, side, "shape_distance with alpha < 1")
    if alpha == 0:
        white = Whitening.of(moments)
        return white.basis * math.sqrt(moments.trace / max(white.rank, 1))
    values, vectors, _ = significant(moments.scatter / moments.count)
    gains = alpha + (1.0 - alpha) * values.rsqrt()
    # the total variance stays: sum gains^2 values = sum values
    return vectors * gains * (values.sum() / (gains.square() * values).sum()).sqrt()


@method("match_permutation", job="compare", paper="1511.07543")
def match_permutation(joint: JointMoments) -> Permutation:
    """The reordering of the channels of ``x`` that goes best with ``y``.

    Of all permutations the one of largest ``tr(P Cxy)``, so of least squared error to centred
    ``y``, found by linear assignment. ``P(x)`` lines up with ``y`` channel by channel. Pass
    moments through `standardised` first to match by correlation.

    Raises
    ------
    GramianError : unequal widths, or fewer than two rows.
    """
    if joint.x.d != joint.y.d:
        raise GramianError(
            f"match_permutation: x has width {joint.x.d} and y has width {joint.y.d}; a "
            "permutation needs one width"
        )
    require_rows(joint.x, 2, "match_permutation")
    # maximise sum_i Cxy[index_i, i]
    _, index = linear_sum_assignment(joint.cross.T.cpu().numpy(), maximize=True)
    return Permutation(torch.as_tensor(index))
