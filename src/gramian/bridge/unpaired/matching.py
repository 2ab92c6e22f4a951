"""The rotation between two clouds that share no row: anchors, neighbours, refinement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.unpaired.clusters import Rows, k_means, match, spread_start

SAMPLE = 4000
"""Rows of each side that a run of k-means sees."""
SCORED = 2000


@dataclass(frozen=True)
class Anchors:
    """Matched centres of several runs, (runs, c, d) on each side."""

    left: Rows
    right: Rows

    def part(self, start: int, step: int) -> Anchors:
        """Every ``step``-th run."""
        return Anchors(self.left[start::step], self.right[start::step])


def find_anchors(x: Rows, y: Rows, runs: int, clusters: int, draw: np.random.Generator) -> Anchors:
    """Cluster both sides anew in every run, and match the centres by their inner products."""
    pairs = []
    for _ in range(runs):
        sides = []
        for rows in (x, y):
            sample = rows[draw.choice(len(rows), min(SAMPLE, len(rows)), replace=False)]
            sides.append(k_means(sample, spread_start(sample, clusters, draw), 15))
        left, right = sides
        pairs.append((left, right[match(left, right, draw)]))
    return Anchors(np.stack([a for a, _ in pairs]), np.stack([b for _, b in pairs]))


def first_map(
    x: Rows, y: Rows, anchors: Anchors, neighbours: int, draw: np.random.Generator
) -> Rows:
    """The rotation onto the rows whose cosines with the matched anchors are most alike."""
    some = x[draw.choice(len(x), min(SCORED, len(x)), replace=False)]
    width = x.shape[1], y.shape[1]
    left = unit(some @ unit(anchors.left.reshape(-1, width[0])).T)
    right = unit(y @ unit(anchors.right.reshape(-1, width[1])).T)
    return polar(some.T @ y[nearest(left, right, neighbours)].mean(1))


def refine(
    x: Rows, y: Rows, weight: Rows, neighbours: int, steps: int, draw: np.random.Generator
) -> Rows:
    """Map some rows, average what they land among, fit a rotation to that, and go half way.

    Ends early when the rotation has come to rest.
    """
    before = np.inf
    for step in range(steps):
        some = x[draw.choice(len(x), min(1000, len(x)), replace=False)]
        found = nearest(some @ weight, y, neighbours)
        after = polar(0.5 * weight + 0.5 * polar(some.T @ y[found].mean(1)))
        moved = float(np.linalg.norm(after - weight))
        weight = after
        if step >= 8 and moved > 0.9 * before:
            break
        before = min(before, moved)
    return weight


def settle(
    x: Rows, y: Rows, weight: Rows, clusters: int, draw: np.random.Generator
) -> tuple[Rows, float]:
    """Centres of x, carried over, start the k-means of y; the last rotation is between the two.

    Also how well both sets of centres then agree: their mean cosine.
    """
    count = min(clusters, len(x), len(y))
    left = k_means(x, x[draw.choice(len(x), count, replace=False)], 8)
    right = k_means(y, left @ weight, 8)
    after = polar(0.5 * weight + 0.5 * polar(left.T @ right))
    return after, float((unit(left @ after) * unit(right)).sum(1).mean())


def nearest(queries: Rows, index: Rows, k: int) -> NDArray[np.int64]:
    """Positions (q, k) of the rows with the largest inner products, in any order."""
    k = min(k, len(index))
    found: NDArray[np.int64] = np.concatenate(
        [
            np.argpartition(queries[at : at + 500] @ index.T, len(index) - k, axis=1)[:, -k:]
            for at in range(0, len(queries), 500)
        ]
    )
    return found


def mutual(x: Rows, y: Rows) -> float:
    """The share of rows that are the nearest of their nearest."""
    score = x @ y.T
    there, back = score.argmax(1), score.argmax(0)
    return float((back[there] == np.arange(len(x))).mean())


def polar(cross: NDArray[np.floating]) -> Rows:
    """The nearest matrix with orthonormal columns, or rows when there are fewer of them."""
    u, _, vt = np.linalg.svd(cross.astype(np.float32), full_matrices=False)
    nearest_one: Rows = u @ vt
    return nearest_one


def unit(rows: Rows) -> Rows:
    """Rows of length 1; zeros stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    result: Rows = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return result
