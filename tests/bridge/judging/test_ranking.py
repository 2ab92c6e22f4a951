"""One stage, two stages, hubs, and numbers per query beside other definitions."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from gramian.bridge.judging import csls, hubness
from gramian.bridge.judging.metrics import judged_values
from gramian.bridge.judging.ranking import pair_scores, ranked, rescored
from gramian.errors import GramianError


@pytest.fixture
def rows():
    random = np.random.default_rng(0)
    return random.standard_normal((20, 8)), random.standard_normal((90, 8))


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
def test_all_candidates_are_the_whole_search(rows, metric):
    queries, index = rows
    everything = np.tile(np.random.default_rng(1).permutation(90), (20, 1))
    found = rescored(queries, everything, index.__getitem__, 12, metric)
    whole = ranked(queries, index, 12, metric)
    np.testing.assert_array_equal(found.positions, whole.positions)
    np.testing.assert_allclose(found.scores, whole.scores, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
def test_scores_of_pairs(rows, metric):
    queries, index = rows
    whole = ranked(queries, index, 12, metric)
    scores = pair_scores(queries, index, whole.positions, metric)
    np.testing.assert_allclose(scores, whole.scores, rtol=1e-4, atol=1e-4)


def test_cosine_with_a_row_of_zeros_is_zero():
    assert pair_scores(np.ones((1, 3)), np.zeros((1, 3)), np.zeros((1, 1), int), "cosine") == 0


def test_second_stage_takes_the_best_of_the_candidates(rows):
    queries, index = rows
    found = np.array([[5, 3, 80, 41]] * 20)
    best = rescored(queries, found, index.__getitem__, 2, "dot")
    for query, positions in zip(queries, best.positions, strict=True):
        by_hand = sorted(found[0], key=lambda i: -index[i] @ query)[:2]
        assert positions.tolist() == by_hand


def test_second_stage_refuses_vectors_that_do_not_fit(rows):
    queries, index = rows
    found = np.arange(40).reshape(20, 2)
    with pytest.raises(GramianError, match="8"):
        rescored(queries, found, lambda p: index[p][:, :3], 2, "dot")
    with pytest.raises(GramianError, match="1 vectors of 40 candidates"):
        rescored(queries, found, lambda p: index[:1], 2, "dot")


def test_csls_is_its_definition(rows):
    queries, index = rows
    q = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    x = index / np.linalg.norm(index, axis=1, keepdims=True)
    cosine = q @ x.T
    near = np.sort(cosine, axis=0)[-4:].mean(0)
    score = 2 * cosine - near
    found = csls(queries, index, 6, neighbours=4)
    np.testing.assert_array_equal(found.positions, np.argsort(-score, axis=1)[:, :6])
    np.testing.assert_allclose(found.scores, -np.sort(-score, axis=1)[:, :6], atol=1e-5)


def test_csls_takes_a_hub_back():
    """A weak map draws queries to the mean: the item that lies there is nearest to all of them."""
    random = np.random.default_rng(4)
    mean, own = np.ones(40), random.standard_normal((60, 40))
    items = np.concatenate([mean[None], mean + own])
    queries = mean + 0.3 * own + 0.1 * random.standard_normal((60, 40))
    plain, corrected = ranked(queries, items, 1, "cosine"), csls(queries, items, 1)
    assert (plain.positions == 0).mean() > 0.9
    assert (corrected.positions[:, 0] == np.arange(1, 61)).mean() > 0.9
    assert hubness(corrected.positions, 61) < hubness(plain.positions, 61)


def test_hubness():
    assert hubness(np.arange(10).reshape(5, 2), 10) == 0
    # one of 4 items found by all of 3 queries: counts 3, 0, 0, 0
    assert hubness(np.zeros((3, 1), int), 4) == pytest.approx(2 / np.sqrt(3))


def test_values_beside_other_definitions():
    random = np.random.default_rng(5)
    items = [f"d{i}" for i in range(40)]
    queries = [f"q{i}" for i in range(15)]
    scores = random.standard_normal((15, 40))
    grades = random.integers(-2, 4, (15, 40)) * (random.random((15, 40)) < 0.3)
    grades[:, 0] = 1
    qrels = {
        query: {item: int(grade) for item, grade in zip(items, row, strict=True)}
        for query, row in zip(queries, grades, strict=True)
    }
    found = np.argsort(-scores, axis=1)[:, :10]
    values = judged_values(found, qrels, queries, items, 5)
    clipped = np.maximum(grades, 0)
    for row in range(15):
        expected = ndcg_score(clipped[row : row + 1], scores[row : row + 1], k=10)
        assert values["ndcg"][row] == pytest.approx(expected, abs=1e-9)
        relevant = set(np.flatnonzero(clipped[row]))
        share = len(relevant & set(found[row, :5])) / len(relevant)
        assert values["recall"][row] == pytest.approx(share)
        hits = [rank for rank, item in enumerate(found[row], start=1) if item in relevant]
        assert values["mrr"][row] == pytest.approx(1 / hits[0] if hits else 0.0)


def test_order_decides_and_not_the_id():
    """Readers of runs sort ties by id: the order given must win over any id."""
    for names in (["a", "b"], ["b", "a"]):
        values = judged_values(np.array([[0, 1]]), {"q": {names[0]: 1}}, ["q"], names, 1)
        assert values["recall"][0] == 1
        assert values["mrr"][0] == 1


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(GramianError, match=r"pip install 'gramian\[bridge\]'"):
        judged_values(np.array([[0]]), {"q": {"d": 1}}, ["q"], ["d"], 1)
