"""What a system returns for every query, in one stage or in two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.retrieval import top_k
from gramian.bridge.rows import as_matrix
from gramian.errors import GramianError

Positions = NDArray[np.int64]
Embed = Callable[[Positions], Any]
"""Positions of items -> their vectors of the new model, (m, d_new)."""

BLOCK = 8192
"""Rows that are mapped together."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """The items found for every query, best first."""

    positions: Positions
    """(q, depth)."""
    scores: NDArray[np.float32]
    """(q, depth)."""


def ranked(queries: Any, index: Any, depth: int, metric: str) -> Ranking:
    """Exact search; ``depth`` is cut to the number of items."""
    return Ranking(*top_k(queries, index, min(depth, len(index)), metric=metric))


def rescored(queries: Any, found: Positions, embed: Embed, depth: int, metric: str) -> Ranking:
    """The second stage: candidates embedded with the model of the queries and ranked again.

    Every candidate is embedded once, however many queries found it. Equal scores go to the lower
    position.

    queries : (q, d_new). found : (q, c) candidates. Returns the best ``min(depth, c)``.

    Raises
    ------
    GramianError : ``embed`` returned another number of rows or another width, or NaN.
    """
    wanted = np.unique(found)
    vectors = as_matrix(embed(wanted), "re-embedded candidates", width=queries.shape[1])
    if len(vectors) != len(wanted):
        raise GramianError(f"{len(vectors)} vectors of {len(wanted)} candidates came back")
    depth = min(depth, found.shape[1])
    positions = np.empty((len(found), depth), np.int64)
    scores = np.empty((len(found), depth), np.float32)
    for row, candidates in enumerate(np.sort(found, axis=1)):
        rows = vectors[np.searchsorted(wanted, candidates)]
        best, score = top_k(queries[row : row + 1], rows, depth, metric=metric)
        positions[row], scores[row] = candidates[best[0]], score[0]
    return Ranking(positions, scores)


def pair_scores(queries: Any, index: Any, found: Positions, metric: str) -> NDArray[np.float64]:
    """Scores (q, c) of given items (q, c) for every query, as `top_k` would give them."""
    result = np.empty(found.shape, np.float64)
    for row, items in enumerate(found):
        query = np.asarray(queries[row], np.float64)
        rows = np.asarray(index[items], np.float64)
        if metric == "l2":
            result[row] = -np.square(rows - query).sum(1)
            continue
        score = rows @ query
        if metric == "cosine":
            norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
            score = np.where(norms > 0, score / np.where(norms > 0, norms, 1.0), 0.0)
        result[row] = score
    return result


def mapped_rows(bridge: Any, rows: Any) -> NDArray[Any]:
    """Rows through a bridge that is called or has ``transform``, a block at a time."""
    through = bridge.transform if hasattr(bridge, "transform") else bridge
    blocks = [
        as_matrix(through(np.asarray(rows[start : start + BLOCK])), "mapped rows")
        for start in range(0, len(rows), BLOCK)
    ]
    return np.concatenate(blocks)
