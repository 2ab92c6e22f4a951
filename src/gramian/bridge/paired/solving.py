"""From the moments of the folds to one map and the figures that speak for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gramian.bridge.mapped_rows import mapped
from gramian.bridge.paired.choosing import Candidate, choose
from gramian.bridge.paired.families import Asked, Setting, fit_setting, settings_of
from gramian.bridge.paired.finding import Finding, Targets
from gramian.bridge.paired.held import HeldRows
from gramian.errors import GramianError
from gramian.maps import LinearMap
from gramian.measures.jackknife import jackknife
from gramian.moments import JointMoments, squared_error
from gramian.solvers import Evidence
from gramian.solvers.spectrum import eigenvalues, entropy_rank

FEW = 50
"""Pairs below which none are set aside."""
CAUTIOUS = Setting("shrunk", 1.0, "scaled")
"""What is fitted when there is nothing to choose on."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A map, how it was chosen and how it does on pairs that had no part in it."""

    map: LinearMap
    evidence: Evidence
    setting: Setting
    candidates: tuple[Candidate, ...]
    r2: float
    """On ``report``; nan without it."""
    kept: HeldRows | None
    """Pairs of ``report`` that are left as rows; their figures are found when asked for."""
    reports: tuple[JointMoments, ...]
    """Disjoint parts of ``report``, for the spread when there are no rows."""

    @cached_property
    def images(self) -> NDArray[Any] | None:
        """The kept sources behind the map."""
        return None if self.kept is None else mapped(self.map, self.kept.x)

    @cached_property
    def r2_spread(self) -> float:
        """Standard error of ``r2``; nan where nothing is known of it."""
        if self.kept is not None and self.images is not None:
            return _r2_spread(self.images, self.kept.y)
        if len(self.reports) > 1:
            return jackknife(lambda part: _r2(squared_error(part, self.map), part), self.reports)[1]
        return math.nan

    @cached_property
    def cosine(self) -> float:
        """Mean cosine of mapped rows with their partners; nan without rows."""
        if self.kept is None or self.images is None:
            return math.nan
        return _cosine(self.images, self.kept.y)

    @cached_property
    def finding(self) -> Finding | None:
        """What mapped rows of ``report`` find; None without rows."""
        if self.kept is None or self.images is None:
            return None
        return Targets(self.kept.y).found_by(self.images)


def solve(
    folds: Mapping[str, JointMoments],
    held: Mapping[str, HeldRows],
    *,
    asked: Asked,
    intercept: bool,
    reports: Sequence[JointMoments] = (),
    said: Sequence[str] = (),
) -> Fit:
    """Choose on ``select``, fit on ``train + select``, judge once on ``report``.

    reports : disjoint parts of the fold report, for its spread when no rows are held.
    said : notes to begin with.
    """
    total = sum(joint.count for joint in folds.values())
    train, select, report = (folds.get(fold) for fold in ("train", "select", "report"))
    notes = list(said)
    if total < FEW or train is None or train.count < 2:
        every = list(folds.values())
        train, select, report = sum(every[1:], every[0]), None, None
        held = {}
        notes.append(f"{total:g} pairs, fewer than {FEW}: none were set aside, nothing is judged")
    if train.count < 2:
        raise GramianError("n_samples = 1: one pair fits no map; pass at least two")
    if train.count <= train.x.d:
        notes.append(
            f"{train.count:g} pairs for {train.x.d} dimensions: the map rests on its prior or "
            "ridge, more pairs will help"
        )
    if train.x.trace <= 0:
        raise GramianError("the rows of X are all equal: there is nothing to map; check the source")
    settings = list(settings_of(asked, train))
    if select is None and len(settings) > 1:
        settings = [_cautious(settings)]
        notes.append(f"no pairs to choose on; took {settings[0]}")
    rows = held.get("select")
    candidates, first = choose(settings, train, select, rows, intercept=intercept)
    chosen = next(candidate for candidate in candidates if candidate.chosen)
    if len(candidates) > 1 and chosen.finding is None:
        notes.append("chosen by squared error: no rows were kept to search among")
    data = train if select is None else train + select
    map = first if select is None else fit_setting(chosen.setting, data, intercept=intercept)
    judged = {"train": (train, first)}
    if select is not None:
        judged["select"] = (select, first)
    if report is not None:
        judged["report"] = (report, map)
    sums = {fold: squared_error(joint, by) for fold, (joint, by) in judged.items()}
    values = eigenvalues(data.x.scatter if intercept else data.x.raw()).clamp_min(0.0)
    low, high = float(values[0]), float(values[-1])
    evidence = Evidence(
        errors={fold: sums[fold] / joint.count for fold, (joint, _) in judged.items()},
        r2={fold: _r2(sums[fold], joint) for fold, (joint, _) in judged.items()},
        condition=high / low if low > len(values) * 2.3e-16 * high else math.inf,
        effective_rank=entropy_rank(values),
        regularization=(chosen.setting.lam or 0.0) * data.x.trace / data.x.d,
        relative_regularization=chosen.setting.lam or 0.0,
        rows_per_dimension=data.count / data.x.d,
        notes=tuple(notes),
    )
    kept = held.get("report")
    if report is None or kept is None or len(kept) < 2:
        kept = None
    r2 = evidence.r2.get("report", math.nan)
    parts = () if report is None else tuple(reports)
    return Fit(map, evidence, chosen.setting, tuple(candidates), r2, kept, parts)


def _r2(error: float, fold: JointMoments) -> float:
    """``1 - error / tr Syy``; nan when the target does not vary."""
    return 1.0 - error / fold.y.trace if fold.y.trace > 0 else math.nan


def _cautious(settings: list[Setting]) -> Setting:
    """The one of the settings that is safe without a fold to choose on."""
    same = [s for s in settings if (s.method, s.prior) == (CAUTIOUS.method, CAUTIOUS.prior)]
    # of others the ridge nearest to 0.1, and of equals the first
    near = 1.0 if same else 0.1
    return min(same or settings, key=lambda s: abs(math.log((s.lam or 1e-6) / near)))


def _r2_spread(images: NDArray[Any], targets: NDArray[Any]) -> float:
    """Standard error of R2 = 1 - sum e / sum v over pairs, by the delta method."""
    e = np.square(images.astype(np.float64) - targets).sum(1)
    v = np.square(targets - targets.mean(0, dtype=np.float64)).sum(1)
    if v.sum() <= 0:
        return math.nan
    ratio = e.sum() / v.sum()
    return float((e - ratio * v).std(ddof=1) / (math.sqrt(len(e)) * v.mean()))


def _cosine(images: NDArray[Any], targets: NDArray[Any]) -> float:
    a, b = torch.from_numpy(images.astype(np.float64)), torch.from_numpy(targets.astype(np.float64))
    return float(torch.nn.functional.cosine_similarity(a, b, dim=1).mean())
