"""From two sources of vectors to a bridge in a folder: what ``gramian bridge fit`` does."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.drift import Drift, IndexShards, drift
from gramian.bridge.paired import Bridge
from gramian.bridge.pairing import Pairs
from gramian.bridge.saved import SavedBridge, Space
from gramian.bridge.vectors import VectorSource
from gramian.errors import GramianError
from gramian.moments import JointMoments

BATCH = 8192
FEW = 2.0
"""Pairs per dimension below which a warning is given."""
GOOD_R2 = 0.5


@dataclass(frozen=True)
class Built:
    """A bridge and what a person should know of it."""

    bridge: SavedBridge
    estimator: Bridge
    warnings: tuple[str, ...]
    drift: Drift | None

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
    index: VectorSource | None = None,
    keep_moments: bool = True,
    progress: Callable[[int, int | None], None] = lambda done, total: None,
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
    index : vectors that the bridge is to be used with, on the old side; the pairs are compared
        with them.

    Raises
    ------
    GramianError : an unknown direction, no common ids, vectors that cannot be fitted.
    """
    if direction not in ("query_to_old", "old_to_new"):
        raise GramianError(f"direction is {direction!r}, expected query_to_old or old_to_new")
    started = time.perf_counter()
    source, target = (new, old) if direction == "query_to_old" else (old, new)
    pairs = Pairs.of(source, target, limit=limit)
    found = estimator or Bridge()
    lengths = (Lengths(), Lengths())
    if found.trim:
        ids, x, y = pairs.read()
        found.set_params(normalise=_unit(lengths, x, y)[1])
        found.fit(x, y, ids)
    else:
        done = 0
        for ids, x, y in pairs.batches(BATCH):
            found.set_params(normalise=_unit(lengths, x, y)[1])
            found.partial_fit(x, y, ids)
            done += len(ids)
            progress(done, pairs.count)
    spaces = tuple(
        space_of(side, length.unit) for side, length in zip((source, target), lengths, strict=True)
    )
    folds = found.folds_
    compared = None if index is None else _drift(folds, index, direction, progress)
    warnings = _warnings(found, pairs, lengths, compared)
    report = {
        "method": found.method_,
        "direction": direction,
        "pairs": pairs.count,
        "dim_from": spaces[0].dim,
        "dim_to": spaces[1].dim,
        "r2_report": _number(found.r2_report_),
        "r2_spread": _number(found.r2_spread_),
        "cosine_report": _number(found.cosine_report_),
        "bound": None if found.bound_ is None else found.bound_.to_json(),
        "retrieval_report": found.retrieval_report_,
        "lam": found.lam_,
        "candidates": found.candidates_,
        "dropped": {"source": pairs.dropped[0], "target": pairs.dropped[1]},
        "drift": None if compared is None else compared.to_json(),
        "suspects": None if found.suspects_ is None else len(found.suspects_),
        "warnings": warnings,
        "seconds": time.perf_counter() - started,
    }
    bridge = SavedBridge(
        found.map_,
        spaces[0],
        spaces[1],
        direction,
        found.method_,
        pairs.count,
        normalise=bool(found.normalise),
        report=_finite(report),
        folds=folds if keep_moments else {},
    )
    return Built(bridge, found, tuple(warnings), compared)


class Lengths:
    """Whether all rows of a side have length 1."""

    def __init__(self) -> None:
        self.rows, self.off = 0, 0
        self.shortest, self.longest = math.inf, 0.0

    def update(self, rows: NDArray[np.float32]) -> None:
        """Look at some rows."""
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        self.rows += len(norms)
        self.off += int((np.abs(norms - 1.0) > 2e-3).sum())
        self.shortest = min(self.shortest, float(norms.min(initial=math.inf)))
        self.longest = max(self.longest, float(norms.max(initial=0.0)))

    @property
    def unit(self) -> bool:
        """All lengths are 1, to half precision."""
        return self.rows > 0 and self.off == 0


def space_of(source: VectorSource, unit_norm: bool) -> Space:
    """What is known of the space of a source."""
    stamp = source.stamp
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


def _unit(
    lengths: tuple[Lengths, Lengths], x: NDArray[np.float32], y: NDArray[np.float32]
) -> tuple[bool, bool]:
    lengths[0].update(x)
    lengths[1].update(y)
    return lengths[0].unit, lengths[1].unit


def _drift(
    folds: dict[str, JointMoments],
    index: VectorSource,
    direction: str,
    progress: Callable[[int, int | None], None],
) -> Drift | None:
    joint = sum(list(folds.values())[1:], next(iter(folds.values())))
    sample = joint.y if direction == "query_to_old" else joint.x
    if sample.d != index.dim:
        raise GramianError(
            f"the index {index.address} has vectors of {index.dim}, the old side of the pairs "
            f"of {sample.d}"
        )
    shards = IndexShards()
    done = 0
    for batch in index.batches(BATCH):
        shards.update(batch.ids, batch.vectors)
        done += len(batch)
        progress(done, index.count)
    found = shards.full()
    return drift(sample, found) if len(found) >= 3 and not sample.is_diagonal else None


def _warnings(
    found: Bridge, pairs: Pairs, lengths: tuple[Lengths, Lengths], compared: Drift | None
) -> list[str]:
    said = []
    per_dimension = pairs.count / found.n_features_in_
    if per_dimension < FEW:
        said.append(
            f"{pairs.count:,} pairs for {found.n_features_in_} dimensions; at least "
            f"{int(FEW * found.n_features_in_):,} are better, some 4,000 usually enough"
        )
    if any(pairs.dropped):
        said.append(
            f"{pairs.dropped[0]:,} rows of {pairs.source.address} and {pairs.dropped[1]:,} of "
            f"{pairs.target.address} have no partner and were left out"
        )
    if compared is not None and compared.drifted:
        said.append(
            f"{compared}: sample the pairs from the index itself, which matters more than the "
            "method"
        )
    one, other = lengths
    if one.unit != other.unit:
        unit, free = ("target", one) if other.unit else ("source", other)
        said.append(
            f"only the {unit} has rows of length 1 (the others from {free.shortest:.3g} to "
            f"{free.longest:.3g}): a store may have normalised them"
        )
    recall = found.retrieval_report_.get("recall@1")
    if recall is not None and recall < GOOD_R2:
        said.append(
            f"a mapped row finds its own partner first in {recall:.0%} of cases: judge the bridge "
            "on queries before relying on it alone"
        )
    return said


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _finite(value: Any) -> Any:
    """The same with None for what JSON cannot hold."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    return _number(value) if isinstance(value, float) else value
