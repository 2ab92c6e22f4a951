"""Labels never trained on, named from the probabilities of those that were."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from gramian.bridge.rows import as_matrix
from gramian.errors import GramianError
from gramian.maps import Dense
from gramian.registry import method

Array = NDArray[np.float64]


class LabelHead:
    """Names any known label from probabilities (n, m) of m observed classes; see `label_head`."""

    def __init__(self, rule: str, matrix: Array, labels: Array | None, top: int) -> None:
        self.rule, self.top = rule, top
        self.matrix = matrix
        """ConSE: embeddings of the observed classes (m, d). Loki: squared distances (m, M)."""
        self.labels = labels
        """ConSE: unit embeddings of the labels to choose among, (M, d)."""

    def values(self, probabilities: Any) -> Array:
        """ConSE: embeddings (n, d). Loki: expected squared distances (n, M), least is best.

        Raises
        ------
        GramianError : another number of classes, values below 0 or not finite, a row of zeros.
        """
        p = as_matrix(probabilities, "probabilities", width=len(self.matrix)).astype(np.float64)
        if (p < 0).any() or (p.sum(1) <= 0).any():
            raise GramianError("probabilities must be at least 0 with some above 0 in every row")
        if self.top < p.shape[1]:
            # ties at the edge go to the lower class
            rest = np.argsort(-p, axis=1, kind="stable")[:, self.top :]
            np.put_along_axis(p, rest, 0.0, axis=1)
        found: Array = (p / p.sum(1, keepdims=True)) @ self.matrix
        return found

    def predict(self, probabilities: Any) -> NDArray[np.int64]:
        """The label of every row, (n,); equal ones go to the lower."""
        values = self.values(probabilities)
        if self.labels is None:
            return np.asarray(values.argmin(1))
        return np.asarray((values @ self.labels.T).argmax(1))

    @property
    def map(self) -> Dense:
        """What :meth:`values` does after softmax, as one linear map without bias.

        Raises
        ------
        GramianError : only the top classes count, which no linear map does.
        """
        if self.top < len(self.matrix):
            raise GramianError(
                f"a head of the top {self.top} of {len(self.matrix)} classes is not linear; "
                "take top=None to fuse it"
            )
        return Dense(torch.from_numpy(self.matrix.T.copy()))


@method("label_head", job="bridge", paper="1312.5650; 2307.12226")
def label_head(
    rule: str,
    *,
    distances: Any = None,
    observed: Any = None,
    labels: Any = None,
    top: int | None = None,
) -> LabelHead:
    """Head that names labels a classifier never saw, from what it says of those it knows.

    ``"conse"`` averages the embeddings of the ``top`` classes by their probability and takes the
    label of highest cosine. ``"loki"`` takes the label of least expected squared distance,
    ``argmin_k sum_j p_j D_jk^2``; calibrate the probabilities first.

    Parameters
    ----------
    distances : Loki: (m, M) from observed classes to all labels, of a hierarchy for example.
    observed, labels : embeddings (m, d) and (M, d), for ConSE, or for Loki instead of distances;
        labels default to the observed classes.
    top : how many classes count; None for all.

    Raises
    ------
    GramianError : an unknown rule, missing or unequal arrays, negative distances, a zero embedding.
    """
    if rule not in ("conse", "loki"):
        raise GramianError(f"rule is {rule!r}, expected 'conse' or 'loki'")
    if (distances is None) == (observed is None) or (rule == "conse" and observed is None):
        wanted = "observed embeddings" if rule == "conse" else "distances or observed embeddings"
        raise GramianError(f"{rule} needs {wanted}, and not both")
    known: Array | None = None
    if distances is not None:
        d = as_matrix(distances, "distances").astype(np.float64)
        if (d < 0).any():
            raise GramianError("distances are below 0; pass distances, not similarities")
        matrix = d * d
    else:
        seen = as_matrix(observed, "observed").astype(np.float64)
        every = seen if labels is None else as_matrix(labels, "labels", width=seen.shape[1])
        every = every.astype(np.float64)
        if rule == "conse":
            lengths = np.linalg.norm(every, axis=1, keepdims=True)
            if (lengths == 0).any():
                raise GramianError("a label has an embedding of zeros, which has no direction")
            matrix, known = seen, every / lengths
        else:
            matrix = cdist(seen, every, "sqeuclidean")
    count = len(matrix) if top is None else top
    if not 1 <= count <= len(matrix):
        raise GramianError(f"top is {top}, expected 1 to {len(matrix)}")
    return LabelHead(rule, matrix, known, count)
