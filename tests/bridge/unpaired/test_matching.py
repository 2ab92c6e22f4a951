"""The steps of unpaired matching, each against what it must do."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.bridge.unpaired.clusters import k_means, match, spread_start
from gramian.bridge.unpaired.matching import near_mean, polar, refine, settle, towards, unit


def test_centres_in_another_order_and_turned_are_matched() -> None:
    draw = np.random.default_rng(0)
    left = draw.standard_normal((20, 16)).astype(np.float32)
    turn = polar(draw.standard_normal((16, 24)))
    order = draw.permutation(20)
    right = (left @ turn)[order] + 3
    found = match(left, right, draw)
    assert (order[found.order] == np.arange(20)).all()
    assert found.alike == pytest.approx(1, abs=1e-5)
    assert found.gap > 0.05


def test_centres_that_can_be_exchanged_leave_no_gap() -> None:
    draw = np.random.default_rng(0)
    corners = np.eye(6, 8, dtype=np.float32)
    found = match(corners, corners, draw)
    assert found.alike == pytest.approx(1, abs=1e-9)
    assert found.gap == pytest.approx(0, abs=1e-9)


def test_k_means_finds_separate_clusters_and_keeps_empty_ones() -> None:
    draw = np.random.default_rng(1)
    true = 10 * np.eye(5, 8, dtype=np.float32)
    rows = np.repeat(true, 50, 0) + 0.1 * draw.standard_normal((250, 8)).astype(np.float32)
    found = k_means(rows, spread_start(rows, 5, draw), 10)
    assert np.abs(found[found.argmax(1).argsort()].argmax(1) - np.arange(5)).max() == 0
    far = np.full((1, 8), 1e3, np.float32)
    assert (k_means(rows, np.concatenate([true, far]), 3)[-1] == far).all()


def test_refining_ends_at_the_rotation_between_clouds_that_share_no_row() -> None:
    draw = np.random.default_rng(2)
    centres = draw.standard_normal((60, 24))
    x, y = (
        unit(centres[draw.integers(60, size=2000)] + 0.3 * draw.standard_normal((2000, 24)))
        for _ in range(2)
    )
    turn = polar(draw.standard_normal((24, 32)))
    y = unit(y @ turn)
    start = polar(turn + 0.15 * draw.standard_normal(turn.shape))
    assert (start * turn).sum() / 24 < 0.9
    weight = refine(x, y, start, 20, 40, draw)
    weight, agreement = settle(x, y, weight, 100, draw)
    assert (weight * turn).sum() / 24 > 0.99
    assert agreement > 0.9
    assert np.abs(weight @ weight.T - np.eye(24)).max() < 1e-5


def test_a_cross_moment_of_few_directions_keeps_the_others() -> None:
    draw = np.random.default_rng(4)
    weight = polar(draw.standard_normal((12, 12)))
    one = unit(draw.standard_normal((1, 12)))
    kept = towards(one.T @ (one @ weight), weight)
    assert np.abs(kept - weight).max() < 1e-5


@pytest.mark.parametrize("k", [1, 7, 90])
def test_means_are_those_of_a_full_sort(k) -> None:
    draw = np.random.default_rng(3)
    queries, index = (draw.standard_normal((n, 6)).astype(np.float32) for n in (700, 90))
    full = np.argsort(-(queries @ index.T), axis=1)[:, :k]
    expected = index[full].mean(1)
    np.testing.assert_allclose(near_mean(queries, index, k, index), expected, atol=1e-5)


def test_a_probe_finds_about_as_many() -> None:
    draw = np.random.default_rng(5)
    queries, index = (unit(draw.standard_normal((n, 6))) for n in (200, 4000))
    exact = index[np.argsort(-(queries @ index.T), axis=1)[:, :80]].mean(1)
    found = near_mean(queries, index, 80, index)
    assert (unit(found) * unit(exact)).sum(1).min() > 0.9
    assert (unit(found) * unit(exact)).sum(1).mean() > 0.99
