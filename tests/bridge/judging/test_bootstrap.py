"""Intervals beside closed forms and SciPy's own."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from scipy import stats

from gramian.bridge.judging import Bootstrap, Interval
from gramian.errors import GramianError


def test_normal_theory():
    values = np.random.default_rng(0).standard_normal(2000)
    found = Bootstrap({"a": values}, draws=4000).mean("a")
    spread = 1.96 * values.std() / np.sqrt(2000)
    assert found.value == pytest.approx(values.mean(), abs=1e-12)
    assert found.high - found.value == pytest.approx(spread, rel=0.06)
    assert found.value - found.low == pytest.approx(spread, rel=0.06)


def test_scipy():
    values = np.random.default_rng(1).exponential(size=60)
    found = Bootstrap({"a": values}, draws=8000).mean("a")
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=8000, method="percentile", random_state=1
    ).confidence_interval
    assert found.low == pytest.approx(theirs.low, abs=0.02)
    assert found.high == pytest.approx(theirs.high, abs=0.02)


def test_pairs_stay_together():
    random = np.random.default_rng(2)
    hard = random.standard_normal(200)
    both = {"a": hard + 0.1, "b": hard}
    drawn = Bootstrap(both)
    gap = drawn.difference("a", "b")
    assert gap.low == pytest.approx(0.1)
    assert gap.high == pytest.approx(0.1)
    assert drawn.mean("a").low < drawn.mean("b").value


def test_coverage():
    hits = 0
    for seed in range(300):
        values = np.random.default_rng(seed).binomial(1, 0.4, 80)
        found = Bootstrap({"a": values}, draws=400, seed=seed).mean("a")
        hits += found.low <= 0.4 <= found.high
    assert 0.90 <= hits / 300 <= 0.98


def test_one_query_has_no_interval():
    assert Bootstrap({"a": np.ones(1)}).mean("a") == Interval(1.0, None, None)
    assert str(Interval(0.5, None, None)) == "0.500"


def test_many_queries_in_blocks(monkeypatch):
    module = importlib.import_module("gramian.bridge.judging.bootstrap")
    values = {"a": np.random.default_rng(3).standard_normal(500)}
    whole = Bootstrap(values, draws=50).mean("a")
    monkeypatch.setattr(module, "_TOGETHER", 500 * 7)
    parts = Bootstrap(values, draws=50).mean("a")
    assert parts.low == pytest.approx(whole.low, abs=1e-12)
    assert parts.high == pytest.approx(whole.high, abs=1e-12)


@pytest.mark.parametrize(
    "values, draws, message",
    [
        ({}, 10, "expected one number above 0"),
        ({"a": np.ones(2), "b": np.ones(3)}, 10, "values of"),
        ({"a": np.ones(0)}, 10, "above 0"),
        ({"a": np.ones(3)}, 0, "at least 1 resample"),
    ],
)
def test_refusals(values, draws, message):
    with pytest.raises(GramianError, match=message):
        Bootstrap(values, draws=draws)
