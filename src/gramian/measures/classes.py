"""How far classes stand apart at a site, from its moments jointly with the labels.

``JointMoments.from_labels(x, labels)`` keeps all that is needed: class counts, class means and
the total scatter ``C_T``. With ``mu`` the mean of all n rows,

    S_B = sum_k (n_k/n) (mu_k - mu)(mu_k - mu)^T,  S_T = C_T / n,  S_W = S_T - S_B.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import JointMoments
from gramian.moments.products import as_rows
from gramian.registry import method
from gramian.solvers.spectrum import eigh


@dataclass(frozen=True, eq=False)
class ClassScatter:
    """Class means and scatters of a site; classes without rows are left out."""

    counts: Tensor
    """(K,) rows of each class."""
    means: Tensor
    """(K, d) float64."""
    mean: Tensor
    """(d,) of all rows."""
    spokes: Tensor
    """(d, K): ``sqrt(n_k/n) (mu_k - mu)`` as columns; ``S_B`` is this times its transpose."""
    total: Tensor
    """``S_T``, (d, d)."""

    @classmethod
    def of(cls, joint: JointMoments) -> ClassScatter:
        """Read out of joint moments with one-hot labels.

        Raises
        ------
        GramianError : ``y`` is not one-hot, fewer than two classes have rows, or only the
            diagonal of ``x`` is kept.
        """
        if joint.x.is_diagonal:
            raise GramianError("class measures need full moments of x; only the diagonal is kept")
        n = joint.count
        if n <= 0:
            raise GramianError("class measures of no rows; collect more text")
        counts = n * joint.y.mean
        # One-hot: the shares sum to 1, and the scatter of column k is n_k (1 - n_k/n).
        spread = joint.y.variances - counts * (1 - counts / n)
        if abs(float(counts.sum()) - n) > 1e-6 * n or float(spread.abs().max()) > 1e-6 * n:
            raise GramianError(
                "the target of these joint moments is not a one-hot label; make them with "
                "JointMoments.from_labels(x, labels)"
            )
        there = counts > 1e-6
        if int(there.sum()) < 2:
            raise GramianError(
                f"{int(there.sum())} class has rows, expected at least 2; label more documents"
            )
        counts = counts[there]
        gaps = joint.cross[:, there] / counts
        return cls(
            counts,
            joint.x.mean + gaps.T,
            joint.x.mean,
            gaps * (counts / n).sqrt(),
            joint.x.scatter / n,
        )

    @property
    def classes(self) -> int:
        """K, the number of classes that have rows."""
        return len(self.counts)

    @property
    def rows(self) -> float:
        """n."""
        return float(self.counts.sum())

    @property
    def between(self) -> Tensor:
        """``S_B``, (d, d)."""
        return self.spokes @ self.spokes.T

    @property
    def within(self) -> Tensor:
        """``S_W``, (d, d)."""
        return self.total - self.between


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
    rank_between = _rank(found)
    if rank_between == 0:
        raise GramianError("all classes have the same mean; there is nothing between them")
    n, k, spokes, total = found.rows, found.classes, found.spokes, found.total
    if ridge == 0:
        _check_rows(found, "vci", advice="ridge > 0")
    if not unbiased:
        # tr(S_T^+ A A^T) with S_B = A A^T
        explained = (_inverse_root(total, ridge).T @ spokes).square().sum()
        return 1.0 - float(explained) / rank_between
    if n <= k:
        raise GramianError(f"unbiased=True needs more rows than classes, got {n:g} rows, {k}")
    within = found.within * (n / (n - k))
    total = found.between - (k - 1) / n * within + within
    # tr(S_T^+ (S_B - c S_W)), S_W as the difference of the two
    c = (k - 1) / n
    root = _inverse_root(total, ridge)
    of_between = float((root.T @ spokes).square().sum())
    of_within = float((root * (within @ root)).sum())
    return 1.0 - (of_between - c * of_within) / rank_between


@method("nc1", job="inspect", paper="2008.08186")
def nc1(joint: JointMoments) -> float:
    """Within-class variability against between-class, ``tr(S_W S_B^+) / K``: 0 when collapsed.

    Not invariant to invertible maps; `vci` is.

    Raises
    ------
    GramianError : ``y`` is no label, or all classes have one mean.
    """
    found = ClassScatter.of(joint)
    if _rank(found) == 0:
        raise GramianError("all classes have the same mean; there is nothing between them")
    # S_B = A A^T, so tr(S_W (A A^T)^+) = tr(A^+ S_W A^+T)
    pinv = torch.linalg.pinv(found.spokes, rtol=_cut(found.spokes))
    return float((pinv * (pinv @ found.within)).sum()) / found.classes


@dataclass(frozen=True)
class Simplex:
    """How far vectors, one per class, are from a simplex of equal lengths and angles."""

    equinorm: float
    """Standard deviation of their lengths over the mean length; 0 at collapse."""
    distance: float
    """``|G G^T/|G G^T| - (I - 11^T/K)/sqrt(K-1)|``, Frobenius norms; 0 at collapse."""


@method("nc2", job="inspect", paper="2008.08186")
def nc2(joint: JointMoments, classifier: Any = None) -> Simplex:
    """Whether the class means, or the rows of a classifier, form a simplex.

    Parameters
    ----------
    joint : of ``JointMoments.from_labels``; class means are taken about their own mean.
    classifier : (K, d) rows of the last layer, one per class that has rows, taken as they are.

    Raises
    ------
    GramianError : ``y`` is no label, all vectors are zero, or another shape.
    """
    found = ClassScatter.of(joint)
    vectors = _centred_means(found) if classifier is None else _classifier(classifier, found)
    lengths = torch.linalg.vector_norm(vectors, dim=1)
    equinorm = float(lengths.std(correction=0) / lengths.mean())
    return Simplex(equinorm, _from_simplex(vectors @ vectors.T))


@method("nc3", job="inspect", paper="2008.08186")
def nc3(joint: JointMoments, classifier: Any) -> float:
    """Whether a classifier's rows point at the class means:
    ``|W H/|W H| - (I - 11^T/K)/sqrt(K-1)|``, 0 at collapse.

    H holds the class means about their own mean as columns, W (K, d) the classifier's rows.

    Raises
    ------
    GramianError : ``y`` is no label, another shape, or a product that is zero.
    """
    found = ClassScatter.of(joint)
    return _from_simplex(_classifier(classifier, found) @ _centred_means(found).T)


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
    root = _inverse_root(found.total, 0.0)
    shares = torch.linalg.svdvals(root.T @ found.spokes).square()
    if float(shares.max()) >= 1.0 - 1e-12:
        return math.inf
    return float((shares / (1.0 - shares)).sum())


def _inverse_root(total: Tensor, ridge: float) -> Tensor:
    """R (d, r) with ``R R^T`` the inverse of a scatter on its range.

    Cut after scaling to unit diagonal, which changes no trace of a product with a scatter inside
    the range. With a ridge there is no scaling.
    """
    d = len(total)
    if ridge > 0:
        values, vectors = eigh(total)
        return vectors * (values.clamp_min(0.0) + ridge * float(total.trace()) / d).rsqrt()
    diagonal = total.diagonal().clamp_min(0.0)
    scale = torch.where(diagonal > 0, diagonal.rsqrt(), 0.0)
    values, vectors = eigh(scale[:, None] * total * scale)
    kept = values > _EPS * d * values[-1].clamp_min(0.0)
    return scale[:, None] * vectors[:, kept] * values[kept].rsqrt()


def _check_rows(found: ClassScatter, what: str, *, advice: str) -> None:
    """Refuse when the rows span as many directions as a perfect probe needs."""
    rank = _inverse_root(found.total, 0.0).shape[1]
    if rank > found.rows - found.classes:
        raise GramianError(
            f"{what} of {found.rows:g} rows in {found.classes} classes that span {rank} "
            f"directions: a probe fits them perfectly whatever they are; expected more than "
            f"{rank + found.classes} rows, or {advice}"
        )


def _rank(found: ClassScatter) -> int:
    """Rank of ``S_B``; gaps between means that are rounding against the rows do not count."""
    values = torch.linalg.svdvals(found.spokes)
    length = math.sqrt(float(found.total.trace().clamp_min(0.0) + found.mean.square().sum()))
    floor = max(_cut(found.spokes) * float(values[0]), 4.0 * _EPS * length)
    return int((values > floor).sum())


def _cut(matrix: Tensor) -> float:
    return max(matrix.shape) * _EPS * 8.0


def _centred_means(found: ClassScatter) -> Tensor:
    gaps = found.means - found.mean
    return gaps - gaps.mean(0)


def _classifier(rows: Any, found: ClassScatter) -> Tensor:
    weight = as_rows(rows).to("cpu", torch.float64)
    expected = (found.classes, found.means.shape[1])
    if tuple(weight.shape) != expected:
        raise GramianError(
            f"a classifier of shape {tuple(weight.shape)}, expected {expected}: a row for each "
            "class that has rows"
        )
    return weight


def _from_simplex(product: Tensor) -> float:
    k, norm = len(product), float(torch.linalg.matrix_norm(product))
    if norm == 0 or not math.isfinite(norm):
        raise GramianError("the vectors of the classes are all zero (or not finite)")
    ideal = torch.eye(k, dtype=product.dtype) - 1.0 / k
    return float(torch.linalg.matrix_norm(product / norm - ideal / math.sqrt(k - 1)))


_EPS = torch.finfo(torch.float64).eps
