"""The published steps of mini-vec2vec (arXiv 2510.02348), one after the other, in float64.

Plain NumPy, SciPy and scikit-learn with every default of the publication: what
``gramian.bridge.UnpairedBridge`` is measured against. Not part of the package.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes
from scipy.optimize import quadratic_assignment
from sklearn.cluster import KMeans

Rows = NDArray[np.float64]


def align(
    x: Rows,
    y: Rows,
    *,
    runs: int = 30,
    sample: int = 10_000,
    clusters: int = 20,
    restarts: int = 30,
    neighbours: int = 50,
    steps: int = 100,
    batch: int = 1000,
    smoothing: float = 0.5,
    last_clusters: int = 500,
    seed: int = 0,
) -> tuple[Rows, Rows, Rows]:
    """``W`` (d, d) and both means, so that ``unit(x - mean_x) @ W`` is near ``unit(y - mean_y)``.

    x (n, d), y (m, d): different rows of one distribution.
    """
    draw = np.random.default_rng(seed)
    mean_x, mean_y = x.mean(0), y.mean(0)
    x, y = unit(x - mean_x), unit(y - mean_y)

    # Anchors: matched centres of several runs
    anchors_x, anchors_y = [], []
    for _ in range(runs):
        left, right = (
            k_means(
                rows[draw.choice(len(rows), min(sample, len(rows)), replace=False)], clusters, draw
            )
            for rows in (x, y)
        )
        anchors_x.append(left)
        anchors_y.append(right[assign(left, right, restarts, draw)])

    # Relative representations, pseudo-targets, the first rotation
    relative_x = unit(x @ unit(np.concatenate(anchors_x)).T)
    relative_y = unit(y @ unit(np.concatenate(anchors_y)).T)
    weight, _ = orthogonal_procrustes(x, averaged(relative_x, relative_y, y, neighbours))

    # First refinement
    for _ in range(steps):
        some = x[draw.choice(len(x), min(batch, len(x)), replace=False)]
        fitted, _ = orthogonal_procrustes(some, averaged(unit(some @ weight), y, y, neighbours))
        weight = (1 - smoothing) * weight + smoothing * fitted

    # Second refinement, one round
    count = min(last_clusters, len(x), len(y))
    left = k_means(x, count, draw)
    right = KMeans(count, init=left @ weight, n_init=1).fit(y).cluster_centers_
    fitted, _ = orthogonal_procrustes(left, right)
    return (1 - smoothing) * weight + smoothing * fitted, mean_x, mean_y


def averaged(queries: Rows, index: Rows, values: Rows, neighbours: int, block: int = 1000) -> Rows:
    """The mean of the values of the nearest rows of the index, for every query."""
    means = []
    for start in range(0, len(queries), block):
        scores = queries[start : start + block] @ index.T
        means.append(values[np.argpartition(-scores, neighbours, axis=1)[:, :neighbours]].mean(1))
    return np.concatenate(means)


def assign(left: Rows, right: Rows, restarts: int, draw: np.random.Generator) -> NDArray[np.int64]:
    """The best order of the centres on the right that 2-opt finds from random starts."""
    centring = np.eye(len(left)) - 1 / len(left)
    one, two = (centring @ c @ c.T @ centring for c in (left, right))
    found = [
        quadratic_assignment(one, two, method="2opt", options={"maximize": True, "rng": draw})
        for _ in range(restarts)
    ]
    order: NDArray[np.int64] = max(found, key=lambda result: result.fun).col_ind
    return order


def k_means(rows: Rows, clusters: int, draw: np.random.Generator) -> Rows:
    """Centres (clusters, d)."""
    seed = int(draw.integers(2**31))
    centres: Rows = KMeans(clusters, n_init=1, random_state=seed).fit(rows).cluster_centers_
    return centres


def unit(rows: Rows) -> Rows:
    """Rows of length 1."""
    result: Rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return result
