"""How alike two sites are up to invertible maps: canonical correlations and their relatives."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures.varying import require_full, require_rows, rows, varies
from gramian.measures.whitening import Whitening, require_more_rows
from gramian.moments import JointMoments, Moments
from gramian.registry import method

EXCESS = 1e-4
"""A correlation this far above one is no rounding: the sums are less precise than the cut."""


@dataclass(frozen=True, eq=False)
class Cca:
    """Canonical correlations of two sites."""

    correlations: Tensor
    """(k,) descending, in [0, 1]; ``k`` is the smaller rank, 0 when a side does not vary."""
    rank_x: int
    """Directions of ``x`` that took part."""
    rank_y: int
    """Directions of ``y`` that took part."""
    cut: float
    """Eigenvalues up to this times the largest were taken for zero."""
    rows: float
    """Number of rows, of weighted ones their effective number."""

    @property
    def mean(self) -> float:
        """Mean correlation over the ``k`` pairs, nan when there is none."""
        return float(self.correlations.mean()) if len(self.correlations) else math.nan

    @property
    def r2(self) -> float:
        """Mean squared correlation over the ``k`` pairs, nan when there is none."""
        return float(self.correlations.square().mean()) if len(self.correlations) else math.nan

    @property
    def chance(self) -> float:
        """What ``r2`` of independent rows is on average: ``max(rank_x, rank_y) / (rows - 1)``.

        Correlations are fitted, so they are large where the rows are few: read ``r2`` beside it.
        """
        return max(self.rank_x, self.rank_y) / (self.rows - 1)


@method("cca", job="compare", paper="Hotelling 1936, Biometrika 28; 1905.00414")
def cca(joint: JointMoments, *, cut: float | None = None) -> Cca:
    """Canonical correlations: all ones for sites equal up to an invertible map.

    The singular values of ``Cxx^-1/2 Cxy Cyy^-1/2`` over the directions that vary. Constant and
    duplicated channels are no directions. Equivalent to ``cca_zoo.linear.CCA`` on the rows, and
    in-sample like it: ``Cca.chance`` tells what independent rows would give.

    Parameters
    ----------
    joint : joint moments (dx, dy) with full moments on both sides.
    cut : eigenvalues of the scatter, scaled to unit diagonal, up to this times the largest are
        taken for zero; by default the precision of the sums, ``d x machine epsilon`` or more.

    Raises
    ------
    GramianError : diagonal moments; no more rows than dimensions on both sides together, where
        some correlations are one whatever the rows; or sums less precise than the cut.
    """
    x, y = _sides(joint, "cca")
    return _correlations(joint, Whitening.of(x, cut=cut), Whitening.of(y, cut=cut), "cca")


@method("svcca", job="compare", paper="1706.05806")
def svcca(joint: JointMoments, keep: float = 0.99, *, cut: float | None = None) -> Cca:
    """Canonical correlations of the leading principal directions of both sites.

    Each side keeps the fewest directions that hold the share ``keep`` of its variance; no
    longer invariant to every invertible map, but steadier than `cca`.

    Raises
    ------
    GramianError : as `cca`, of the directions kept; a share outside (0, 1].
    """
    if not 0 < keep <= 1:
        raise GramianError(f"keep is {keep:g}, expected a share of the variance in (0, 1]")
    x, y = _sides(joint, "svcca")
    return _correlations(
        joint, Whitening.leading(x, keep, cut=cut), Whitening.leading(y, keep, cut=cut), "svcca"
    )


@method("pwcca", job="compare", paper="1806.05759")
def pwcca(joint: JointMoments, *, cut: float | None = None) -> float:
    """Canonical correlations weighted by how much of ``x`` each direction accounts for.

    ``sum a_i rho_i / sum a_i`` with ``a_i = sum_j |<h_i, x_j>|``, where ``h_i`` is the i-th
    canonical variable of ``x`` and ``x_j`` its j-th centred channel. Not symmetric: the weights
    are those of ``x``, so the channels of ``y`` may be mixed by any invertible map.

    Returns nan when a side does not vary.

    Raises
    ------
    GramianError : as `cca`.
    """
    correlations, weights = projection_weights(joint, cut=cut)
    total = float(weights.sum())
    return float(weights @ correlations) / total if total > 0 else math.nan


def projection_weights(joint: JointMoments, *, cut: float | None = None) -> tuple[Tensor, Tensor]:
    """Canonical correlations (k,) and the weight of each in `pwcca` (k,)."""
    left, right = _sides(joint, "pwcca")
    x, y = Whitening.of(left, cut=cut), Whitening.of(right, cut=cut)
    require_more_rows(joint.x, (x.rank, y.rank), "pwcca")
    u, s, _ = torch.linalg.svd(x.basis.T @ joint.cross @ y.basis, full_matrices=False)
    # a_i = |Cxx B u_i|_1, the inner products of h_i = Xc B u_i with every channel
    return _bounded(s, max(x.cut, y.cut), "pwcca"), (x.dual @ u).abs().sum(0)


@method("regression_r2", job="compare", paper="1905.00414")
def regression_r2(joint: JointMoments, *, cut: float | None = None) -> float:
    """Share of the variance of ``x`` that least squares from ``y`` explains, 0 to 1.

    ``tr(Cxy Cyy^-1 Cyx) / tr Cxx``. Not symmetric: ``y`` predicts and may be mixed by any
    invertible map, ``x`` is the target and may be rotated. In-sample: independent rows give
    about ``dy / n`` (see `adjusted`). `linearity` is the score of the other direction.

    Parameters
    ----------
    joint : joint moments (dx, dy), full for ``y``.

    Returns nan when ``x`` does not vary, and 0 when only ``y`` does not.

    Raises
    ------
    GramianError : diagonal moments of ``y``; no more rows than dimensions of ``y`` plus one,
        where the score is 1 whatever the rows.
    """
    require_full(joint.y, "y", "regression_r2")
    require_rows(joint.x, 2, "regression_r2")
    y = Whitening.of(joint.y, cut=cut)
    n = rows(joint.x)
    if y.rank >= (n - 1) * (1 - 1e-9):
        raise GramianError(
            f"regression_r2: {n:g} rows and {y.rank} dimensions that predict fit everything by "
            f"counting alone; needs more than {y.rank + 1} rows. Collect more text, or use cka"
        )
    if not varies(joint.x):
        return math.nan
    explained = float((joint.cross @ y.basis).square().sum()) / joint.x.trace
    return _checked(explained, y.cut, "regression_r2")


def _sides(joint: JointMoments, what: str) -> tuple[Moments, Moments]:
    """Both sides, refused when a side is diagonal or when there is one row."""
    require_full(joint.x, "x", what)
    require_full(joint.y, "y", what)
    require_rows(joint.x, 2, what)
    return joint.x, joint.y


def _correlations(joint: JointMoments, x: Whitening, y: Whitening, what: str) -> Cca:
    require_more_rows(joint.x, (x.rank, y.rank), what)
    cut = max(x.cut, y.cut)
    values = torch.linalg.svdvals(x.basis.T @ joint.cross @ y.basis)
    return Cca(_bounded(values, cut, what), x.rank, y.rank, cut, rows(joint.x))


def _bounded(correlations: Tensor, cut: float, what: str) -> Tensor:
    """Correlations without their rounding above one."""
    if len(correlations):
        _checked(float(correlations[0]), cut, what)
    return correlations.clamp_max(1.0)


def _checked(value: float, cut: float, what: str) -> float:
    """The value without its rounding above one; refused when that is more than rounding."""
    if value > 1 + EXCESS:
        raise GramianError(
            f"{what}: found {value:.6g} where at most 1 is possible, so the sums are less precise "
            f"than the cut {cut:.1e}; pass a larger one, such as cut={max(1e-6, 100 * cut):.0e}"
        )
    return min(value, 1.0)
