"""Exact search over rows of any number, and what a mapped row finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.rows import as_matrix, check_finite
from gramian.errors import GramianError

METRICS = ("cosine", "dot", "l2")
QUERIES = 1024
"""Queries that are scored together."""

Scores = NDArray[np.float32]
Positions = NDArray[np.int64]


def top_k(
    queries: Any, index: Any, k: int, *, metric: str = "cosine", block: int = 4096
) -> tuple[Positions, Scores]:
    """The k rows of the index that are nearest to every query, best first; exact.

    Memory grows with neither side: both are read in blocks, and ``index`` may be a memory map.
    Equal scores go to the lower position. Scores are float32; the cosine with a row of zeros is 0.

    Parameters
    ----------
    queries : (q, d). index : (n, d). k : at most n.
    metric : ``"cosine"``, ``"dot"`` or ``"l2"``, whose score is minus the squared distance.
    block : rows of the index that are scored together.

    Returns
    -------
    Positions (q, k) int64 and scores (q, k) float32.

    Raises
    ------
    GramianError : unequal widths, k outside 1 to n, an unknown metric, NaN or infinity in a row.
    """
    left, right = _sides(queries, index, metric)
    if not 1 <= k <= len(right):
        raise GramianError(f"k is {k}, expected 1 to {len(right)}, the rows of the index")
    if block < 1:
        raise GramianError(f"block is {block}, expected at least 1")
    shift = _shift(right, metric)
    positions = np.empty((len(left), k), np.int64)
    scores = np.empty((len(left), k), np.float32)
    for rows in _slices(len(left), QUERIES):
        query = _Side.of(left, rows, "queries", metric, shift)
        best = np.empty((rows.stop - rows.start, 0), np.int64)
        for columns in _slices(len(right), block):
            items = _Side.of(right, columns, "index", metric, shift)
            found = _best(_score(query, items, metric), columns.start, k)
            best = _largest(np.concatenate([best, found], axis=1), k)
        best = -np.sort(-best, axis=1)
        positions[rows], scores[rows] = _unpacked(best)
    return positions, scores


def partner_ranks(mapped: Any, targets: Any, *, metric: str = "cosine") -> Positions:
    """The rank of row i of ``targets`` among all its rows for row i of ``mapped``; 0 is first.

    A target that scores the same as the partner (to the rounding of float32) counts before it
    when it lies before it, so that targets which are all alike find nothing by luck.

    mapped, targets : (n, d). Returns (n,) int64.

    Raises
    ------
    GramianError : unequal numbers of rows or widths, an unknown metric, NaN in a row.
    """
    left, right = _sides(mapped, targets, metric)
    if len(left) != len(right):
        raise GramianError(f"{len(left)} mapped rows and {len(right)} targets, expected pairs")
    shift = _shift(right, metric)
    ranks = np.zeros(len(left), np.int64)
    for rows in _slices(len(left), QUERIES):
        query = _Side.of(left, rows, "mapped rows", metric, shift)
        own = _Side.of(right, rows, "targets", metric, shift)
        mine = np.einsum("ij,ij->i", query.rows, own.rows, dtype=np.float64)
        if metric == "l2":
            mine = 2.0 * mine - query.squares - own.squares
        place = np.arange(rows.start, rows.stop)[:, None]
        for columns in _slices(len(right), 4096):
            items = _Side.of(right, columns, "targets", metric, shift)
            score = _score(query, items, metric)
            size = np.sqrt(query.squares)[:, None] * np.sqrt(items.squares)[None]
            if metric == "l2":
                size = query.squares[:, None] + items.squares[None]
            gap = score - mine[:, None].astype(np.float32)
            margin = 8 * np.finfo(np.float32).eps * size
            before = np.arange(columns.start, columns.stop)[None] < place
            ranks[rows] += ((gap > margin) | ((np.abs(gap) <= margin) & before)).sum(1)
    return ranks


def partner_recall(
    mapped: Any, targets: Any, ks: Sequence[int] = (1, 10), *, metric: str = "cosine"
) -> dict[int, float]:
    """How often row i of ``mapped`` finds row i of ``targets`` among its first k; k to share.

    Raises
    ------
    GramianError : no rows, unequal numbers of rows or widths, a k below 1.
    """
    if any(k < 1 for k in ks):
        raise GramianError(f"ks are {tuple(ks)}, expected whole numbers of at least 1")
    ranks = partner_ranks(mapped, targets, metric=metric)
    if not len(ranks):
        raise GramianError("partner recall of no rows; pass at least one pair")
    return {int(k): float((ranks < k).mean()) for k in ks}


def overlap_at_k(
    mapped: Any,
    reference_queries: Any,
    mapped_index: Any,
    reference_index: Any,
    k: int,
    *,
    metric: str = "cosine",
) -> Scores:
    """For every query, the share of the reference's first k that the mapped query finds too.

    ``|top_k(mapped in mapped_index) & top_k(reference in reference_index)| / k``; the two indexes
    hold the same items in the same order and may be of different widths.

    mapped : (q, d). reference_queries : (q, e). mapped_index : (n, d). reference_index : (n, e).
    Returns (q,) float32.

    Raises
    ------
    GramianError : unequal numbers of queries or of items, and what :func:`top_k` raises.
    """
    found, _ = top_k(mapped, mapped_index, k, metric=metric)
    sought, _ = top_k(reference_queries, reference_index, k, metric=metric)
    if len(found) != len(sought):
        raise GramianError(f"{len(found)} mapped and {len(sought)} reference queries: not the same")
    if len(mapped_index) != len(reference_index):
        raise GramianError(
            f"indexes of {len(mapped_index)} and {len(reference_index)} items, expected the same "
            "items in the same order"
        )
    return shared(found, sought)


def shared(found: Positions, sought: Positions) -> Scores:
    """Per row, the share of ``sought`` (q, k) that is in ``found`` (q, k), in any order."""
    both = np.sort(np.concatenate([found, sought], axis=1), axis=1)
    common = (both[:, 1:] == both[:, :-1]).sum(1)
    result: Scores = (common / sought.shape[1]).astype(np.float32)
    return result


@dataclass(frozen=True, eq=False)
class _Side:
    """A block of rows in float32, ready to be multiplied, and their squared norms."""

    rows: Scores
    squares: Scores

    @classmethod
    def of(cls, source: Any, part: slice, name: str, metric: str, shift: Any) -> _Side:
        raw = source[part]
        check_finite(raw, name, part.start)
        if metric == "l2":
            rows = np.subtract(raw, shift, dtype=np.float32 if raw.dtype != np.float64 else None)
            rows = np.ascontiguousarray(rows, dtype=np.float32)
        elif metric == "cosine":
            # divided by the largest entry first: squares neither overflow nor vanish
            top = np.abs(raw).max(axis=1, keepdims=True).astype(np.float64)
            rows = (raw / np.where(top > 0, top, 1.0)).astype(np.float32)
            norms = np.linalg.norm(rows, axis=1, keepdims=True)
            rows /= np.where(norms > 0, norms, 1)
        else:
            rows = np.ascontiguousarray(raw, dtype=np.float32)
        return cls(rows, np.einsum("ij,ij->i", rows, rows))


def _sides(queries: Any, index: Any, metric: str) -> tuple[Any, Any]:
    if metric not in METRICS:
        raise GramianError(f"metric is {metric!r}, expected one of {', '.join(METRICS)}")
    right = as_matrix(index, "index", finite=False)
    left = as_matrix(queries, "queries", finite=False)
    if left.shape[1] != right.shape[1]:
        raise GramianError(
            f"queries are {left.shape[1]} wide and the index {right.shape[1]}; map the queries "
            "into the space of the index first"
        )
    return left, right


def _shift(index: Any, metric: str) -> Any:
    """A point near the index: distances about it keep the digits that a large mean would take."""
    if metric != "l2":
        return None
    return np.asarray(index[:4096], np.float64).mean(0) if len(index) else np.zeros(index.shape[1])


def _score(query: _Side, items: _Side, metric: str) -> Scores:
    score = query.rows @ items.rows.T
    if metric == "l2":  # -|q - x|^2 = 2 q.x - |q|^2 - |x|^2
        score *= 2
        score -= query.squares[:, None]
        score -= items.squares[None]
        np.minimum(score, 0, out=score)
    return score


# A score and a position in one int64: the bits of a float32 in their order above, the position,
# negated so that the lower one is larger, below. Then partition and sort break ties by themselves.


def _keys(scores: Scores, positions: Positions) -> Positions:
    bits = (scores + np.float32(0)).view(np.int32).astype(np.int64)
    bits = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    keys: Positions = (bits << 32) | (0xFFFFFFFF - positions)
    return keys


def _best(scores: Scores, start: int, k: int) -> Positions:
    """Keys of the k largest scores of every row, in any order; ``start`` is column 0."""
    every = np.arange(start, start + scores.shape[1], dtype=np.int64)
    if scores.shape[1] <= k:
        return _keys(scores, every)
    least = np.partition(scores, -k, axis=1)[:, -k]
    reach = scores >= least[:, None]
    # exactly k reach the k-th score unless some are equal to it: only those rows need all keys
    plain = np.count_nonzero(reach, axis=1) == k
    best = np.empty((len(scores), k), np.int64)
    reach[~plain] = False
    rows, columns = np.nonzero(reach)
    best[plain] = _keys(scores[rows, columns], every[columns]).reshape(-1, k)
    best[~plain] = _largest(_keys(scores[~plain], every), k)
    return best


def _unpacked(keys: Positions) -> tuple[Positions, Scores]:
    bits, positions = keys >> 32, 0xFFFFFFFF - (keys & 0xFFFFFFFF)
    bits = np.where(bits < 0, -bits | 0x80000000, bits)
    return positions, bits.astype(np.uint32).view(np.float32)


def _largest(keys: Positions, k: int) -> Positions:
    if keys.shape[1] <= k:
        return keys
    return np.partition(keys, keys.shape[1] - k, axis=1)[:, -k:]


def _slices(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
