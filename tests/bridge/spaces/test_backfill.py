"""The order of embedding anew: its quadratic form, and the curve that it buys."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gramian.bridge.spaces import backfill_curve, backfill_order, expected_error
from gramian.errors import GramianError
from gramian.moments import JointMoments
from gramian.solvers import backward_map, compatible_head

RNG = np.random.default_rng(0)


def pairs(n=1500, noise=0.05):
    """The new model no longer tells of the last four directions of the old one."""
    hidden = RNG.standard_normal((n, 16))
    # items differ in how much of them lies there
    hidden[:, 12:] *= RNG.choice([0.1, 4.0], size=(n, 1))
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((16, 16)))[0]
    kept = np.concatenate([hidden[:, :12], RNG.standard_normal((n, 8))], 1)
    return kept + noise * RNG.standard_normal(kept.shape), hidden @ turn, hidden


def test_the_form_is_the_regression_of_the_error_on_the_old_row():
    new, old, _ = pairs()
    expected = expected_error(JointMoments.from_rows(new, old))
    x, y = new - new.mean(0), old - old.mean(0)
    error = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    reading = np.linalg.lstsq(y, error, rcond=None)[0]
    left = error - y @ reading
    want = ((y @ reading) ** 2).sum(1) + (left**2).sum(1).mean()
    np.testing.assert_allclose(expected(old), want, rtol=1e-8, atol=1e-10)
    assert expected(old).mean() == pytest.approx((error**2).sum(1).mean())
    assert np.corrcoef(expected(old), (error**2).sum(1))[0, 1] > 0.9


def test_items_that_the_new_model_sees_otherwise_come_first():
    new, old, hidden = pairs()
    order = backfill_order(old, expected_error(JointMoments.from_rows(new, old)))
    strange = (hidden[:, 12:] ** 2).sum(1)
    assert strange[order[:300]].min() > np.median(strange)
    assert sorted(order) == list(range(1500))


def test_the_order_buys_recall_sooner_than_chance():
    new, old, _ = pairs()
    joint = JointMoments.from_rows(new, old)
    head = compatible_head(joint)
    wanted = np.arange(0, 1500, 5)
    queries = new[wanted] + 0.02 * RNG.standard_normal((300, 20))
    order = backfill_order(old, expected_error(joint))
    args = (head, queries, old, new, wanted)
    curve = backfill_curve(*args, order, shares=(0, 0.3, 0.6, 1), k=5)
    chance = backfill_curve(*args, RNG.permutation(1500), shares=(0, 0.3, 0.6, 1), k=5)
    assert [point.items for point in curve] == [0, 450, 900, 1500]
    assert curve[0] == chance[0]
    assert curve[-1] == chance[-1]
    assert curve[-1].recall > 0.99
    assert curve[1].recall > chance[1].recall
    assert curve[2].recall > chance[2].recall
    assert curve[0].recall < curve[-1].recall


def test_old_rows_through_the_backward_map_compete_fairly():
    new, old, _ = pairs()
    joint = JointMoments.from_rows(new, old)
    head = compatible_head(joint)
    args = (head, new[::5], old, new, np.arange(0, 1500, 5), np.arange(1500))
    options = {"shares": (0, 0.5, 1), "k": 1}
    padded = backfill_curve(*args, **options)
    back = backfill_curve(*args, **options, backward=backward_map(head, joint))
    assert back[-1] == padded[-1]
    assert back[1].recall > padded[1].recall
    with pytest.raises(GramianError, match="backward map 16 -> 20"):
        backfill_curve(*args, backward=head.forward)


def test_one_model_and_refusals():
    new, _, _ = pairs(200)
    joint = JointMoments.from_rows(new, new)
    expected = expected_error(joint)
    assert expected(new).max() < 1e-6
    head = compatible_head(joint)
    args = (head, new[:5], new, new, np.arange(5))
    with pytest.raises(GramianError, match="each once"):
        backfill_curve(*args, np.zeros(200, int))
    with pytest.raises(GramianError, match="outside 0 to 199"):
        backfill_curve(*args[:4], np.full(5, 200), np.arange(200))
    with pytest.raises(GramianError, match="numbers from 0 to 1"):
        backfill_curve(*args, np.arange(200), shares=(2,))
    with pytest.raises(GramianError, match="expected the same"):
        backfill_curve(head, new[:5], new, new[:9], np.arange(5), np.arange(200))
    with pytest.raises(GramianError, match="NaN"):
        backfill_order(new * np.nan, expected)
    with pytest.raises(GramianError, match="full moments"):
        expected_error(JointMoments.from_rows(new, torch.ones(200, 2), target="diagonal"))
