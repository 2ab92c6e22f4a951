"""How alike two sites are, up to rotation and scale: HSIC and CKA with linear kernels."""

from __future__ import annotations

import math

from torch import Tensor

from gramian.errors import GramianError
from gramian.measures.varying import require_full, require_rows, varies
from gramian.moments import JointMoments, Moments
from gramian.registry import method


@method("hsic", job="compare", paper="Song et al. 2012, JMLR 13")
def hsic(joint: JointMoments, *, debiased: bool = True) -> float:
    """Hilbert-Schmidt independence criterion with linear kernels: dependence, not normalised.

    Debiased, the U-statistic of the Gram matrices with zeroed diagonals, without ever forming
    them: its expectation is ``|population covariance of x and y|_F^2``, it may fall below zero.
    Plain, ``|Cxy|_F^2 / (n - 1)^2``, which is too large by about ``tr Sx tr Sy / n``.

    Parameters
    ----------
    joint : joint moments (dx, dy); debiased, with their sums of fourth order. ``y`` may be
        diagonal.

    Raises
    ------
    GramianError : fewer than 4 rows (plain: 2); debiased, no sums of fourth order, or weights.
    """
    if not debiased:
        n = require_rows(joint.x, 2, "hsic")
        # (|Cxy|_F / count) (n / (n - 1)): of weighted rows the scale of the weights cancels
        return (float(joint.cross.norm()) / joint.count * n / (n - 1)) ** 2
    _require_fourth_order(joint, joint.quartic is not None)
    assert joint.quartic is not None
    squared = _squared(joint.cross)
    return _unbiased(squared, joint.quartic.product, joint.x.trace, joint.y.trace, joint.count)


@method("cka", job="compare", paper="1905.00414")
def cka(joint: JointMoments, *, debiased: bool = True) -> float:
    """Linear centred kernel alignment: 1 for sites equal up to rotation and scale.

    Plain, ``|Cxy|_F^2 / (|Cxx|_F |Cyy|_F)``, from 0 to 1: independent rows still score about
    ``d / (n + d)``. Debiased, each HSIC in it is the U-statistic of Song et al. (2012), as
    Nguyen et al. (2010.15327) do: near 0 for independent rows, and possibly slightly below.

    Equal to the n x n Gram form, in O(d^2) and without an eigendecomposition.

    Parameters
    ----------
    joint : joint moments (dx, dy) with full moments on both sides; debiased, with their sums of
        fourth order.

    Returns nan when a side does not vary, or when its debiased similarity to itself is not
    positive: its rows are too few to tell its spread from noise.

    Raises
    ------
    GramianError : diagonal moments; fewer than 4 rows (plain: 2); debiased, no sums of fourth
        order (they do not survive standardising), or weighted rows.
    """
    require_full(joint.x, "x", "cka")
    require_full(joint.y, "y", "cka")
    if not debiased:
        require_rows(joint.x, 2, "cka")
        norms = [float(t.norm()) for t in (joint.cross, joint.x.scatter, joint.y.scatter)]
        known = varies(joint.x) and varies(joint.y)
        return (norms[0] / norms[1]) * (norms[0] / norms[2]) if known else math.nan
    parts = (joint.quartic, joint.x.quartic, joint.y.quartic)
    _require_fourth_order(joint, all(part is not None for part in parts))
    if not (varies(joint.x) and varies(joint.y)):
        return math.nan
    own = [_self_similarity(side) for side in (joint.x, joint.y)]
    if min(own) <= 0:
        return math.nan
    return hsic(joint) / (math.sqrt(own[0]) * math.sqrt(own[1]))


def _self_similarity(moments: Moments) -> float:
    """Debiased HSIC of a site with itself."""
    assert moments.quartic is not None
    squared = _squared(moments.scatter)
    return _unbiased(squared, moments.quartic.square, moments.trace, moments.trace, moments.count)


def _unbiased(squared: float, norms: float, x: float, y: float, n: float) -> float:
    """U-statistic: ``squared`` = |Cxy|_F^2, ``norms`` = sum_i |x_i|^2 |y_i|^2, traces x and y."""
    # [|Cxy|_F^2 - n/(n-2) norms + tr Cxx tr Cyy / ((n-1)(n-2))] / (n (n-3))
    return (squared - n / (n - 2) * norms + x * y / ((n - 1) * (n - 2))) / (n * (n - 3))


def _squared(matrix: Tensor) -> float:
    """``|matrix|_F^2`` without a copy."""
    flat = matrix.reshape(-1)
    return float(flat @ flat)


def _require_fourth_order(joint: JointMoments, kept: bool) -> None:
    """Refuse what the U-statistic cannot be formed from."""
    require_rows(joint.x, 4, "debiased CKA")
    if not kept:
        raise GramianError(
            "debiased CKA needs the sums of fourth order, which these moments do not hold: they "
            "are collected with full moments and do not pass through a map that is not "
            "orthogonal, such as standardising; pass debiased=False for the plain one"
        )
    if abs(joint.x.count2 - joint.count) > 1e-9 * joint.count:
        raise GramianError(
            "debiased CKA counts every row once, these rows carry weights; pass debiased=False "
            "for the plain one"
        )
