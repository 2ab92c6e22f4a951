"""The estimator of a common space."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from gramian.bridge.spaces import CommonVectors
from gramian.errors import GramianError
from gramian.moments import JointMoments

RNG = np.random.default_rng(0)
BASE = RNG.standard_normal((200, 8)) + 1
KEYS = list(range(200))


def turn():
    return np.linalg.qr(RNG.standard_normal((8, 8)))[0]


def tables():
    return {
        "a": (KEYS[:150], BASE[:150]),
        "b": (KEYS, BASE @ turn() + 2),
        "c": (KEYS[50:], BASE[50:] @ turn() - 1),
    }


def test_models_meet_and_gaps_are_left_out():
    given = tables()
    common = CommonVectors("a").fit(given)
    for name, (keys, rows) in given.items():
        np.testing.assert_allclose(common.transform(rows, name), BASE[keys], atol=1e-8)
    assert common.common_ == {("a", "b"): 150, ("a", "c"): 100, ("b", "c"): 150}
    mean = common.mean(given)
    assert mean.keys == tuple(KEYS)
    np.testing.assert_allclose(mean.vectors, BASE, atol=1e-8)
    one = common.mean({"c": given["c"]})
    np.testing.assert_allclose(one.vectors, BASE[50:], atol=1e-8)


def test_moments_are_enough():
    given = tables()
    (_, a), (_, b), _ = given.values()
    pairs = {("a", "b"): JointMoments.from_rows(a, b[:150])}
    common = CommonVectors().fit_moments(pairs)
    np.testing.assert_allclose(common.transform(b, "b"), BASE, atol=1e-8)
    assert clone(common).get_params() == common.get_params()


def test_without_shifts_cosines_stay():
    given = tables()
    common = CommonVectors(intercept=False).fit(given)
    rows = given["b"][1]
    moved = common.transform(rows, "b")
    np.testing.assert_allclose(moved @ moved.T, rows @ rows.T, atol=1e-9)
    single = common.transform(rows.astype(np.float32), "b")
    assert single.dtype == np.float32


def test_refusals():
    given = tables()
    with pytest.raises(GramianError, match="pivot is 'd'"):
        CommonVectors("d").fit(given)
    common = CommonVectors().fit(given)
    with pytest.raises(GramianError, match="model 'd'"):
        common.transform(BASE, "d")
    with pytest.raises(GramianError, match="expected 8"):
        common.transform(BASE[:, :3], "a")
    lonely = {"a": given["a"], "b": given["b"], "c": (["x"], BASE[:1])}
    with pytest.raises(GramianError, match="'c' has no key in common"):
        CommonVectors().fit(lonely)
    apart = {
        "a": ([1], BASE[:1]), "b": ([1], BASE[:1]), "c": ([2], BASE[:1]), "d": ([2], BASE[:1])
    }  # fmt: skip
    with pytest.raises(GramianError, match="not even"):
        CommonVectors().fit(apart)
