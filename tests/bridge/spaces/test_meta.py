"""Merged tables: rotations, gaps filled by neighbours, and a plain transcription of the rule."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.bridge.spaces import KeyedTable, meta_embeddings
from gramian.errors import GramianError

RNG = np.random.default_rng(0)
BASE = RNG.standard_normal((300, 10)) * np.exp(-np.arange(10) / 8) + 0.5
KEYS = [f"w{i}" for i in range(300)]


def turn(d=10):
    return np.linalg.qr(RNG.standard_normal((d, d)))[0]


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def steps(rows):
    rows = unit(rows)
    return unit(rows - rows.mean(0))


def cosines(rows):
    return unit(rows) @ unit(rows).T


@pytest.mark.parametrize("towards", ["pivot", "mean"])
@pytest.mark.parametrize("count", [2, 3])
def test_rotations_of_one_table_have_its_cosines(towards, count):
    tables = {f"t{k}": (KEYS, 3.0**k * BASE @ turn()) for k in range(count)}
    merged = meta_embeddings(tables, towards=towards)
    want = cosines(steps(BASE))
    assert np.abs(cosines(merged.table.vectors) - want).max() < 1e-12
    assert merged.table.keys == tuple(KEYS)
    assert merged.supplied == dict.fromkeys(tables, 0) == merged.lacking


def test_a_narrow_table_is_embedded_in_the_wide_one():
    wide = np.concatenate([BASE, np.zeros((300, 4))], 1) @ turn(14)
    merged = meta_embeddings({"narrow": (KEYS, BASE), "wide": (KEYS, wide)})
    assert (merged.pivot, merged.table.dim) == ("wide", 14)
    assert np.abs(cosines(merged.table.vectors) - cosines(steps(BASE))).max() < 1e-12
    chosen = meta_embeddings({"narrow": (KEYS, BASE), "wide": (KEYS, wide)}, pivot="narrow")
    np.testing.assert_allclose(chosen.table.vectors[:, :10], steps(BASE), atol=1e-10)


def test_the_pivot_keeps_its_coordinates():
    tables = {"a": (KEYS, BASE), "b": (KEYS, BASE @ turn())}
    np.testing.assert_allclose(
        meta_embeddings(tables, pivot="a").table.vectors, steps(BASE), atol=1e-10
    )


def by_hand(words, theirs, ours, most):
    """The neighbour rule, word by word."""
    made, reached = [], []
    for word in words:
        similarity = theirs @ word
        near = np.argsort(-similarity, kind="stable")[:most]
        weight = similarity[near] + 1
        tried = []
        for k in range(2, most + 1):
            mean = weight[:k] @ theirs[near[:k]] / weight[:k].sum()
            tried.append(float(mean @ word / np.linalg.norm(mean)))
        k = 2 + int(np.argmax(tried))
        row = weight[:k] @ ours[near[:k]]
        made.append(row / np.linalg.norm(row))
        reached.append(max(tried))
    return np.array(made), np.array(reached)


def test_missing_keys_follow_the_rule_to_the_letter():
    noisy = BASE @ turn() + 0.1 * RNG.standard_normal(BASE.shape)
    merged = meta_embeddings({"a": (KEYS[:200], BASE[:200]), "b": (KEYS, noisy)}, pivot="a")
    a, b = steps(BASE[:200]), steps(noisy)
    u, _, vh = np.linalg.svd(a.T @ b[:200])
    b = b @ (u @ vh).T
    made, _ = by_hand(b[200:], b[:200], a, 50)
    want = unit((np.concatenate([a, made]) + b) / 2)
    np.testing.assert_allclose(merged.table.vectors, want, atol=1e-6)
    assert merged.supplied == {"a": 100, "b": 0}


def test_of_several_tables_the_closest_supplies():
    good = BASE @ turn()
    bad = good + 3 * RNG.standard_normal(BASE.shape)
    tables = {"a": (KEYS[:250], BASE[:250]), "bad": (KEYS, bad), "good": (KEYS, good)}
    merged = meta_embeddings(tables, pivot="a", towards="pivot")
    a = steps(BASE[:250])
    others = []
    for rows in (bad, good):
        rows = steps(rows)
        u, _, vh = np.linalg.svd(a.T @ rows[:250])
        others.append(rows @ (u @ vh).T)
    recipes = [by_hand(rows[250:], rows[:250], a, 50) for rows in others]
    first = recipes[0][1] > recipes[1][1]
    made = np.where(first[:, None], recipes[0][0], recipes[1][0])
    want = unit(made + others[0][250:] + others[1][250:])
    np.testing.assert_allclose(merged.table.vectors[250:], want, atol=1e-6)


def test_made_up_vectors_lie_near_the_truth():
    # a smooth cloud: items lie on a curve, so that neighbours tell where one belongs
    t = np.linspace(0, 6, 300)[:, None]
    curve = np.concatenate([np.sin(t * k + k) for k in range(1, 5)], 1)
    order = RNG.permutation(300)
    curve = curve[order]
    merged = meta_embeddings({"a": (KEYS[:250], curve[:250]), "b": (KEYS, curve @ turn(4))})
    left = meta_embeddings(
        {"a": (KEYS[:250], curve[:250]), "b": (KEYS, curve @ turn(4))}, missing="leave"
    )
    want = cosines(steps(curve))
    assert np.abs(cosines(merged.table.vectors) - want).max() < 0.1
    assert (left.supplied["a"], left.lacking["a"]) == (0, 50)
    assert len(left.table) == 300


def test_tables_joined_through_others_only():
    tables = {
        "a": (KEYS[:150], BASE[:150]),
        "b": (KEYS, BASE @ turn()),
        "c": (KEYS[150:], BASE[150:] @ turn()),
    }
    merged = meta_embeddings(tables, pivot="a")
    assert set(merged.table.keys) == set(KEYS)
    with pytest.raises(GramianError, match="'c' has no key in common with the pivot"):
        meta_embeddings(tables, pivot="a", towards="pivot")


def test_types_and_mappings():
    table = KeyedTable(KEYS, BASE.astype(np.float16))
    half = meta_embeddings({"a": table, "b": dict(zip(KEYS, BASE @ turn(), strict=True))})
    assert np.abs(cosines(half.table.vectors) - cosines(steps(BASE))).max() < 1e-2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"b": (KEYS[:5], BASE)}, "table 'b': 5 keys for 300 vectors"),
        ({"b": (["w0", *KEYS[:-1]], BASE)}, "'w0' comes twice"),
        ({"b": (KEYS, BASE * (np.arange(300) != 7)[:, None])}, "row 7 is all zero"),
        ({"b": (KEYS, np.where(np.arange(300)[:, None] == 3, np.nan, BASE))}, "row 3"),
        ({"b": (KEYS, np.ones((300, 4)))}, "all equal"),
        ({"b": ([f"v{i}" for i in range(300)], BASE)}, "no key in common"),
        ({"b": ([], np.zeros((0, 4)))}, "empty"),
        ({"b": {"w0": [1.0, 2.0], "w1": [1.0]}}, "different lengths"),
        ({"b": {}}, "axes|empty"),
        ({"b": 3}, "expected keys and vectors"),
    ],
)
def test_refusals(change, message):
    with pytest.raises(GramianError, match=message):
        meta_embeddings({"a": (KEYS, BASE)} | change)


def test_options_that_do_not_exist():
    tables = {"a": (KEYS, BASE), "b": (KEYS, BASE)}
    for options, message in (
        ({"pivot": "c"}, "expected one of a, b"),
        ({"towards": "me"}, "expected one of pivot, mean"),
        ({"missing": "zero"}, "neighbours, leave"),
        ({"neighbours": 1}, "at least 2"),
    ):
        with pytest.raises(GramianError, match=message):
            meta_embeddings(tables, **options)
    with pytest.raises(GramianError, match="at least two"):
        meta_embeddings({"a": (KEYS, BASE)})
