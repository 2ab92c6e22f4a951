"""Which family and which settings: by what the held-out pairs find, else by their squared error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gramian.bridge.mapped_rows import mapped
from gramian.bridge.paired.families import Fitting, Setting
from gramian.bridge.paired.finding import Finding, Targets
from gramian.bridge.paired.held import HeldRows
from gramian.maps import LinearMap
from gramian.moments import JointMoments, squared_error

ENOUGH = 20
"""Held-out pairs below which retrieval says nothing."""
CHOOSING = 2048
"""Held-out pairs that settings are compared on."""


@dataclass(frozen=True)
class Candidate:
    """One setting that was tried, and how it did on the fold that chooses."""

    setting: Setting
    error: float
    """Squared error per pair of ``select``; nan without such a fold."""
    finding: Finding | None
    """What the held pairs of ``select`` find; None when no rows were kept."""
    tied: bool = False
    """Whether its retrieval is within one standard error of the best."""
    chosen: bool = False

    def to_json(self) -> dict[str, Any]:
        """A flat row of the table of candidates."""
        row = asdict(self.setting) | {"error": None if math.isnan(self.error) else self.error}
        if self.finding is not None:
            row |= self.finding.to_json() | {"score": float(self.finding.scores.mean())}
        return row | {"tied": self.tied, "chosen": self.chosen}


def choose(
    settings: Sequence[Setting],
    train: JointMoments,
    select: JointMoments | None,
    held: HeldRows | None,
    *,
    intercept: bool,
) -> tuple[list[Candidate], LinearMap]:
    """Fit every setting on ``train`` and judge it on ``select``; exactly one comes out chosen, and
    its map is returned beside.

    With at least 20 held rows the settings are ranked by the mean, over pairs, of the reciprocal
    rank of the own partner and the share of its ten neighbours found. Those that lie within one
    standard error of the best (of the paired differences) count as tied, and of them the one of
    least squared error is taken. Otherwise the squared error decides alone.
    """
    fitting = Fitting(train, intercept)
    judged = held is not None and len(held) >= ENOUGH and len(settings) > 1
    targets = Targets(held.y[:CHOOSING]) if judged and held is not None else None
    candidates, maps = [], []
    for setting in settings:
        map = fitting.map(setting)
        error = math.nan if select is None else squared_error(select, map) / select.count
        finding = None
        if targets is not None and held is not None:
            finding = targets.found_by(mapped(map, held.x[:CHOOSING]))
        candidates.append(Candidate(setting, error, finding))
        maps.append(map)
    marked = _marked(candidates)
    return marked, next(map for c, map in zip(marked, maps, strict=True) if c.chosen)


def _marked(candidates: list[Candidate]) -> list[Candidate]:
    tied = [True] * len(candidates)
    scores = [c.finding.scores for c in candidates if c.finding is not None]
    if len(scores) == len(candidates):
        best = max(scores, key=lambda score: float(score.mean()))
        tied = [_within(best, score) for score in scores]
    errors = [
        c.error if t and not math.isnan(c.error) else math.inf
        for c, t in zip(candidates, tied, strict=True)
    ]
    chosen = min(range(len(candidates)), key=lambda i: (not tied[i], errors[i]))
    return [
        Candidate(c.setting, c.error, c.finding, tied[i], i == chosen)
        for i, c in enumerate(candidates)
    ]


def _within(best: np.ndarray[Any, Any], score: np.ndarray[Any, Any]) -> bool:
    gap = best - score
    return bool(gap.mean() <= gap.std(ddof=1) / math.sqrt(len(gap)))
