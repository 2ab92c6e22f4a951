"""Judge a bridge: the same queries, the same items, five systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.judging.bootstrap import Bootstrap
from gramian.bridge.judging.case import Case, prepare
from gramian.bridge.judging.hubs import csls as search_csls
from gramian.bridge.judging.hubs import hubness
from gramian.bridge.judging.judgement import MEASURES, SYSTEMS, Figures, Judgement
from gramian.bridge.judging.metrics import NDCG, judged_values
from gramian.bridge.judging.ranking import Embed, Ranking, pair_scores, ranked, rescored
from gramian.bridge.judging.relevance import Qrels
from gramian.bridge.judging.shift import ScoreShift, score_shift
from gramian.bridge.judging.verdict import decide
from gramian.bridge.retrieval import shared
from gramian.errors import GramianError

Values = dict[tuple[str, str], NDArray[np.float64]]
FLATTERED = 0.1
"""Candidates beyond this share of the items make the first stage easier than in service."""


def judge(
    bridge: Any,
    *,
    new_queries: Any,
    old_index: Any,
    old_queries: Any = None,
    new_index: Any = None,
    sample: Any = None,
    embed: Embed | None = None,
    qrels: Qrels | None = None,
    query_ids: Sequence[str] | None = None,
    item_ids: Sequence[str] | None = None,
    direction: str | None = None,
    metric: str = "cosine",
    k: int = 10,
    candidates: int = 200,
    bootstrap: int = 1000,
    margin: float = 0.01,
    retain: float = 0.9,
    csls: int = 0,
    check: bool = True,
    corpus: int | None = None,
    seed: int = 0,
) -> Judgement:
    """Is a bridge good enough, or should the old model be kept, or everything re-embedded?

    Five systems answer the same queries from the same items: ``old`` (old queries, old index),
    ``swap`` (new queries in the old index as it is; only where the widths agree), ``bridge``,
    ``two_stage`` (the bridge finds ``candidates``, which are re-embedded and ranked by the new
    model) and ``reindex`` (new queries, new index). With ``qrels`` they are measured by recall@k,
    nDCG@10 and the reciprocal rank, and the verdict rests on nDCG@10. Without, it rests on
    overlap@k with what the new model finds by itself, which says how near a system is to the new
    model, not that the new model is better. The rule is in
    `gramian.bridge.judging.verdict.decide`.

    Parameters
    ----------
    bridge : a `SavedBridge`, a fitted `Bridge`, or a function (n, d_in) -> (n, d_out).
    new_queries : (q, d_new). old_queries : (q, d_old), in the same order.
    old_index : (n, d_old), may be a memory map.
    new_index : (n, d_new), or (m, d_new) with ``sample``, the m positions of its rows in the old
        index. With a sample every system searches these m items only.
    embed : positions (j,) in the old index -> vectors (j, d_new); gives the second stage without
        a new index. Not used when there is one.
    qrels : query id -> item id -> grade; ids are those of ``query_ids`` and ``item_ids`` (default:
        the row numbers as text). Queries without a relevant item are left out, with a warning.
    direction : ``query_to_old`` (default, or what the bridge says) or ``old_to_new``, which maps
        the index in memory.
    metric : ``cosine``, ``dot`` or ``l2``, for all systems.
    margin, retain : see `decide`. bootstrap : resamples of the queries.
    csls : neighbours; when above 0 the bridge is also searched by CSLS (cosine only).
    check : refuse rows that do not look like the source of the bridge.
    corpus : items of the whole index, where ``old_index`` is a sample of it already.

    Raises
    ------
    GramianError : unequal numbers or widths, NaN in a row, duplicate ids, k above the number of
        items, neither judgements nor a new index, judgements of other ids, rows of another model
        or of the wrong side of the bridge.
    """
    case = prepare(
        bridge,
        new_queries=new_queries,
        old_index=old_index,
        old_queries=old_queries,
        new_index=new_index,
        sample=sample,
        embed=embed,
        qrels=qrels,
        query_ids=query_ids,
        item_ids=item_ids,
        direction=direction,
        metric=metric,
        check=check,
        corpus=corpus,
    )
    items = len(case.old_index)
    if not 1 <= k <= items:
        raise GramianError(f"k is {k}, expected 1 to {items}, the number of items")
    if candidates < k:
        raise GramianError(f"candidates is {candidates}, expected at least k = {k}")
    if case.qrels is None and case.new_index is None:
        raise GramianError(
            "neither judgements nor vectors of the new model to compare with; pass qrels, or "
            "new_index with a sample of the corpus re-embedded"
        )
    if csls and metric != "cosine":
        raise GramianError(f"csls is defined for the cosine, not for {metric}; leave it out")
    depth = min(max(k, NDCG), items)
    found, corrected = _rankings(case, depth, min(candidates, items), csls)
    rankings = found if corrected is None else {**found, "csls": corrected}
    values = _values(case, rankings, k)
    drawn = Bootstrap(values, draws=bootstrap, seed=seed)
    figures = {name: _figures(drawn, values, name) for name in rankings}
    measure = "overlap" if case.qrels is None else "ndcg"
    title = f"overlap@{k}" if case.qrels is None else f"nDCG@{NDCG}"
    decision = decide(drawn, tuple(found), measure, title=title, margin=margin, retain=retain)
    return Judgement(
        k=k,
        measure=measure,
        queries=len(case.new_queries),
        items=items,
        corpus=case.corpus,
        candidates=min(candidates, items),
        direction=case.direction,
        metric=metric,
        margin=margin,
        retain=retain,
        systems={name: figures.get(name) for name in SYSTEMS},
        decision=decision,
        hubness={name: hubness(one.positions[:, :k], items) for name, one in rankings.items()},
        csls=figures.get("csls"),
        shift=_shift(case, found, k, seed),
        warnings=(*case.warnings, *_warnings(case, found, candidates, bootstrap)),
    )


def _rankings(
    case: Case, depth: int, candidates: int, neighbours: int
) -> tuple[dict[str, Ranking], Ranking | None]:
    """What every system that can be run finds, and what the bridge finds by CSLS."""
    found: dict[str, Ranking] = {}
    new, old, metric = case.new_queries, case.old_index, case.metric
    if case.old_queries is not None:
        found["old"] = ranked(case.old_queries, old, depth, metric)
    if new.shape[1] == old.shape[1]:
        found["swap"] = ranked(new, old, depth, metric)
    queries, index = case.bridged
    first = ranked(queries, index, max(depth, candidates), metric)
    found["bridge"] = Ranking(first.positions[:, :depth], first.scores[:, :depth])
    embed = case.embed if case.new_index is None else case.new_index.__getitem__
    if embed is not None:
        found["two_stage"] = rescored(new, first.positions[:, :candidates], embed, depth, metric)
    if case.new_index is not None:
        found["reindex"] = ranked(new, case.new_index, depth, metric)
    corrected = search_csls(queries, index, depth, neighbours=neighbours) if neighbours else None
    return found, corrected


def _values(case: Case, rankings: dict[str, Ranking], k: int) -> Values:
    values: Values = {}
    reference = rankings.get("reindex")
    for name, one in rankings.items():
        if case.qrels is not None:
            judged = judged_values(one.positions, case.qrels, case.query_ids, case.item_ids, k)
            values |= {(name, measure): column for measure, column in judged.items()}
        if reference is not None:
            common = shared(one.positions[:, :k], reference.positions[:, :k])
            values[name, "overlap"] = common.astype(np.float64)
    return values


def _figures(drawn: Bootstrap, values: Values, system: str) -> Figures:
    return Figures(
        **{
            measure: drawn.mean((system, measure))
            for measure in MEASURES
            if (system, measure) in values
        }
    )


def _shift(case: Case, found: dict[str, Ranking], k: int, seed: int) -> ScoreShift | None:
    """Scores that old and bridge return, and both scores of the items that either found."""
    if case.old_queries is None:
        return None
    queries, index = case.bridged
    both = [found[name].positions[:, :k] for name in ("old", "bridge")]
    union = np.concatenate(both, axis=1)
    pairs = (
        pair_scores(queries, index, union, case.metric),
        pair_scores(case.old_queries, case.old_index, union, case.metric),
    )
    old, bridge = (found[name].scores[:, :k] for name in ("old", "bridge"))
    return score_shift(old, bridge, pairs, seed=seed)


def _warnings(case: Case, found: dict[str, Ranking], candidates: int, draws: int) -> list[str]:
    items = len(case.old_index)
    warnings = []
    if items < case.corpus:
        warnings.append(
            f"every system searched a sample of {items} of {case.corpus} items: figures are higher "
            "than on the whole index, their order is what counts"
        )
    if "two_stage" in found and candidates > FLATTERED * items:
        warnings.append(
            f"{min(candidates, items)} candidates of {items} items flatter two stages; pass a "
            "larger sample or fewer candidates"
        )
    if "old" not in found:
        warnings.append("no queries of the old model: keeping it could not be compared")
    if case.qrels is None:
        warnings.append(
            "no judgements: overlap says how near a system is to the new model, not whether the "
            "new model is better than the old one"
        )
    if draws < 200:
        warnings.append(f"intervals from {draws} resamples are rough; take 1000")
    return warnings
