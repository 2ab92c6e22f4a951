"""Scores move when a model does: by how much, and a table that moves them back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from gramian.errors import GramianError, refuse_existing
from gramian.moments.fields import Fields, parse_json

FORMAT = "gramian score calibration"
KNOTS = 257
"""Quantiles that a table holds at most."""
FEWEST = 4
"""Queries below which nothing is held back to test a calibration on."""
Scores = NDArray[np.float64]


@dataclass(frozen=True)
class ScoreCalibration:
    """Bridged score -> score of the old model: a rising, piecewise linear table.

    Raises
    ------
    GramianError : no points, unequal numbers of them, NaN, or a table that falls.
    """

    bridged: tuple[float, ...]
    """Strictly rising."""
    old: tuple[float, ...]
    """Never falling."""

    def __post_init__(self) -> None:
        x, y = np.asarray(self.bridged, float), np.asarray(self.old, float)
        if x.ndim != 1 or x.shape != y.shape or not len(x):
            raise GramianError(f"calibration of {x.size} bridged and {y.size} old scores")
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise GramianError("calibration: NaN or infinity among the scores")
        if (np.diff(x) <= 0).any() or (np.diff(y) < 0).any():
            raise GramianError("calibration: bridged scores must rise and old ones never fall")

    @classmethod
    def fit(cls, bridged: Any, old: Any) -> ScoreCalibration:
        """The rising map that gives bridged scores the distribution of the old ones.

        Equal quantiles are matched, so that as many results pass a threshold as passed it before.
        A regression of old on bridged scores of the same items would draw all scores to their
        mean instead, and let too few pass.

        bridged, old : scores that the two systems return, any shapes.

        Raises
        ------
        GramianError : no scores on a side, or NaN among them.
        """
        x, y = np.ravel(bridged).astype(float), np.ravel(old).astype(float)
        if not len(x) or not len(y):
            raise GramianError(f"calibration from {x.size} bridged and {y.size} old scores")
        levels = np.linspace(0, 1, min(KNOTS, max(len(x), len(y))))
        x, y = np.quantile(x, levels), np.quantile(y, levels)
        # one point for every bridged score: the middle of the old ones that it stands for
        knots, places = np.unique(x, return_inverse=True)
        means = np.bincount(places, weights=y) / np.bincount(places)
        return cls(tuple(map(float, knots)), tuple(map(float, np.maximum.accumulate(means))))

    def __call__(self, scores: Any) -> Scores:
        """Scores on the scale of the old model; beyond the table its ends. Any shape."""
        result: Scores = np.interp(np.asarray(scores, float), self.bridged, self.old)
        return result

    def threshold(self, old: float) -> float | None:
        """The bridged score from which on the old scale is at least ``old``; None: nowhere."""
        above = np.flatnonzero(np.asarray(self.old) >= old)
        if not len(above):
            return None
        first = int(above[0])
        if first == 0 or self.old[first] == old:
            return self.bridged[first]
        return float(
            np.interp(old, self.old[first - 1 : first + 1], self.bridged[first - 1 : first + 1])
        )

    def to_json(self) -> dict[str, Any]:
        """The table."""
        return {"format": FORMAT, "bridged": list(self.bridged), "old": list(self.old)}

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the table as JSON.

        Raises
        ------
        GramianError : the file exists and ``force`` is off.
        """
        target = refuse_existing(path, force=force)
        target.write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")
        return target

    @classmethod
    def load(cls, path: str | Path) -> ScoreCalibration:
        """Read what :meth:`save` wrote.

        Raises
        ------
        GramianError : no such file, or not such a table.
        """
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise GramianError(f"{path}: {error.strerror}") from error
        document = Fields(parse_json(data, str(path)), str(path))
        document.text("format", (FORMAT,))
        sides = []
        for name in ("bridged", "old"):
            values = document.items(name)
            good = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
            if len(good) != len(values):
                raise GramianError(f"{path}: {name} holds something else than numbers")
            sides.append(tuple(map(float, good)))
        document.close()
        return cls(*sides)


@dataclass(frozen=True)
class ScoreShift:
    """How far the scores that are returned moved, so that thresholds on them no longer hold."""

    ks: float
    """Kolmogorov-Smirnov distance, 0 to 1, between the scores that the old model returns and
    those of the bridge."""
    ks_calibrated: float | None
    """The same on one half of the queries after a calibration fitted on the other half."""
    correlation: float | None
    """Spearman's, between the bridged and the old scores of the same query and item; None where
    one of them never changes. Low: a threshold passes as many results, but other ones."""
    median_old: float
    median_bridge: float
    calibration: ScoreCalibration
    """Fitted on all queries."""

    def to_json(self) -> dict[str, Any]:
        """Every figure; the table itself is saved apart."""
        return {
            "ks": self.ks,
            "ks_calibrated": self.ks_calibrated,
            "correlation": self.correlation,
            "median_old": self.median_old,
            "median_bridge": self.median_bridge,
        }


def score_shift(old: Any, bridged: Any, pairs: tuple[Any, Any], *, seed: int = 0) -> ScoreShift:
    """Compare returned scores, calibrate them, and test the calibration on other queries.

    old, bridged : (q, k) scores that the two systems return. pairs : (q, m) bridged and (q, m)
    old scores of the same items. seed : of the halves.

    Raises
    ------
    GramianError : unequal numbers of queries.
    """
    before, after = np.asarray(old, float), np.asarray(bridged, float)
    x, y = (np.asarray(side, float) for side in pairs)
    count = len(before)
    if not len(after) == len(x) == len(y) == count:
        raise GramianError(f"scores of {count}, {len(after)}, {len(x)} and {len(y)} queries")
    held = None
    if count >= FEWEST:
        order = np.random.default_rng(seed).permutation(count)
        fit, test = order[: count // 2], order[count // 2 :]
        half = ScoreCalibration.fit(after[fit], before[fit])
        held = _distance(before[test], half(after[test]))
    return ScoreShift(
        _distance(before, after),
        held,
        _correlation(x, y),
        float(np.median(before)),
        float(np.median(after)),
        ScoreCalibration.fit(after, before),
    )


def _distance(one: Scores, other: Scores) -> float:
    return float(stats.ks_2samp(one.reshape(-1), other.reshape(-1), method="asymp").statistic)


def _correlation(one: Scores, other: Scores) -> float | None:
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    return float(stats.spearmanr(one.reshape(-1), other.reshape(-1)).statistic)
