"""Queries and items of both models, checked against each other and against the bridge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.judging.ranking import Embed, Positions, mapped_rows
from gramian.bridge.judging.relevance import Qrels
from gramian.bridge.retrieval import METRICS
from gramian.bridge.rows import as_matrix
from gramian.bridge.vectors.ids import check_unique
from gramian.errors import GramianError

DIRECTIONS = ("query_to_old", "old_to_new")
CHECKED = 4096
"""Rows whose origin is tested."""
Rows = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Case:
    """What all systems are compared on; every array is restricted to the same items."""

    bridge: Any
    direction: str
    metric: str
    new_queries: Rows
    """(q, d_new)."""
    old_queries: Rows | None
    """(q, d_old)."""
    old_index: Rows
    """(n, d_old)."""
    new_index: Rows | None
    """(n, d_new)."""
    embed: Embed | None
    """Positions in the n items -> vectors of the new model."""
    qrels: Qrels | None
    """Of the q queries, relevant items among the n only; every query has one."""
    query_ids: tuple[str, ...]
    item_ids: tuple[str, ...]
    corpus: int
    warnings: tuple[str, ...] = ()

    @cached_property
    def bridged(self) -> tuple[Rows, Rows]:
        """Queries and index in the one space that the bridge leads to.

        Raises
        ------
        GramianError : what the bridge returned is of another width than the other side.
        """
        if self.direction == "query_to_old":
            queries, index = mapped_rows(self.bridge, self.new_queries), self.old_index
        else:
            queries, index = self.new_queries, mapped_rows(self.bridge, self.old_index)
        if queries.shape[1] != index.shape[1]:
            raise GramianError(
                f"the bridge maps {self.direction} to {queries.shape[1]} against "
                f"{index.shape[1]} dimensions; it belongs to other models, or to the other "
                "direction"
            )
        return queries, index


def prepare(
    bridge: Any,
    *,
    new_queries: Any,
    old_index: Any,
    old_queries: Any,
    new_index: Any,
    sample: Any,
    embed: Embed | None,
    qrels: Qrels | None,
    query_ids: Sequence[str] | None,
    item_ids: Sequence[str] | None,
    direction: str | None,
    metric: str,
    check: bool,
    corpus: int | None,
) -> Case:
    """Check everything, and leave out what cannot be compared; see `judge`.

    Raises
    ------
    GramianError : what `judge` raises of its input.
    """
    direction = direction or getattr(bridge, "direction", DIRECTIONS[0])
    if direction not in DIRECTIONS:
        raise GramianError(f"direction is {direction!r}, expected one of {', '.join(DIRECTIONS)}")
    if metric not in METRICS:
        raise GramianError(f"metric is {metric!r}, expected one of {', '.join(METRICS)}")
    new = as_matrix(new_queries, "new queries")
    old = as_matrix(old_index, "old index", finite=False)
    count = len(old)
    if not len(new) or not count:
        raise GramianError(f"{len(new)} queries and {count} items; expected at least one of each")
    corpus = count if corpus is None else corpus
    if corpus < count:
        raise GramianError(f"a corpus of {corpus} items, and {count} in its index")
    before = None
    if old_queries is not None:
        before = as_matrix(old_queries, "old queries", width=old.shape[1])
        if len(before) != len(new):
            raise GramianError(f"{len(before)} old and {len(new)} new queries: not the same ones")
    _source(bridge, direction, new, old, check)
    names = _names(query_ids, len(new), "queries")
    items = _names(item_ids, count, "items")
    after = None
    if new_index is not None:
        after = as_matrix(new_index, "new index", width=new.shape[1])
        places = _places(sample, len(after), count)
        if places is not None:
            old = np.asarray(old[places])
            items = tuple(items[place] for place in places)
    elif sample is not None:
        raise GramianError("a sample without the new vectors of its rows; pass new_index as well")
    case = Case(
        bridge, direction, metric, new, before, old, after, embed, None, names, items, corpus
    )
    return case if qrels is None else _judged(case, qrels)


def _source(bridge: Any, direction: str, new: Rows, old: Rows, check: bool) -> None:
    """Refuse rows that are not of the bridge's source."""
    rows, what = (new, "new queries") if direction == "query_to_old" else (old, "old index")
    width = getattr(getattr(bridge, "source", None), "dim", rows.shape[1])
    if width != rows.shape[1]:
        raise GramianError(
            f"{what} are {rows.shape[1]} wide and the bridge leads from {bridge.source} to "
            f"{bridge.target}: vectors of another model, or a bridge of the other direction"
        )
    if check and hasattr(bridge, "check_source"):
        step = max(1, len(rows) // CHECKED)
        bridge.check_source(np.asarray(rows[::step][:CHECKED])).require()


def _names(ids: Sequence[str] | None, count: int, what: str) -> tuple[str, ...]:
    names = tuple(map(str, range(count) if ids is None else ids))
    if len(names) != count:
        raise GramianError(f"{len(names)} ids of {count} {what}; expected one each")
    check_unique(names, what)
    return names


def _places(sample: Any, count: int, corpus: int) -> Positions | None:
    """Positions of the new index's rows in the old one, None when they are all in order."""
    if sample is None:
        if count != corpus:
            raise GramianError(
                f"the new index has {count} rows and the old one {corpus}; pass sample, the "
                "positions of its rows in the old index"
            )
        return None
    places = np.asarray(sample)
    if places.ndim != 1 or places.dtype.kind not in "iu" or len(places) != count:
        raise GramianError(
            f"sample is {places.dtype} {places.shape}, expected {count} whole numbers, one a row "
            "of the new index"
        )
    if len(np.unique(places)) != count or places.min() < 0 or places.max() >= corpus:
        raise GramianError(f"sample holds a position twice, or one outside 0 to {corpus - 1}")
    return places.astype(np.int64)


def _judged(case: Case, qrels: Qrels) -> Case:
    """Only the queries that have a relevant item among the items that are searched."""
    present = set(case.item_ids)
    kept, rows, lost, without = {}, [], 0, 0
    for row, query in enumerate(case.query_ids):
        grades = qrels.get(query, {})
        relevant = sum(grade > 0 for grade in grades.values())
        inside = {item: grade for item, grade in grades.items() if item in present}
        found = sum(grade > 0 for grade in inside.values())
        lost += relevant - found
        without += not found
        if found:
            kept[query] = inside
            rows.append(row)
    if not rows:
        raise GramianError(
            f"none of {len(case.query_ids)} queries has a relevant item among "
            f"{len(case.item_ids)} items; are the ids of the judgements (query "
            f"{next(iter(qrels), '')!r}) those of the queries ({case.query_ids[0]!r}) and of the "
            f"items ({case.item_ids[0]!r})?"
        )
    warnings = list(case.warnings)
    if without:
        warnings.append(f"{without} queries have no relevant item here and were left out")
    if lost:
        warnings.append(f"{lost} relevant items are not among the items and were left out")
    picked = np.asarray(rows)
    before = case.old_queries
    return replace(
        case,
        new_queries=case.new_queries[picked],
        old_queries=None if before is None else before[picked],
        query_ids=tuple(case.query_ids[row] for row in rows),
        qrels=kept,
        warnings=tuple(warnings),
    )
