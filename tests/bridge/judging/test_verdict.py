"""Each branch of the rule, from values per query."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.bridge.judging import Bootstrap, decide
from gramian.errors import GramianError


def verdict(count=100, noise=0.05, seed=0, **means):
    """The rule on values with these means and independent noise of each system."""
    random = np.random.default_rng(seed)
    common = random.standard_normal(count) * 0.1
    values = {
        (name, "ndcg"): mean + common + noise * random.standard_normal(count)
        for name, mean in means.items()
    }
    options = {"title": "nDCG@10", "margin": 0.01, "retain": 0.9}
    return decide(Bootstrap(values), tuple(means), "ndcg", **options)


def test_the_cheapest_that_keeps_enough():
    means = {"old": 0.3, "bridge": 0.39, "two_stage": 0.4, "reindex": 0.41}
    assert verdict(**means).verdict == "bridge"
    assert verdict(**{**means, "bridge": 0.35}).verdict == "two_stage"
    assert verdict(**{**means, "bridge": 0.2, "two_stage": 0.33}).verdict == "reindex"


def test_reason_of_reindex_names_what_falls_short():
    found = verdict(old=0.3, bridge=0.2, two_stage=0.33, reindex=0.41)
    assert "the bridge keeps" in found.reason
    assert "less than the 90% asked for" in found.reason
    assert "against the old model (0.3" in found.reason


def test_a_change_that_keeps_enough_but_gains_nothing_is_passed_over():
    found = verdict(old=0.39, bridge=0.385, two_stage=0.41, reindex=0.42)
    assert found.verdict == "two_stage"
    assert "not better than the old model" in found.reason


def test_worse_than_old():
    found = verdict(old=0.4, bridge=0.3, two_stage=0.35, reindex=0.38)
    assert found.verdict == "keep_old"
    assert "Nothing is better" in found.reason


def test_noise_hides_the_gain():
    found = verdict(count=25, noise=0.3, seed=1, old=0.4, bridge=0.3, reindex=0.46)
    assert found.verdict == "keep_old"
    assert "cannot tell" in found.reason


def test_gain_below_the_margin():
    found = verdict(noise=0.001, old=0.4, bridge=0.3, reindex=0.405)
    assert found.verdict == "keep_old"
    assert "less than the margin of 0.01" in found.reason


def test_without_reindex_two_stages_are_what_is_reached_for():
    assert verdict(old=0.3, bridge=0.39, two_stage=0.4).verdict == "bridge"
    assert verdict(old=0.3, bridge=0.33, two_stage=0.4).verdict == "two_stage"
    assert verdict(old=0.3, bridge=0.4).verdict == "bridge"
    assert verdict(old=0.4, bridge=0.3).verdict == "keep_old"


def test_without_old():
    assert verdict(bridge=0.39, reindex=0.4).verdict == "bridge"
    assert verdict(bridge=0.3, reindex=0.4).verdict == "reindex"
    assert "was not measured" in verdict(bridge=0.3, reindex=0.4).reason


def test_nothing_found_by_anybody():
    zero = {("old", "ndcg"): np.zeros(50), ("bridge", "ndcg"): np.zeros(50)}
    zero["reindex", "ndcg"] = np.zeros(50)
    found = decide(Bootstrap(zero), ("old", "bridge", "reindex"), "ndcg", title="nDCG@10")
    assert found.verdict == "keep_old"
    assert found.retained == {}
    gone = decide(Bootstrap(zero), ("bridge", "reindex"), "ndcg", title="nDCG@10")
    assert gone.verdict == "reindex"


def test_false_alarms():
    """Systems of one quality: a change is advised in at most about 1 of 40 draws a system."""
    advised = 0
    for seed in range(200):
        found = verdict(count=60, noise=0.2, seed=seed, old=0.4, bridge=0.4)
        advised += found.verdict != "keep_old"
    assert advised <= 14  # 5 expected, 5 more than 4 standard deviations above


def test_refusals():
    with pytest.raises(GramianError, match="nothing to decide"):
        decide(Bootstrap({("old", "ndcg"): np.ones(30)}), ("old",), "ndcg", title="nDCG@10")
