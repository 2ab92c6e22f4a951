"""Soft targets that split each class of a teacher along what its classifier does not use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax

from gramian.bridge.rows import as_matrix
from gramian.errors import GramianError
from gramian.moments import Moments
from gramian.registry import method
from gramian.solvers.spectrum import eigh

Array = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class SubclassTargets:
    """Turns a teacher's embeddings and probabilities into those of C x S subclasses."""

    directions: Array
    """(C, S, d) with orthonormal rows in each class, orthogonal to the classifier's rows."""
    means: Array
    """(C, d) mean embedding of each class."""
    spreads: Array
    """(C,) root mean square of a class's own embeddings along its directions."""
    temperature: float

    def logits(self, embeddings: Any) -> Array:
        """Projections in units of the class's spread over the temperature: (n, d) to (n, C, S).

        Raises
        ------
        GramianError : another width, NaN or infinity.
        """
        rows = as_matrix(embeddings, "embeddings", width=self.means.shape[1]).astype(np.float64)
        offset = np.einsum("csd,cd->cs", self.directions, self.means)
        z = np.einsum("nd,csd->ncs", rows, self.directions, optimize=True) - offset
        found: Array = z / (self.temperature * self.spreads[:, None])
        return found

    def targets(self, embeddings: Any, probabilities: Any) -> Array:
        """``p(c, s) = p(c) softmax_s(logits)``, (n, C, S); the sum over s is p(c).

        Train a student of C x S outputs on ``targets.reshape(n, -1)`` by cross-entropy, and sum
        its probabilities over s to predict.

        embeddings : (n, d). probabilities : (n, C) of the teacher, for the same rows.

        Raises
        ------
        GramianError : other shapes, NaN or infinity, or rows that are not probabilities.
        """
        p = as_matrix(probabilities, "probabilities", width=len(self.means)).astype(np.float64)
        # half precision rounds each of the C entries
        if (p < 0).any() or (np.abs(p.sum(1) - 1.0) > 1e-2).any():
            raise GramianError("probabilities must be at least 0 and sum to 1 in every row")
        logits = self.logits(embeddings)
        if len(logits) != len(p):
            raise GramianError(f"{len(logits)} embeddings and {len(p)} rows of probabilities")
        found: Array = p[:, :, None] * softmax(logits, axis=2)
        return found


@method("subclass_targets", job="bridge", paper="2409.20449")
def subclass_targets(
    classes: Sequence[Moments],
    classifier: Any,
    *,
    subclasses: int = 2,
    temperature: float = 1.0,
    seed: int = 0,
) -> SubclassTargets:
    """Pseudo-subclasses for distilling a teacher of few classes (LELP).

    In each class: the principal directions of its embeddings within the null space of the
    classifier's weights, which the class probabilities say nothing of, turned by a random rotation
    so that none of them has most of the variance.

    Parameters
    ----------
    classes : full moments of the teacher's last-layer embeddings, one for each class, in the order
        of the classifier's rows.
    classifier : (C, d) weights of the teacher's last layer.
    subclasses : S, directions per class.
    temperature : of the softmax over subclasses, above 0; projections are in units of the root
        mean square along a class's directions, so it does not depend on the embedding's scale.
    seed : of the rotations.

    Raises
    ------
    GramianError : other shapes, diagonal or empty moments, NaN or infinity, settings out of range,
        or a class that varies in fewer than S directions outside the classifier's.
    """
    weights = as_matrix(classifier, "classifier").astype(np.float64)
    count, d = weights.shape
    if len(classes) != count:
        raise GramianError(f"{len(classes)} classes and a classifier of {count} rows")
    if subclasses < 1:
        raise GramianError(f"subclasses is {subclasses}, expected at least 1")
    if not (temperature > 0.0 and math.isfinite(temperature)):
        raise GramianError(f"temperature is {temperature}, expected a finite number above 0")
    null = _null_space(weights)
    g = np.random.default_rng(seed)
    directions, spreads = np.zeros((count, subclasses, d)), np.zeros(count)
    for c, moments in enumerate(classes):
        if moments.is_diagonal or moments.d != d or moments.count <= 0:
            raise GramianError(
                f"class {c}: expected full moments of rows of width {d}, got "
                f"{'diagonal ' if moments.is_diagonal else ''}moments of {moments.count:g} rows "
                f"of width {moments.d}"
            )
        if not bool(torch.isfinite(moments.scatter).all() and torch.isfinite(moments.mean).all()):
            raise GramianError(f"class {c}: moments hold NaN or infinity")
        covariance = moments.scatter / moments.count
        inside = null.T @ covariance @ null
        values, vectors = eigh((inside + inside.T) / 2)
        # noise of the whole covariance, which the null space may miss entirely
        floor = 16 * _EPS * d * float(covariance.diagonal().sum())
        varying = int((values > floor).sum())
        if varying < subclasses:
            raise GramianError(
                f"class {c} varies in {varying} directions that the classifier does not use, and "
                f"{subclasses} subclasses need as many; pass fewer subclasses or more rows"
            )
        top = (null @ vectors[:, -subclasses:].flip(1)).numpy()
        directions[c] = _rotation(g, subclasses) @ top.T
        spreads[c] = math.sqrt(float(values[-subclasses:].mean()))
    means = torch.stack([m.mean for m in classes]).numpy()
    return SubclassTargets(directions, means, spreads, temperature)


def _null_space(weights: Array) -> torch.Tensor:
    """Orthonormal (d, k) basis of what the weights do not read."""
    _, s, vt = np.linalg.svd(weights, full_matrices=True)
    rank = int((s > max(weights.shape) * _EPS * s.max(initial=0.0)).sum())
    return torch.from_numpy(np.ascontiguousarray(vt[rank:].T))


def _rotation(g: np.random.Generator, size: int) -> Array:
    """An orthogonal matrix drawn uniformly."""
    q, r = np.linalg.qr(g.normal(size=(size, size)))
    found: Array = q * np.sign(np.diag(r))
    return found
