"""Exact search against a full sort, its ties, and the ranks of partners."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.bridge.retrieval import overlap_at_k, partner_ranks, partner_recall, top_k
from gramian.errors import GramianError

METRICS = ("cosine", "dot", "l2")


def full(queries, index, metric):
    queries, index = queries.astype(np.float64), index.astype(np.float64)
    if metric == "l2":
        return -((queries[:, None] - index[None]) ** 2).sum(-1)
    if metric == "cosine":
        queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
        index = index / np.linalg.norm(index, axis=1, keepdims=True)
    return queries @ index.T


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("block", [7, 4096])
def test_top_k_is_a_full_sort(metric, block):
    rng = np.random.default_rng(0)
    queries, index = rng.standard_normal((11, 16)), rng.standard_normal((203, 16))
    positions, scores = top_k(queries, index, 9, metric=metric, block=block)
    expected = full(queries, index, metric)
    order = np.argsort(-expected, axis=1, kind="stable")[:, :9]
    assert np.array_equal(positions, order)
    assert np.allclose(scores, np.take_along_axis(expected, order, 1), atol=1e-5)
    assert positions.dtype == np.int64
    assert scores.dtype == np.float32


@pytest.mark.parametrize("metric", METRICS)
def test_ties_go_to_the_lower_position_across_blocks(metric):
    index = np.array([[2.0, 0.0], [1.0, 1.0], [1.0, 1.0], [-1.0, 0.5]] * 8, np.float32)
    positions, _ = top_k(np.array([[1.0, 1.0]]), index, 6, metric=metric, block=5)
    expected = full(np.array([[1.0, 1.0]]), index, metric)
    assert np.array_equal(positions, np.argsort(-expected.round(6), axis=1, kind="stable")[:, :6])


def test_distances_keep_their_digits_under_a_large_mean():
    rng = np.random.default_rng(1)
    index = 1e4 + rng.standard_normal((300, 8))
    queries = 1e4 + rng.standard_normal((20, 8))
    order = np.argsort(-full(queries, index, "l2"), axis=1, kind="stable")[:, :5]
    assert np.array_equal(top_k(queries, index, 5, metric="l2")[0], order)


def test_negative_scores_sort_downwards():
    index = -np.arange(1.0, 6.0)[:, None]
    positions, scores = top_k([[1.0]], index, 5, metric="dot")
    assert positions.tolist() == [[0, 1, 2, 3, 4]]
    assert scores.tolist() == [[-1, -2, -3, -4, -5]]


def test_memory_maps_and_halves(tmp_path):
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((50, 4)).astype(np.float16)
    np.save(tmp_path / "x.npy", rows)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert np.array_equal(top_k(rows[:5], mapped, 1)[0][:, 0], np.arange(5))


def test_zero_rows_have_cosine_zero_and_sizes_do_not_matter():
    index = np.array([[0.0, 0.0], [1e30, 0.0], [1e-30, 1e-30], [-1.0, 0.0]])
    positions, scores = top_k([[1.0, 0.0]], index, 4)
    assert positions.tolist() == [[1, 2, 0, 3]]
    assert np.allclose(scores, [[1, 2**-0.5, 0, -1]])


def test_ranks_agree_with_the_search_and_recall_with_the_ranks():
    rng = np.random.default_rng(3)
    targets = rng.standard_normal((150, 12))
    mapped = targets + rng.standard_normal((150, 12))
    ranks = partner_ranks(mapped, targets)
    found = top_k(mapped, targets, 150)[0]
    assert np.array_equal(ranks, np.argmax(found == np.arange(150)[:, None], axis=1))
    assert partner_recall(mapped, targets) == {1: np.mean(ranks < 1), 10: np.mean(ranks < 10)}


@pytest.mark.parametrize("metric", METRICS)
def test_targets_all_alike_find_nothing_by_luck(metric):
    rng = np.random.default_rng(4)
    targets = np.repeat(rng.standard_normal((1, 24)), 40, axis=0)
    ranks = partner_ranks(rng.standard_normal((40, 24)), targets, metric=metric)
    assert np.array_equal(ranks, np.arange(40))


def test_overlap_counts_what_both_find():
    rng = np.random.default_rng(5)
    index, queries = rng.standard_normal((80, 6)), rng.standard_normal((7, 6))
    turn = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    same = overlap_at_k(queries @ turn, queries, index @ turn, index, 10)
    assert same.dtype == np.float32
    assert np.array_equal(same, np.ones(7, np.float32))
    other = overlap_at_k(-queries, queries, index, index, 10)
    a, b = top_k(-queries, index, 10)[0], top_k(queries, index, 10)[0]
    assert np.allclose(other, [len(set(x) & set(y)) / 10 for x, y in zip(a, b, strict=True)])


def test_what_cannot_be_searched_is_refused():
    x = np.ones((3, 2))
    with pytest.raises(GramianError, match="2 wide and the index 4"):
        top_k(x, np.ones((3, 4)), 1)
    with pytest.raises(GramianError, match="k is 4, expected 1 to 3"):
        top_k(x, x, 4)
    with pytest.raises(GramianError, match="metric is 'euclid'"):
        top_k(x, x, 1, metric="euclid")
    bad = np.ones((9, 2))
    bad[5, 1] = np.nan
    with pytest.raises(GramianError, match="index: row 5 holds NaN"):
        top_k(x, bad, 1, block=2)
    with pytest.raises(GramianError, match="3 mapped rows and 2 targets"):
        partner_ranks(x, x[:2])
