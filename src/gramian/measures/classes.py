"""How far classes stand apart: what a linear probe can read of them."""

from __future__ import annotations

import math

import torch

from gramian.errors import GramianError
from gramian.measures.class_scatter import ClassScatter, inverse_root, rank_between
from gramian.moments import JointMoments
from gramian.registry import method


@method("vci", job="inspect", paper="2306.03440")
def vci(joint: JointMoments, *, ridge: float = 0.0, unbiased: bool = False) -> float:
    """Variability collapse index, ``1 - tr(S_T^+ S_B) / rank(S_B)``: 0 when the classes have
    collapsed, 1 when a linear probe reads nothing.

    With classes of one size it is the mean squared error of the best affine probe onto the
    one-hot labels, over ``1 - 1/K``. It does not change under any invertible map of the rows.

    Parameters
    ----------
    joint : of ``JointMoments.from_labels``.
    ridge : added to ``S_T``, times its mean eigenvalue; the index then depends on the basis.
    unbiased : take ``(K - 1)/n`` times the pooled within covariance off ``S_B``, which the error
        of the class means adds on average. The index may then exceed 1 by chance.

    Raises
    ------
    GramianError : ``y`` is no label, a negative ridge, classes that all have one mean, or no
        more rows than directions without a ridge: the probe is then perfect whatever the rows.
    """
    if ridge < 0:
        raise GramianError(f"ridge is {ridge:g}, expected 0 or more")
    found = ClassScatter.of(joint)
    rank = rank_between(found)
    if rank == 0:
        raise GramianError("all classes have the same mean; there is nothing between them")
    n, k, spokes, total = found.rows, found.classes, found.spokes, found.total
    if ridge == 0:
        _check_rows(found, "vci", advice="ridge > 0")
    if not unbiased:
        # tr(S_T^+ A A^T) with S_B = A A^T
        explained = (inverse_root(total, ridge).T @ spokes).square().sum()
        return 1.0 - float(explained) / rank
    if n <= k:
        raise GramianError(f"unbiased=True needs more rows than classes, got {n:g} rows, {k}")
    within = found.within * (n / (n - k))
    total = found.between - (k - 1) / n * within + within
    # tr(S_T^+ (S_B - c S_W)), S_W as the difference of the two
    c = (k - 1) / n
    root = inverse_root(total, ridge)
    of_between = float((root.T @ spokes).square().sum())
    of_within = float((root * (within @ root)).sum())
    return 1.0 - (of_between - c * of_within) / rank


@method("fisher_ratio", job="inspect", paper="Fisher 1936, Annals of Eugenics 7(2)")
def fisher_ratio(joint: JointMoments) -> float:
    """Scatter between classes against that within, ``tr(S_W^+ S_B)``: 0 without classes.

    The sum of the eigenvalues of linear discriminant analysis; infinite when the classes differ
    in a direction in which none of them varies. Invariant to invertible maps.

    Raises
    ------
    GramianError : ``y`` is no label, or no more rows than directions.
    """
    found = ClassScatter.of(joint)
    _check_rows(found, "the Fisher ratio", advice="fewer coordinates")
    # The eigenvalues t of S_T^+ S_B are those, f, of S_W^+ S_B by f = t / (1 - t).
    root = inverse_root(found.total, 0.0)
    shares = torch.linalg.svdvals(root.T @ found.spokes).square()
    if float(shares.max()) >= 1.0 - 1e-12:
        return math.inf
    return float((shares / (1.0 - shares)).sum())


def _check_rows(found: ClassScatter, what: str, *, advice: str) -> None:
    """Refuse when the rows span as many directions as a perfect probe needs."""
    rank = inverse_root(found.total, 0.0).shape[1]
    if rank > found.rows - found.classes:
        raise GramianError(
            f"{what} of {found.rows:g} rows in {found.classes} classes that span {rank} "
            f"directions: a probe fits them perfectly whatever they are; expected at least "
            f"{rank + found.classes} rows, or {advice}"
        )
