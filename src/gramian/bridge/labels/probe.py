"""A classifier of few labels on directions that a larger, related set of labels has shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score

from gramian.bridge.rows import as_matrix
from gramian.errors import GramianError
from gramian.maps import Affine
from gramian.registry import method
from gramian.solvers.deflated_discriminant import Deflated

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Probe:
    """A logistic classifier on the first directions of a `Deflated`."""

    map: Affine
    """Rows (..., d) to the coordinates (..., components) that are classified."""
    classifier: LogisticRegression
    """scikit-learn's, on the coordinates; ``classifier.classes_`` names the columns."""
    components: int
    """How many directions are in use."""

    def coordinates(self, X: Any) -> Array:
        """Rows (n, d) on the directions, (n, components) float64."""
        width = self.map.in_features
        rows = as_matrix(X, "X", width=width).astype(np.float64)
        found: Array = self.map(torch.from_numpy(rows)).numpy()
        return found

    def predict(self, X: Any) -> NDArray[Any]:
        """The label of every row, (n,)."""
        return np.asarray(self.classifier.predict(self.coordinates(X)))

    def predict_proba(self, X: Any) -> Array:
        """Probabilities (n, K) in the order of ``classifier.classes_``."""
        return np.asarray(self.classifier.predict_proba(self.coordinates(X)), dtype=np.float64)


@method("project_and_probe", job="bridge", paper="2302.05441")
def project_and_probe(
    directions: Deflated,
    X: Any,
    y: Any,
    *,
    components: int | None = None,
    C: float = 1.0,
    seed: int = 0,
) -> Probe:
    """Logistic regression on a few labelled target rows, on directions of the source.

    Parameters
    ----------
    directions : of the source, from `gramian.solvers.deflated_discriminant`.
    X, y : target rows (n, d) and labels (n,).
    components : how many directions to use. None chooses among powers of two, and all of them, by
        cross-validated accuracy on the target rows in up to five folds; equal ones go to the fewer.
    C : scikit-learn's inverse regularisation. seed : of the folds.

    Raises
    ------
    GramianError : other widths or lengths, one class only, NaN or infinity, components or C out of
        range, or a class with one row where components is to be chosen.
    """
    available = directions.projection.shape[1]
    rows = as_matrix(X, "X", width=directions.projection.shape[0]).astype(np.float64)
    labels = np.asarray(y)
    if labels.shape != (len(rows),):
        raise GramianError(f"labels of shape {labels.shape}, expected ({len(rows)},)")
    least = int(np.unique(labels, return_counts=True)[1].min(initial=len(rows)))
    if len(np.unique(labels)) < 2:
        raise GramianError("target labels name fewer than two classes; nothing to tell apart")
    if not (C > 0.0 and np.isfinite(C)):
        raise GramianError(f"C is {C}, expected a finite number above 0")
    if components is not None and not 1 <= components <= available:
        raise GramianError(f"components is {components}, expected 1 to {available}")
    z = directions.map(torch.from_numpy(rows)).numpy()
    if components is None:
        if least < 2:
            raise GramianError(
                "a class has one target row, too few to choose components; pass components"
            )
        tried = sorted({2**k for k in range(available.bit_length())} | {available})
        folds = StratifiedKFold(min(5, least), shuffle=True, random_state=seed)
        scores = [
            float(cross_val_score(_classifier(C), z[:, :k], labels, cv=folds).mean()) for k in tried
        ]
        components = tried[int(np.argmax(scores))]
    kept = Deflated(
        directions.projection[:, :components],
        directions.values[:components],
        directions.mean,
        directions.within,
    )
    return Probe(kept.map, _classifier(C).fit(z[:, :components], labels), components)


def _classifier(C: float) -> LogisticRegression:
    return LogisticRegression(C=C, max_iter=1000)
