"""K-means in float32, as matrix products, and the matching of two sets of centres."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]
RESTARTS = 60
STARTS = 5
STEPS = 15


@dataclass(frozen=True)
class Matching:
    """The order of the centres on the right that suits those on the left best.

    alike : cosine of the two centred Grams in that order.
    gap : how much less alike they are in the second-best order found, relatively.
    """

    order: NDArray[np.int64]
    alike: float
    gap: float


def centres_of(rows: Rows, count: int, draw: np.random.Generator) -> Rows:
    """The tightest of several k-means: two samples of one cloud then fall apart alike."""
    found = []
    for _ in range(STARTS):
        centres = k_means(rows, spread_start(rows, count, draw), STEPS)
        found.append((float(_nearness(rows, centres).max(1).mean(dtype=np.float64)), centres))
    return max(found, key=lambda one: one[0])[1]


def k_means(rows: Rows, start: Rows, steps: int) -> Rows:
    """Centres (c, d) after some steps of Lloyd's algorithm; an empty cluster keeps its centre."""
    centres = start.copy()
    everyone = np.arange(len(rows))
    for _ in range(steps):
        member = np.zeros((len(centres), len(rows)), np.float32)
        member[_nearness(rows, centres).argmax(1), everyone] = 1
        counts = member.sum(1)
        held = counts > 0
        centres[held] = (member @ rows)[held] / counts[held, None]
    return centres


def spread_start(rows: Rows, count: int, draw: np.random.Generator) -> Rows:
    """Rows to start from, each drawn in proportion to its squared distance to those before."""
    chosen = [int(draw.integers(len(rows)))]
    squares = (rows * rows).sum(1)
    distance = np.full(len(rows), np.inf)
    for _ in range(count - 1):
        last = rows[chosen[-1]]
        now = squares - 2 * (rows @ last) + last @ last
        distance = np.minimum(distance, np.maximum(now, 0))
        total = distance.sum()
        chosen.append(
            int(draw.choice(len(rows), p=distance / total))
            if total > 0
            else int(draw.integers(len(rows)))
        )
    return rows[chosen]


def match(left: Rows, right: Rows, draw: np.random.Generator) -> Matching:
    """Match centres by their inner products, which no rotation changes.

    Maximises ``tr(KA P KB P^T)`` by exchanges of two from many starts at once. With
    ``v = e_i - e_j`` an exchange changes it by ``-2 v^T KA KB v + (v^T KA v) (v^T KB v)``.
    """
    one, two = (_gram(side) for side in (left, right))
    count = len(one)
    orders = np.stack([draw.permutation(count) for _ in range(RESTARTS)])
    starts = np.arange(RESTARTS)
    length = float(np.linalg.norm(one) * np.linalg.norm(two))
    for _ in range(10 * count):
        moved = two[orders[:, :, None], orders[:, None, :]]
        gain = -2 * _spans(one @ moved) + _spans(one[None]) * _spans(moved)
        flat = gain.reshape(RESTARTS, -1).argmax(1)
        better = gain.reshape(RESTARTS, -1)[starts, flat] > 1e-12 * length
        if not better.any():
            break
        i, j = np.divmod(flat, count)
        at = starts[better]
        i, j = i[better], j[better]
        orders[at, i], orders[at, j] = orders[at, j], orders[at, i]
    moved = two[orders[:, :, None], orders[:, None, :]]
    alike = (one * moved).sum((1, 2)) / max(length, np.finfo(float).tiny)
    best = int(alike.argmax())
    others = alike[(orders != orders[best]).any(1)]
    second = float(others.max(initial=0.0))
    gap = (alike[best] - second) / alike[best] if alike[best] > 0 else 0.0
    return Matching(orders[best], float(alike[best]), float(gap))


def _nearness(rows: Rows, centres: Rows) -> Rows:
    """What orders the centres by their distance to a row, largest for the nearest."""
    nearness: Rows = rows @ centres.T - 0.5 * (centres * centres).sum(1)
    return nearness


def _gram(centres: Rows) -> NDArray[np.float64]:
    centred = centres.astype(np.float64) - centres.mean(0)
    gram: NDArray[np.float64] = centred @ centred.T
    return gram


def _spans(m: NDArray[np.float64]) -> NDArray[np.float64]:
    """``v^T M v`` for every pair i, j."""
    diagonal = np.einsum("...ii->...i", m)
    spans: NDArray[np.float64] = (
        diagonal[..., :, None] + diagonal[..., None, :] - m - np.swapaxes(m, -1, -2)
    )
    return spans
