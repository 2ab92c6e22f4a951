"""Identities over time: weights, ages, the threshold, and that it helps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone

from gramian.bridge.labels import HistoryAware, history_discriminant
from gramian.errors import GramianError


def frames(n: int, seed: int, d: int = 20, people: int = 5) -> list[tuple[np.ndarray, np.ndarray]]:
    """Every frame shows everybody; a few loud directions say nothing of who it is."""
    centres = np.random.default_rng(9).normal(size=(people, d))
    loud = np.where(np.arange(d) < 6, 8.0, 0.7)
    g = np.random.default_rng(seed)
    ids = np.arange(people)
    return [(centres + loud * g.normal(size=(people, d)), ids) for _ in range(n)]


def nearest(stored: np.ndarray, ids: np.ndarray, asked: np.ndarray, wanted: np.ndarray) -> float:
    a, b = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (asked, stored))
    return float((ids[(a @ b.T).argmax(1)] == wanted).mean())


def test_raw_until_the_history_is_long_enough_then_better_than_raw() -> None:
    model = HistoryAware()
    past, later = frames(30, 0), frames(20, 1)
    for number, (x, ids) in enumerate(past):
        model.update(x, ids)
        assert (model.directions_ is None) == (number < 4)
        if number < 4:
            np.testing.assert_array_equal(model.transform(x), x)
    stored, ids = (np.concatenate(part) for part in zip(*past, strict=True))
    asked, wanted = (np.concatenate(part) for part in zip(*later, strict=True))
    raw = nearest(stored, ids, asked, wanted)
    projected = nearest(model.transform(stored), ids, model.transform(asked), wanted)
    assert model.transform(asked).shape == (100, 4)
    assert projected > raw + 0.2


def test_weights_are_decay_to_the_age_and_only_the_latest_are_kept() -> None:
    model = HistoryAware(decay=0.8, keep=5, least=1)
    past = frames(9, 0)
    for x, ids in past:
        model.update(x, ids)
    latest = [torch.tensor(np.stack([x[k] for x, _ in past[-5:]])) for k in range(5)]
    weights = [0.8 ** torch.arange(4, -1, -1, dtype=torch.float64)] * 5
    wanted = history_discriminant(latest, weights)
    assert model.directions_ is not None
    torch.testing.assert_close(model.directions_.values, wanted.values)
    torch.testing.assert_close(model.directions_.denominator, wanted.denominator)


def test_fit_starts_anew_and_identities_can_go() -> None:
    x, ids = (np.concatenate(part) for part in zip(*frames(8, 0), strict=True))
    names = np.array(list("abcde"))[ids]
    model = clone(HistoryAware()).fit(x, names)
    assert model.fit(x, names).transform(x).shape == (40, 4)
    assert model.forget("a").transform(x).shape == (40, 3)
    with pytest.raises(GramianError, match="not in the history"):
        model.forget("a")


def test_refusals() -> None:
    x, ids = frames(1, 0)[0]
    with pytest.raises(GramianError, match="seen nothing"):
        HistoryAware().transform(x)
    with pytest.raises(GramianError, match="decay"):
        HistoryAware(decay=0.0).update(x, ids)
    with pytest.raises(GramianError, match="identities"):
        HistoryAware().update(x, ids[:2])
    with pytest.raises(GramianError, match="NaN"):
        HistoryAware().update(np.where(x > 1, np.nan, x), ids)
    with pytest.raises(GramianError, match="expected 20"):
        HistoryAware().update(x, ids).update(x[:, :3], ids)
