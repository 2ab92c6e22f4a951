"""Neural collapse: within classes, between their means, and against the classifier."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures.class_scatter import ClassScatter, rank_between, relative_cut
from gramian.moments import JointMoments
from gramian.moments.products import as_rows
from gramian.registry import method


@method("nc1", job="inspect", paper="2008.08186")
def nc1(joint: JointMoments) -> float:
    """Within-class variability against between-class, ``tr(S_W S_B^+) / K``: 0 when collapsed.

    Not invariant to invertible maps; `vci` is.

    Raises
    ------
    GramianError : ``y`` is no label, or all classes have one mean.
    """
    found = ClassScatter.of(joint)
    if rank_between(found) == 0:
        raise GramianError("all classes have the same mean; there is nothing between them")
    # S_B = A A^T, so tr(S_W (A A^T)^+) = tr(A^+ S_W A^+T)
    pinv = torch.linalg.pinv(found.spokes, rtol=relative_cut(found.spokes))
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
