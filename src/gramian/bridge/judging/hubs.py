"""Hubs, items that are near to everything, and the scores that take them back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from gramian.bridge.judging.ranking import Positions, Ranking
from gramian.bridge.retrieval import top_k
from gramian.errors import GramianError
from gramian.registry import method


@method("CSLS", job="bridge", paper="1710.04087")
def csls(queries: Any, index: Any, depth: int, *, neighbours: int = 10) -> Ranking:
    """Search by cosine less what every item is to queries at large, which takes hubs back.

    ``csls(q, x) = 2 cos(q, x) - r(q) - r(x)`` with ``r`` the mean cosine to the ``neighbours``
    nearest of the other side. ``r(q)`` is the same for all items and is left out of the scores.
    It helps weak maps and may harm good ones. Hubs are measured on the queries themselves, so
    that a query's result depends on the others of its batch.

    queries : (q, d), in the space of the index. index : (n, d), copied once.

    Raises
    ------
    GramianError : ``neighbours`` outside 1 to q, and what `top_k` raises.
    """
    if not 1 <= neighbours <= len(queries):
        raise GramianError(
            f"csls takes {neighbours} neighbours of {len(queries)} queries; expected 1 to "
            f"{len(queries)}"
        )
    _, near = top_k(index, queries, neighbours)
    left, right = _unit(queries), _unit(index)
    # one column more makes it a product: 2 q.x - r(x)
    left = np.concatenate([2 * left, np.full((len(left), 1), -1, np.float32)], axis=1)
    right = np.concatenate([right, near.mean(1, keepdims=True)], axis=1)
    return Ranking(*top_k(left, right, min(depth, len(right)), metric="dot"))


def hubness(found: Positions, items: int) -> float:
    """Skewness of how often each of the items is among the found ones (Radovanovic et al. 2010).

    About 0 to 1 where all are found alike; large where few are found by most queries. 0 when all
    are found equally often.
    """
    counts = np.bincount(found.reshape(-1), minlength=items).astype(np.float64)
    return 0.0 if np.ptp(counts) == 0 else float(stats.skew(counts))


def _unit(rows: Any) -> NDArray[np.float32]:
    wide = np.asarray(rows, np.float64)
    top = np.abs(wide).max(axis=1, keepdims=True)
    wide = wide / np.where(top > 0, top, 1.0)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.asarray(wide / np.where(norms > 0, norms, 1.0), np.float32)
