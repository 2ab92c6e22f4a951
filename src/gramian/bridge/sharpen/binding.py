"""Captions told from their swapped versions, at a retrieval that stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.retrieval import partner_recall
from gramian.bridge.rows import as_matrix
from gramian.errors import GramianError
from gramian.maps import Dense
from gramian.moments import JointMoments
from gramian.solvers.binding import binding


@dataclass(frozen=True)
class BindingTrial:
    """One setting, judged on images that it was not fitted on."""

    contrast: float
    ridge: float
    swaps: float
    """How often an image prefers its caption to the swapped one."""
    recall: float
    """How often an image finds its caption first among those of all held-out images."""


@dataclass(frozen=True, eq=False)
class BoundCaptions:
    """A map of captions, and what it does on images that had no part in it."""

    map: Dense
    """(d_image, d_text), fitted on all but the reported images."""
    chosen: BindingTrial
    """On the images that chose the setting."""
    before: BindingTrial
    """Plain cosine on the same images; no setting, so nan."""
    swaps: float
    recall: float
    """Of ``map`` on images that neither fitted nor chose."""
    swaps_before: float
    recall_before: float
    """Of plain cosine on those; nan where the two sides differ in width."""
    trials: tuple[BindingTrial, ...]


def bind_attributes(
    images: Any,
    captions: Any,
    swapped: Any,
    *,
    drop: float = 0.01,
    contrasts: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0),
    ridges: Sequence[float] = (1e-3, 1e-2, 1e-1),
    seed: int = 0,
) -> BoundCaptions:
    """Fit `gramian.solvers.binding`, its settings chosen by swaps at hardly any loss of retrieval.

    A fifth of the images chooses and a fifth reports. Of the settings whose recall is at most
    ``drop`` below that of plain cosine, the one with most swaps told apart is taken.

    images, captions, swapped : (n, d_image), (n, d_text), (n, d_text); row i of all is one image,
    its caption, and the caption with attributes exchanged.

    Raises
    ------
    GramianError : fewer than 20 images, unequal numbers or widths, NaN, or no setting that keeps
        retrieval.
    """
    v = as_matrix(images, "images")
    plus, minus = (
        as_matrix(rows, name) for rows, name in ((captions, "captions"), (swapped, "swapped"))
    )
    if not len(v) == len(plus) == len(minus) or plus.shape[1] != minus.shape[1]:
        raise GramianError(
            f"images {v.shape}, captions {plus.shape}, swapped {minus.shape}: expected one of each "
            "an image, captions of one width"
        )
    if len(v) < 20:
        raise GramianError(f"{len(v)} images, expected at least 20 to fit, to choose and to report")
    if not contrasts or not ridges:
        raise GramianError("contrasts and ridges are empty; give at least one of each")
    order = np.random.default_rng(seed).permutation(len(v))
    fifth = len(v) // 5
    report, select, train = order[:fifth], order[fifth : 2 * fifth], order[2 * fifth :]

    def fit(rows: NDArray[np.int64], contrast: float, ridge: float) -> Dense:
        sides = [
            JointMoments.from_rows(v[rows], side[rows], quartic=False) for side in (plus, minus)
        ]
        return binding(sides[0], sides[1], contrast=contrast, ridge=ridge)

    def judge(rows: NDArray[np.int64], map: Dense | None) -> tuple[float, float]:
        return _judged(v[rows], plus[rows], minus[rows], map)

    plain = v.shape[1] == plus.shape[1]
    nan = float("nan")
    before = judge(select, None) if plain else (nan, nan)
    trials = [
        BindingTrial(c, g, *judge(select, fit(train, c, g))) for c in contrasts for g in ridges
    ]
    least = before[1] - drop if plain else max(trial.recall for trial in trials) - drop
    good = [trial for trial in trials if trial.recall >= least]
    if not good:
        best = max(trials, key=lambda trial: trial.recall)
        raise GramianError(
            f"no setting keeps retrieval: recall {best.recall:.3f} at best, {before[1]:.3f} "
            "before; give more images, or allow a larger drop"
        )
    chosen = max(good, key=lambda trial: (trial.swaps, trial.recall))
    map = fit(np.concatenate([train, select]), chosen.contrast, chosen.ridge)
    last = judge(report, map)
    last_before = judge(report, None) if plain else (nan, nan)
    start = BindingTrial(nan, nan, *before)
    return BoundCaptions(map, chosen, start, *last, *last_before, tuple(trials))


def _judged(v: Any, plus: Any, minus: Any, map: Dense | None) -> tuple[float, float]:
    """Swaps told apart, and recall at one."""
    if map is not None:
        plus, minus = (map(rows.astype(np.float64)).numpy() for rows in (plus, minus))
    gap = _cosine(v, plus) - _cosine(v, minus)
    return float((gap > 0).mean()), partner_recall(v, plus, (1,))[1]


def _cosine(a: Any, b: Any) -> NDArray[np.float64]:
    a, b = a.astype(np.float64), b.astype(np.float64)
    size = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    found: NDArray[np.float64] = (a * b).sum(1) / np.where(size > 0, size, 1.0)
    return found
