"""Which items are recommended, and how good such a list is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.errors import GramianError

Array = NDArray[np.float64]
BATCH = 1024
"""Users that are scored together."""


def best_items(
    scores: Array, seen: Any, k: int, *, filter_seen: bool = True
) -> tuple[NDArray[np.int64], Array]:
    """The k items of highest score (users, k), best first, equal scores to the lower item.

    Of a user with fewer than k unseen items the rest is -1, with score ``-inf``.
    """
    if filter_seen:
        scores = scores.copy()
        scores[seen.nonzero()] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k].astype(np.int64)
    found = np.take_along_axis(scores, order, axis=1)
    order[np.isneginf(found)] = -1
    return order, found


def hidden_part(matrix: Any, share: float, generator: np.random.Generator) -> tuple[Any, Any]:
    """Every user's items in two: those that are shown and those that are to be found.

    Users with fewer than two items are left out.
    """
    chosen = matrix[np.flatnonzero(np.diff(matrix.indptr) >= 2)]
    shown, hidden = chosen.copy(), chosen.copy()
    for user in range(chosen.shape[0]):
        start, stop = chosen.indptr[user], chosen.indptr[user + 1]
        size = stop - start
        take = min(max(1, round(share * size)), size - 1)
        out = start + generator.choice(size, take, replace=False)
        keep = np.ones(size, bool)
        keep[out - start] = False
        shown.data[out] = 0.0
        hidden.data[start:stop][keep] = 0.0
    shown.eliminate_zeros()
    hidden.eliminate_zeros()
    return shown, hidden


def list_quality(items: NDArray[np.int64], hidden: Any, k: int) -> dict[str, float]:
    """Mean nDCG@k and recall@k of recommended items (users, >= k) against hidden ones.

    nDCG is against the best list there could be; recall is over ``min(k, hidden items)``.
    """
    if hidden.shape[0] == 0:
        raise GramianError("no user has two items or more: nothing to hide and find again")
    discount = 1.0 / np.log2(np.arange(2, k + 2))
    ideal = np.concatenate([[0.0], np.cumsum(discount)])
    ndcg, recall = [], []
    for user in range(hidden.shape[0]):
        truth = hidden.indices[hidden.indptr[user] : hidden.indptr[user + 1]]
        hits = np.isin(items[user, :k], truth)
        most = min(k, len(truth))
        ndcg.append(float(hits @ discount[: len(hits)]) / ideal[most])
        recall.append(float(hits.sum()) / most)
    return {"ndcg": float(np.mean(ndcg)), "recall": float(np.mean(recall))}


def batches(matrix: Any) -> Iterator[Any]:
    """Users in pieces, so that scores of all items never lie in memory together."""
    for start in range(0, matrix.shape[0], BATCH):
        yield matrix[start : start + BATCH]
