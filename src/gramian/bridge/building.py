"""From two sources of vectors to a bridge in a folder: what ``gramian bridge fit`` does."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.bridge import cautions
from gramian.bridge.cautions import Lengths
from gramian.bridge.drift import Drift, IndexShards, drift
from gramian.bridge.paired import Bridge, learning_curve
from gramian.bridge.pairing import Pairs, recorded_weights
from gramian.bridge.saved import SavedBridge, Space
from gramian.bridge.texts import EmbeddedTexts
from gramian.bridge.vectors import VectorSource
from gramian.errors import GramianError
from gramian.moments import JointMoments, Shares

BATCH = 8192
QUERY_SHARES = Shares(0.5, 0.25, 0.25)
"""Folds of pairs of queries, of which there are few, and which alone choose and judge."""
Sides = tuple[VectorSource, VectorSource]
Known = tuple[Mapping[str, str], Mapping[str, str]]
"""What is stated of the old and of the new vectors."""
Rows = tuple[list[str], NDArray[np.float32], NDArray[np.float32]]
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class Built:
    """A bridge and what a person should know of it."""

    bridge: SavedBridge
    warnings: tuple[str, ...]
    estimator: Bridge | None = None
    drift: Drift | None = None

    def to_json(self) -> dict[str, Any]:
        """The document of ``gramian bridge fit --json``."""
        return dict(self.bridge.report)


def build(
    old: VectorSource,
    new: VectorSource,
    *,
    direction: str = "query_to_old",
    estimator: Bridge | None = None,
    limit: int | None = None,
    queries: Sides | None = None,
    index: VectorSource | None = None,
    known: Known = ({}, {}),
    curve: bool = False,
    keep_moments: bool = True,
    progress: Progress = lambda done, total: None,
) -> Built:
    """Fit a bridge on the vectors that two models gave the same items.

    Parameters
    ----------
    old, new : vectors of the two models, brought together by id.
    direction : ``query_to_old`` maps new vectors into the old space, ``old_to_new`` old ones into
        the new.
    estimator : a `Bridge` that is not fitted, for its settings; rows of the target of length 1
        make mapped rows so too.
    limit : use no more pairs than this.
    queries : old and new vectors of queries: half of them are fitted on beside the other pairs,
        the rest alone chooses and judges.
    index : vectors that the bridge is to be used with, on the old side; the pairs are compared
        with them. None: the old side itself, where the pairs are but a part of it.
    known : of the old and of the new vectors, what they do not say themselves: ``model``,
        ``revision``, ``prefix``.
    curve : also fit on fewer pairs (`learning_curve`); all of them are then held in memory.

    Weights of ``gramian bridge sample --strategy telling`` are used where the old side has them.

    Raises
    ------
    GramianError : an unknown direction, no common ids, vectors that cannot be fitted, or settings
        that do not go together.
    """
    if direction not in ("query_to_old", "old_to_new"):
        raise GramianError(f"direction is {direction!r}, expected query_to_old or old_to_new")
    started = time.perf_counter()
    found = estimator or Bridge()
    found.asked()
    forward = direction == "query_to_old"
    pairs = _pairs((old, new), forward, limit, progress)
    asked = None if queries is None else _pairs(queries, forward, None, progress)
    weights = recorded_weights(old) or recorded_weights(new)
    if (found.trim or curve) and (asked is not None or weights is not None):
        raise GramianError(
            "trim and curve take all pairs alike: leave out the pairs of queries, and draw the "
            "sample at random"
        )
    if found.trim and curve:
        raise GramianError("trim and curve each read the pairs in their own way; give one")
    whole = pairs.read() if found.trim or curve else None
    lengths = _fitted(found, pairs, asked, weights, whole, progress)
    stated = known[::-1] if forward else known
    spaces = [
        space_of(side, length.unit, one)
        for side, length, one in zip((pairs.source, pairs.target), lengths, stated, strict=True)
    ]
    folds = found.folds_
    if index is None and _is_part(pairs, old, forward):
        index = old
    compared = None if index is None else _drift(folds, index, forward, progress)
    sides = [pairs.source, pairs.target, *(() if asked is None else (asked.source, asked.target))]
    warnings = [
        *disagreements((old, new), known),
        *cautions.of_pairs(pairs, lengths),
        *cautions.of_texts(sides),
        *cautions.of_fit(found, compared, asked),
    ]
    report = {
        "method": found.method_,
        "direction": direction,
        "pairs": pairs.count,
        "query_pairs": None if asked is None else asked.count,
        "judged_on": "pairs" if asked is None else "queries",
        "dim_from": spaces[0].dim,
        "dim_to": spaces[1].dim,
        "r2_report": found.r2_report_,
        "r2_spread": found.r2_spread_,
        "cosine_report": found.cosine_report_,
        "bound": None if found.bound_ is None else found.bound_.to_json(),
        "retrieval_report": found.retrieval_report_,
        "lam": found.lam_,
        "candidates": found.candidates_,
        "weighted": weights is not None,
        "dropped": {"source": pairs.dropped[0], "target": pairs.dropped[1]},
        "drift": None if compared is None else compared.to_json(),
        "suspects": None if found.suspects_ is None else len(found.suspects_),
        "warnings": warnings,
        **({"curve": _curve(found, whole)} if curve and whole is not None else {}),
        "seconds": time.perf_counter() - started,
    }
    bridge = SavedBridge(
        found.map_,
        spaces[0],
        spaces[1],
        direction,
        found.method_,
        pairs.count + (0 if asked is None else asked.count),
        normalise=bool(found.normalise),
        report=finite(report),
        folds=folds if keep_moments else {},
    )
    return Built(bridge, tuple(warnings), found, compared)


def space_of(source: VectorSource, unit_norm: bool, known: Mapping[str, str]) -> Space:
    """What is known of the space of a source, from itself and else from what is stated."""
    stamp = {**known, **{key: value for key, value in source.stamp.items() if value}}
    return Space(
        source.address,
        source.dim,
        stamp.get("model"),
        stamp.get("revision"),
        stamp.get("fingerprint"),
        stamp.get("prefix", ""),
        unit_norm,
        source.dtype,
    )


def _pairs(sides: Sides, forward: bool, limit: int | None, progress: Progress) -> Pairs:
    source, target = sides[::-1] if forward else sides
    pairs = Pairs.of(source, target, limit=limit)
    for side in (pairs.source, pairs.target):
        if isinstance(side, EmbeddedTexts):
            side.progress = progress
    return pairs


def _fitted(
    found: Bridge,
    pairs: Pairs,
    queries: Pairs | None,
    weights: Mapping[str, float] | None,
    whole: Rows | None,
    progress: Progress,
) -> tuple[Lengths, Lengths]:
    """Fit the estimator; the lengths of the rows on both sides."""
    lengths = (Lengths(), Lengths())
    if found.trim and whole is not None:
        ids, x, y = whole
        _look(lengths, x, y)
        found.set_params(normalise=lengths[1].unit).fit(x, y, ids)
        return lengths
    if queries is not None:
        if (queries.source.dim, queries.target.dim) != (pairs.source.dim, pairs.target.dim):
            raise GramianError(
                f"pairs of queries lead from {queries.source.dim} to {queries.target.dim}, the "
                f"others from {pairs.source.dim} to {pairs.target.dim}"
            )
        if found.shares is None:
            found.set_params(shares=QUERY_SHARES)
    done = 0
    for ids, x, y in pairs.batches(BATCH) if whole is None else [whole]:
        _look(lengths, x, y)
        weight = None if weights is None else [weights[id] for id in ids]
        fold = None if queries is None else "train"
        found.partial_fit(x, y, ids, sample_weight=weight, fold=fold)
        done += len(ids)
        progress(done, pairs.count)
    for ids, x, y in () if queries is None else queries.batches(BATCH):
        _look(lengths, x, y)
        found.partial_fit(x, y, ids)
    found.set_params(normalise=lengths[1].unit)
    return lengths


def _curve(found: Bridge, whole: Rows) -> dict[str, Any]:
    ids, x, y = whole
    settings = {key: value for key, value in found.get_params().items() if key != "trim"}
    return learning_curve(x, y, ids, **settings).to_json()


def _look(lengths: tuple[Lengths, Lengths], x: Any, y: Any) -> None:
    lengths[0].update(x)
    lengths[1].update(y)


def _is_part(pairs: Pairs, old: VectorSource, forward: bool) -> bool:
    """Whether the old side has vectors, and more of them than pairs."""
    if isinstance(old, EmbeddedTexts):
        return False
    return pairs.unused > 0 or pairs.dropped[1 if forward else 0] > 0


def _drift(
    folds: Mapping[str, JointMoments], index: VectorSource, forward: bool, progress: Progress
) -> Drift | None:
    every = list(folds.values())
    joint = sum(every[1:], every[0])
    sample = joint.y if forward else joint.x
    if sample.d != index.dim:
        raise GramianError(
            f"the index {index.address} has vectors of {index.dim}, the old side of the pairs "
            f"of {sample.d}"
        )
    shards = IndexShards(index.count, int(sample.count))
    done = 0
    for batch in index.batches(BATCH):
        shards.update(batch.ids, batch.vectors)
        done += len(batch)
        progress(done, index.count)
    found = shards.full()
    enough = len(found) >= 3 and not sample.is_diagonal
    return drift(sample, found, shards.rest) if enough else None


def disagreements(sides: Sides, known: Known) -> list[str]:
    """Where vectors say otherwise than a person does."""
    return [
        f"{side.address} says its {key} is {side.stamp[key]!r}, which was kept instead of {value!r}"
        for side, stated in zip(sides, known, strict=True)
        for key, value in stated.items()
        if side.stamp.get(key, value) not in ("", value)
    ]


def finite(value: Any) -> Any:
    """The same with None for what JSON cannot hold."""
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
