"""How many pairs are enough: fits on nested subsets, judged on the same pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gramian.bridge.paired.assignment import check_ids, second_places_of
from gramian.bridge.paired.estimator import Bridge
from gramian.bridge.paired.fold_moments import plain
from gramian.bridge.paired.incoming import pairs_of
from gramian.bridge.paired.solving import FEW, Fit, solve
from gramian.bridge.paired.stream import PAIR
from gramian.errors import GramianError
from gramian.moments import FOLDS, JointMoments

SMALLEST = 20
"""Pairs of the smallest subset that may be asked for."""
HALVINGS = 6


@dataclass(frozen=True)
class LearningCurve:
    """What a bridge fitted on more and more of the pairs finds."""

    records: tuple[dict[str, Any], ...]
    """By size: ``pairs`` it was fitted on, ``method``, ``r2_report`` with its ``r2_spread``, and
    with held rows ``score``, ``recall@1``, ``recall@10``, ``mrr`` and ``overlap@10``."""
    enough: int | None
    """The least number of pairs within one standard error of all of them, by the score of
    retrieval or else by R2; the largest size when even that still gained."""
    note: str

    def to_json(self) -> dict[str, Any]:
        """Every field."""
        return {"records": list(self.records), "enough": self.enough, "note": self.note}


def learning_curve(
    X: Any,
    Y: Any,
    ids: Any = None,
    sizes: Sequence[int] | None = None,
    method: str = "auto",
    **settings: Any,
) -> LearningCurve:
    """Fit on growing subsets of the pairs and judge each on the same pairs; one pass over rows.

    Subsets are drawn by a hash of the id or row and lie within each other; their sums are formed
    in one pass and added up. Their sizes are met to within chance, and the true ones are stated.

    Parameters
    ----------
    X, Y, ids : as for `Bridge.fit`.
    sizes : pairs to fit on (report pairs not counted), each at least 20; None halves all there
        are up to six times, to 50 at least.
    method, settings : of the `Bridge`; ``trim`` has no place here.

    Raises
    ------
    GramianError : fewer than 100 pairs, a size below 20 or above what there is, ``trim``, or what
        `Bridge.fit` raises.
    """
    bridge = Bridge(method, **settings)
    if bridge.trim:
        raise GramianError("learning_curve does not trim; fit with trim=True, drop its suspects_")
    asked = bridge.asked()
    x, y = pairs_of(bridge, X, Y)
    listed = None if ids is None else check_ids(ids, len(x))
    stream = bridge.new_stream(x, y)
    if len(x) < 2 * FEW:
        raise GramianError(f"{len(x)} pairs show no curve; expected at least {2 * FEW}")
    most = math.floor(len(x) * (1.0 - stream.shares.report))
    wanted = _sizes(sizes, most)
    edges = np.minimum(np.asarray(wanted, np.float64) / most, 1.0)
    sums = [{fold: stream.accumulator() for fold in FOLDS} for _ in wanted]
    for part, keys, folds in stream.chunks(x, y, listed):
        subset = np.searchsorted(edges, second_places_of(keys), side="right")
        subset[folds == FOLDS.index("report")] = 0
        for number, parts in enumerate(sums):
            mine = subset == number
            stream.update(parts, x[part], y[part], folds, mine, part.start)
        stream.hold(keys, x[part], y[part], folds, subset < len(wanted))
    report = sums[0]["report"]
    if report.count < 2:
        raise GramianError("no pairs fell to the fold report; raise its share")
    whole: dict[str, JointMoments] = {"report": plain(report.joint(PAIR))}
    held = dict(stream.held)
    fits: list[tuple[int, Fit]] = []
    for edge, parts in zip(edges, sums, strict=True):
        for fold in ("train", "select"):
            if parts[fold].count:
                joint = plain(parts[fold].joint(PAIR))
                whole[fold] = whole[fold] + joint if fold in whole else joint
        if "train" not in whole or whole["train"].count < 2:
            continue
        rows = stream.held["select"]
        held["select"] = rows.where(second_places_of(rows.keys) < edge)
        used = whole["train"].count + (whole["select"].count if "select" in whole else 0)
        fit = solve(whole, held, asked=asked, intercept=bridge.intercept)
        fits.append((round(used), fit))
    return LearningCurve(tuple(_record(*one) for one in fits), *_enough(fits))


def _sizes(sizes: Sequence[int] | None, most: int) -> list[int]:
    if sizes is None:
        halved = {most // 2**power for power in range(HALVINGS + 1)}
        return sorted({size for size in halved if size >= FEW} | {most})
    wanted = sorted({int(size) for size in sizes})
    if not wanted or wanted[0] < SMALLEST or wanted[-1] > most:
        raise GramianError(
            f"sizes are {list(sizes)}, expected whole numbers of {SMALLEST} to {most}: the pairs "
            "that are not set aside to judge"
        )
    return wanted


def _record(pairs: int, fit: Fit) -> dict[str, Any]:
    values: dict[str, Any] = {
        "pairs": pairs,
        "method": str(fit.setting),
        "r2_report": None if math.isnan(fit.r2) else fit.r2,
        "r2_spread": None if math.isnan(fit.r2_spread) else fit.r2_spread,
    }
    if fit.finding is not None:
        values |= {"score": float(fit.finding.scores.mean())} | fit.finding.to_json()
    return values


def _enough(fits: list[tuple[int, Fit]]) -> tuple[int | None, str]:
    largest = fits[-1][1]
    if largest.finding is not None and len(largest.finding.scores) > 1:
        what = "retrieval"
        values = [float(fit.finding.scores.mean()) for _, fit in fits if fit.finding is not None]
        scores = largest.finding.scores
        error = float(scores.std(ddof=1)) / math.sqrt(len(scores))
    else:
        what, values, error = "R2", [fit.r2 for _, fit in fits], largest.r2_spread
    if math.isnan(error) or math.isnan(values[-1]):
        return None, "no pairs to judge on: nothing says how many are enough"
    enough = next(
        pairs for (pairs, _), value in zip(fits, values, strict=True) if value >= values[-1] - error
    )
    if len(fits) > 1 and enough == fits[-1][0]:
        return enough, f"{what} still gained from the last pairs: more will help"
    return enough, f"{what} with {enough} pairs is within one standard error of all of them"
