"""The rotation between two clouds that share no row: anchors, neighbours, refinement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from gramian.bridge.unpaired.clusters import Rows, centres_of, k_means, match

SAMPLE = 4000
"""Rows of each side that a run of k-means, and the search for a start, sees."""
QUERIES = 1000
TRIES = 6
"""Starts that are refined before one is taken."""
PROBE = 8
"""One in so many rows of a long index tells which score the nearest reach."""
INERTIA = 0.3
NEAR = 10
"""Neighbours by whose mean cosine a rotation is scored."""


@dataclass(frozen=True)
class Anchors:
    """Matched centres of pairs of runs, those that match best first: (pairs, c, d) each side."""

    left: Rows
    right: Rows
    gap: float

    def weight(self, seed: int) -> tuple[Rows, NDArray[np.bool_]]:
        """The rotation on which other pairs agree with this one, and which do."""
        trust = np.zeros(len(self.left))
        trust[seed] = 1
        for _ in range(4):
            weight = polar(np.einsum("r,rci,rcj->ij", trust, self.left, self.right, optimize=True))
            agree = (unit(self.left @ weight) * unit(self.right)).sum(2).mean(1)
            trust = np.maximum(agree, 0) ** 4
        return weight, agree > 0.5 * agree.max()


def find_anchors(x: Rows, y: Rows, runs: int, clusters: int, draw: np.random.Generator) -> Anchors:
    """Cluster each side in some runs, match every one with every other, keep the best matched.

    Two runs that fall apart in the same way match better than any two others, so that the
    likeness of their Grams tells which to trust.
    """
    sides = [
        [centres_of(some(rows, SAMPLE, draw), clusters, draw) for _ in range(runs)]
        for rows in (x, y)
    ]
    found = []
    for left in sides[0]:
        for right in sides[1]:
            matching = match(left, right, draw)
            found.append((matching.alike, matching.gap, left, right[matching.order]))
    found.sort(key=lambda one: -one[0])
    kept = found[: 2 * runs]
    return Anchors(
        np.stack([left for *_, left, _ in kept]),
        np.stack([right for *_, right in kept]),
        float(np.median([gap for _, gap, *_ in kept])),
    )


def first_maps(
    x: Rows, y: Rows, anchors: Anchors, neighbours: int, draw: np.random.Generator
) -> list[Rows]:
    """Rotations onto rows whose cosines with the matched anchors are alike, by several starts."""
    maps = []
    queries, index = some(x, QUERIES, draw), some(y, SAMPLE, draw)
    for seed in range(min(TRIES, len(anchors.left))):
        _, agree = anchors.weight(seed)
        left = unit(queries @ unit(anchors.left[agree].reshape(-1, x.shape[1])).T)
        right = unit(index @ unit(anchors.right[agree].reshape(-1, y.shape[1])).T)
        near = near_mean(left, right, neighbours, index)
        maps.append(refine(x, index, polar(queries.T @ near), neighbours, 12, draw))
    return maps


def refine(
    x: Rows,
    y: Rows,
    weight: Rows,
    neighbours: int,
    steps: int,
    draw: np.random.Generator,
    queries: int = QUERIES,
) -> Rows:
    """Map some rows, average what they land among, fit a rotation to that, and go half way.

    Ends early when the rotation has come to rest.
    """
    before = np.inf
    for step in range(steps):
        rows = some(x, queries, draw)
        near = near_mean(rows @ weight, y, neighbours, y)
        after: Rows = np.float32(0.5) * (weight + towards(rows.T @ near, weight))
        moved = float(np.linalg.norm(after - weight))
        weight = after
        if step >= 8 and moved > 0.9 * before:
            break
        before = min(before, moved)
    return polar(weight)


def unfold(
    x: Rows, y: Rows, weight: Rows, neighbours: int, steps: int, draw: np.random.Generator
) -> Rows:
    """The same without a hold on the present rotation, so that wrong directions turn away.

    Moves on for as long as it is told to: what it gains is slow, and hidden by the draw of rows.
    """
    for _ in range(steps):
        rows = some(x, QUERIES, draw)
        near = near_mean(rows @ weight, y, neighbours, y)
        weight = np.float32(0.5) * (weight + polar(rows.T @ near))
    return polar(weight)


def settle(
    x: Rows, y: Rows, weight: Rows, clusters: int, draw: np.random.Generator
) -> tuple[Rows, float]:
    """Centres of x, carried over, start the k-means of y; the last rotation is between the two.

    Also how well both sets of centres then agree: their mean cosine.
    """
    count = max(1, min(clusters, len(x) // 8, len(y) // 8))
    left = k_means(x, x[draw.choice(len(x), count, replace=False)], 8)
    right = k_means(y, left @ weight, 8)
    after = polar(weight + towards(left.T @ right, weight))
    return after, float((unit(left @ after) * unit(right)).sum(1).mean())


def towards(cross: Rows, weight: Rows) -> Rows:
    """The rotation of a cross moment, which keeps to ``weight`` where the moment says little.

    ``polar(C + l W)`` with l in proportion to the mean square singular value of C. Without it the
    directions in which rows hardly vary, or that few rows do not span, would be drawn anew.
    """
    force = INERTIA * float(np.linalg.norm(cross)) / min(cross.shape) ** 0.5
    return polar(cross + np.float32(force) * weight)


def scores(rows: Rows, index: Rows) -> NDArray[np.float64]:
    """The mean cosine of every row with the nearest rows of the index."""
    cosines = unit(rows) @ index.T
    near = min(NEAR, len(index))
    best = np.partition(cosines, len(index) - near, axis=1)[:, -near:]
    mean: NDArray[np.float64] = best.mean(1, dtype=np.float64)
    return mean


def near_mean(queries: Rows, index: Rows, k: int, values: Rows) -> Rows:
    """The mean value of about k rows of the index that are nearest by inner product.

    The score they must reach is read off an eighth of a long index, whose rows are in random
    order: selecting is then no slower than the product.
    """
    count = len(index)
    probe = count // PROBE if 2 * PROBE <= k <= count // 2 else count
    among = max(1, min(count, round(k * probe / count)))
    means = np.empty((len(queries), values.shape[1]), np.float32)
    for at in range(0, len(queries), 500):
        score = queries[at : at + 500] @ index.T
        least = np.partition(score[:, :probe], probe - among, axis=1)[:, probe - among]
        rows, columns = np.divmod(np.flatnonzero(score >= least[:, None]), count)
        counts = np.bincount(rows, minlength=len(score))
        share = np.repeat((1 / counts).astype(np.float32), counts)
        starts = np.concatenate([[0], np.cumsum(counts)])
        means[at : at + 500] = csr_array((share, columns, starts), (len(score), count)) @ values
    return means


def some(rows: Rows, count: int, draw: np.random.Generator) -> Rows:
    """Rows drawn without replacement, or all of them when there are no more."""
    if len(rows) <= count:
        return rows
    return rows[draw.choice(len(rows), count, replace=False)]


def mutual(x: Rows, y: Rows) -> float:
    """The share of rows that are the nearest of their nearest."""
    score = x @ y.T
    there, back = score.argmax(1), score.argmax(0)
    return float((back[there] == np.arange(len(x))).mean())


def polar(cross: NDArray[Any], dtype: Any = np.float32) -> NDArray[Any]:
    """The nearest matrix with orthonormal columns, or rows when there are fewer of them."""
    u, _, vt = np.linalg.svd(cross.astype(dtype), full_matrices=False)
    orthonormal: NDArray[Any] = u @ vt
    return orthonormal


def unit(rows: NDArray[Any]) -> Rows:
    """Rows of length 1; zeros stay."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    result: Rows = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return result
