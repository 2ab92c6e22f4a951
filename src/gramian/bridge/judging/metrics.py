"""One number per query: recall, nDCG and reciprocal rank against judgements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.judging.ranking import Positions
from gramian.bridge.judging.relevance import Qrels
from gramian.errors import GramianError

NDCG = 10
"""Depth of nDCG."""
Values = NDArray[np.float64]


def judged_values(
    found: Positions, qrels: Qrels, queries: Sequence[str], items: Sequence[str], k: int
) -> dict[str, Values]:
    """recall@k, nDCG@10 (gain = grade) and the reciprocal rank in what was found, (q,) each.

    found : (q, depth) positions in ``items``, best first. Every query must have a relevant item.

    Raises
    ------
    GramianError : ``ir-measures`` is not installed.
    """
    measures = _measures()
    depth = found.shape[1]
    wanted = {
        "recall": measures.R @ k,
        "ndcg": measures.nDCG @ NDCG,
        "mrr": measures.RR @ depth,
    }
    # readers of runs sort by score and break ties by id: a score per rank has none
    run = {
        query: {items[position]: -float(rank) for rank, position in enumerate(row)}
        for query, row in zip(queries, found, strict=True)
    }
    # a grade below 0 marks spam in some tracks: not relevant, no negative gain
    grades = {
        query: {item: max(int(grade), 0) for item, grade in qrels[query].items()}
        for query in queries
    }
    names = {str(measure): name for name, measure in wanted.items()}
    place = {query: row for row, query in enumerate(queries)}
    values = {name: np.zeros(len(queries)) for name in wanted}
    for metric in measures.iter_calc(list(wanted.values()), grades, run):
        values[names[str(metric.measure)]][place[metric.query_id]] = metric.value
    return values


def _measures() -> Any:
    try:
        import ir_measures
    except ImportError as error:
        raise GramianError(
            "judgements need the package ir-measures: pip install 'gramian[bridge]'"
        ) from error
    return ir_measures
