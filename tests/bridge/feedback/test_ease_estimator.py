"""Recommending from item weights: against popularity, a plain reference, and by users."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

from gramian.bridge.feedback import Ease, ItemGram, Popularity, Random, inverse_propensity
from gramian.errors import GramianError


def tastes(users: int, seed: int, *, structure: bool = True) -> scipy.sparse.csr_matrix:
    """Users like one of five groups of items; popular items are liked across them."""
    g = np.random.default_rng(seed)
    taste = g.integers(0, 5, users)
    group = np.arange(60) % 5
    chance = np.full((users, 60), 0.06) + 0.1 * (np.arange(60) < 6)
    if structure:
        chance += 0.3 * (taste[:, None] == group)
    return scipy.sparse.csr_matrix(g.random((users, 60)) < chance)


TRAIN, NEW = tastes(1500, 0), tastes(300, 1)


def test_beats_popularity_and_popularity_beats_chance() -> None:
    ease, popular, chance = (
        model.fit(TRAIN).judge(NEW, 10) for model in (Ease(), Popularity(), Random())
    )
    assert ease["ndcg"] > popular["ndcg"] + 0.1
    assert popular["ndcg"] > chance["ndcg"] + 0.02
    assert ease["recall"] > popular["recall"] + 0.1


def test_without_structure_there_is_nothing_to_gain() -> None:
    train, new = tastes(1500, 0, structure=False), tastes(300, 1, structure=False)
    ease, popular = Ease().fit(train).judge(new, 10), Popularity().fit(train).judge(new, 10)
    assert ease["ndcg"] < popular["ndcg"] + 0.03


def test_equals_a_plain_reference() -> None:
    x = TRAIN.toarray().astype(float)
    inverse = np.linalg.inv(x.T @ x + 100 * np.eye(60))
    b = -inverse / np.diagonal(inverse)
    np.fill_diagonal(b, 0.0)
    model = Ease(lam=100.0).fit(TRAIN)
    new = NEW.toarray().astype(float)
    np.testing.assert_allclose(model.scores(NEW), new @ b, atol=1e-12)
    wanted = np.where(new > 0, -np.inf, new @ b)
    items, scores = model.recommend(NEW, 5)
    np.testing.assert_array_equal(items, np.argsort(-wanted, axis=1, kind="stable")[:, :5])
    assert not np.take_along_axis(new, items, 1).any()
    np.testing.assert_allclose(scores, np.take_along_axis(wanted, items, 1))


def test_lam_is_the_best_of_the_grid() -> None:
    model = Ease(lams=(1e-3, 100.0, 1e9), metric="recall").fit(TRAIN[:150])
    assert set(model.candidates_) == {1e-3, 100.0, 1e9}
    best = max(model.candidates_.values(), key=lambda found: found["recall"])
    assert model.candidates_[model.lam_]["recall"] == best["recall"]
    assert model.lam_ != 1e-3
    assert clone(model).get_params()["metric"] == "recall"


@pytest.mark.parametrize("propensity", [0.0, 0.5])
def test_users_add_and_are_forgotten(propensity: float) -> None:
    once = Ease(lam=50.0, propensity=propensity).fit(TRAIN)
    assert once.gram_.items == 60
    more = Ease(lam=50.0, propensity=propensity).fit(TRAIN)
    more.partial_fit(NEW)
    assert float((more.weights_.weights - once.weights_.weights).abs().max()) > 1e-4
    more.forget(NEW)
    np.testing.assert_allclose(more.gram_.gram, once.gram_.gram, atol=1e-9)
    np.testing.assert_allclose(more.weights_.weights, once.weights_.weights, atol=1e-10)
    first = Ease(lam=50.0).partial_fit(TRAIN[:700]).partial_fit(TRAIN[700:])
    np.testing.assert_array_equal(first.gram_.gram, ItemGram.from_users(TRAIN).gram)
    with pytest.raises(GramianError, match="not added before"):
        Ease(lam=1.0).fit(TRAIN[:20]).forget(TRAIN)


def test_propensity_weighs_users_of_rare_items_more() -> None:
    users = scipy.sparse.csr_matrix(np.eye(3)[[0, 0, 0, 0, 1, 1, 2]])
    weight = inverse_propensity(users, [4, 2, 1], power=0.5)
    np.testing.assert_allclose(weight[[0, 4, 6]] / weight[0], [1, 2**0.5, 2])
    assert weight.mean() == pytest.approx(1)
    np.testing.assert_allclose(inverse_propensity(users, [4, 2, 1], power=0.0), 1.0)
    with pytest.raises(GramianError, match="0 to 1"):
        Ease(lam=1.0, propensity=2.0).fit(TRAIN)


def test_counts_become_ones_and_the_input_stays() -> None:
    counts = TRAIN.astype(float) * 3
    before = counts.data.copy()
    np.testing.assert_array_equal(
        ItemGram.from_users(counts).gram, ItemGram.from_users(TRAIN.toarray()).gram
    )
    np.testing.assert_array_equal(counts.data, before)
    assert ItemGram.from_users(counts, binarise=False).gram.max() > 1000
    parts = sum([ItemGram.from_users(TRAIN[:9]), ItemGram.from_users(TRAIN[9:])])
    assert isinstance(parts, ItemGram)
    assert parts.users == 1500


def test_a_user_of_everything_gets_nothing_more() -> None:
    items, scores = Ease(lam=10.0).fit(TRAIN).recommend(np.ones((1, 60)), 3)
    assert items.tolist() == [[-1, -1, -1]]
    assert np.isneginf(scores).all()


def test_refusals() -> None:
    model = Ease(lam=10.0).fit(TRAIN)
    for bad, match in (
        (np.ones((2, 3)), "3 items, expected 60"),
        (np.full((1, 60), np.nan), "NaN"),
        (-np.ones((1, 60)), "below 0"),
    ):
        with pytest.raises(GramianError, match=match):
            model.recommend(bad)
    with pytest.raises(GramianError, match="k is 61"):
        model.recommend(NEW, 61)
    with pytest.raises(GramianError, match="nothing to learn"):
        Ease(lam=1.0).fit(np.zeros((4, 3)))
    with pytest.raises(GramianError, match="more users, or a lam"):
        Ease().fit(TRAIN[:2])
    with pytest.raises(GramianError, match="two items"):
        model.judge(np.eye(60))
