"""The steps of unpaired matching, each against what it must do."""

from __future__ import annotations

import numpy as np

from gramian.bridge.unpaired.clusters import k_means, match, spread_start
from gramian.bridge.unpaired.matching import nearest, polar, refine, settle, unit


def test_centres_in_another_order_and_turned_are_matched() -> None:
    draw = np.random.default_rng(0)
    left = draw.standard_normal((20, 16)).astype(np.float32)
    turn = polar(draw.standard_normal((16, 24)))
    order = draw.permutation(20)
    right = (left @ turn)[order] + 3
    assert (order[match(left, right, draw)] == np.arange(20)).all()


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


def test_nearest_are_those_of_a_full_sort() -> None:
    draw = np.random.default_rng(3)
    queries, index = (draw.standard_normal((n, 6)).astype(np.float32) for n in (700, 90))
    full = np.argsort(-(queries @ index.T), axis=1)[:, :7]
    assert (np.sort(nearest(queries, index, 7), axis=1) == np.sort(full, axis=1)).all()
