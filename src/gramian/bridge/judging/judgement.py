"""What a judgement of a bridge says, as records and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gramian.bridge.judging.bootstrap import Interval
from gramian.bridge.judging.shift import ScoreShift
from gramian.bridge.judging.verdict import Verdict

SYSTEMS = ("old", "swap", "bridge", "two_stage", "reindex")
MEASURES = ("recall", "ndcg", "mrr", "overlap")


@dataclass(frozen=True)
class Figures:
    """One system: means over the queries with 95 % intervals; None where nothing measures it."""

    recall: Interval | None = None
    """Share of the relevant items among the first k."""
    ndcg: Interval | None = None
    """nDCG@10, the gain of an item being its grade."""
    mrr: Interval | None = None
    """Reciprocal rank of the first relevant item among the first max(k, 10); 0 beyond."""
    overlap: Interval | None = None
    """Share of the new model's own first k that are among the first k."""

    def to_json(self) -> dict[str, Any]:
        """All four, null where not measured."""
        found = {name: getattr(self, name) for name in MEASURES}
        return {name: None if one is None else one.to_json() for name, one in found.items()}


@dataclass(frozen=True, eq=False)
class Judgement:
    """The systems on the same queries and items, and what to do."""

    k: int
    measure: str
    """What the verdict rests on: ``ndcg`` with judgements, else ``overlap``; never both."""
    queries: int
    items: int
    """Items that were searched, by every system."""
    corpus: int
    """Items of the whole index."""
    candidates: int
    """Of the first of two stages."""
    direction: str
    metric: str
    margin: float
    retain: float
    systems: Mapping[str, Figures | None]
    """old, swap, bridge, two_stage, reindex; None: it could not be measured."""
    decision: Verdict
    hubness: Mapping[str, float]
    """System -> skewness of how often items are found."""
    csls: Figures | None = None
    """The bridge with hubs taken back, where that was asked for."""
    shift: ScoreShift | None = None
    """None without queries of the old model."""
    warnings: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """keep_old, bridge, two_stage or reindex."""
        return self.decision.verdict

    @property
    def reason(self) -> str:
        """Why, in a sentence with figures."""
        return self.decision.reason

    def to_json(self) -> dict[str, Any]:
        """Every figure as JSON values."""
        figures = {
            name: None if one is None else one.to_json() for name, one in self.systems.items()
        }
        gains = {name: gain.to_json() for name, gain in self.decision.gains.items()}
        return {
            "k": self.k,
            "measure": self.measure,
            "queries": self.queries,
            "items": self.items,
            "corpus": self.corpus,
            "candidates": self.candidates,
            "direction": self.direction,
            "metric": self.metric,
            **figures,
            "verdict": self.verdict,
            "reason": self.reason,
            "margin": self.margin,
            "retain": self.retain,
            "gains": gains,
            "retained": dict(self.decision.retained),
            "csls": None if self.csls is None else self.csls.to_json(),
            "hubness": dict(self.hubness),
            "score_shift": None if self.shift is None else self.shift.to_json(),
            "warnings": list(self.warnings),
        }
