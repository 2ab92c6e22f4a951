"""How many pairs are enough, and whether a rotation will do, before anything is carried over."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gramian.bridge import Bridge, feasibility, learning_curve
from gramian.bridge.paired.assignment import folds_of, keys_of, second_places_of
from gramian.errors import GramianError
from gramian.moments import Shares
from tests.bridge.paired.sets import two_views


def test_every_size_is_the_fit_of_its_subset():
    x, y = (side.astype(np.float64) for side in two_views(3000))
    curve = learning_curve(x, y, sizes=[300, 1000, 2700], method="ridge", lam=0.01)
    keys = keys_of(x, None, 0)
    judging = folds_of(keys, Shares()) == 2
    place = second_places_of(keys)
    for record, size in zip(curve.records, (300, 1000, 2700), strict=True):
        mine = (place < size / 2700) | judging
        assert record["pairs"] == (mine & ~judging).sum()
        assert record["pairs"] == pytest.approx(size, rel=0.1)
        single = Bridge("ridge", lam=0.01).fit(x[mine], y[mine])
        assert record["r2_report"] == pytest.approx(single.r2_report_, abs=1e-9)
        assert record["recall@1"] == single.retrieval_report_["recall@1"]
    assert json.loads(json.dumps(curve.to_json()))["enough"] == curve.enough


def test_more_pairs_help_until_they_are_enough():
    x, y = two_views(8000, 24, 24, noise=0.5)
    curve = learning_curve(x, y, method="ridge")
    scores = [record["score"] for record in curve.records]
    assert scores[0] < scores[-1] - 0.02
    pairs = [record["pairs"] for record in curve.records]
    assert pairs == sorted(pairs)
    assert pairs[0] < curve.enough < pairs[-1]
    assert "within one standard error" in curve.note
    wide = learning_curve(*two_views(1500, 300, 300, noise=0.7), method="ridge")
    assert wide.enough == wide.records[-1]["pairs"]
    assert "more will help" in wide.note


def test_without_rows_by_r2_and_with_ids():
    x, y = two_views(2000)
    curve = learning_curve(x, y, np.arange(2000), method="procrustes", held_rows=0)
    assert all("recall@1" not in record for record in curve.records)
    assert curve.enough is None
    assert curve.records[0]["r2_report"] > 0.3


def test_curves_that_cannot_be_drawn():
    x, y = two_views(300)
    with pytest.raises(GramianError, match=r"sizes are \[10\]"):
        learning_curve(x, y, sizes=[10])
    with pytest.raises(GramianError, match=r"expected whole numbers of 20 to 270"):
        learning_curve(x, y, sizes=[300])
    with pytest.raises(GramianError, match="60 pairs show no curve"):
        learning_curve(x[:60], y[:60])
    with pytest.raises(GramianError, match="does not trim"):
        learning_curve(x, y, trim=True)
    x[5] = np.inf
    with pytest.raises(GramianError, match="X: row 5"):
        learning_curve(x, y)


def test_a_rotation_is_promised_where_there_is_one():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3000, 20))
    turned = x @ np.linalg.qr(rng.standard_normal((20, 20)))[0]
    sure = feasibility(x, 3.0 * turned)
    assert sure.cosine == pytest.approx(1.0, abs=1e-6)
    near = feasibility(x, turned + 0.003 * rng.standard_normal(x.shape))
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (x, turned)]
    rotation = Bridge("procrustes", intercept=False).fit(*unit)
    assert near.cosine <= rotation.cosine_report_ + 1e-9
    assert 0.8 < near.cosine < 1.0
    nothing = feasibility(x, rng.standard_normal(x.shape))
    assert nothing.cosine < 0.01
    assert json.loads(json.dumps(nothing.to_json()))["cosine"] == nothing.cosine
    sampled = feasibility(x.astype(np.float16), turned.astype(np.float32), rows=500)
    assert sampled.cosine > 0.99
    bridge = Bridge("procrustes").fit(x, turned)
    assert bridge.bound_.cosine == pytest.approx(1.0, abs=1e-6)
    assert Bridge("procrustes", held_rows=0).fit(x, turned).bound_ is None
    full = Bridge("procrustes", held_rows=0, target_moments="full").fit(x, turned)
    assert full.bound_.error == pytest.approx(0.0, abs=1e-4)
    with pytest.raises(GramianError, match="3000 rows of X and 2 of Y"):
        feasibility(x, turned[:2])
    with pytest.raises(GramianError, match="X: row 2 holds NaN"):
        feasibility([[1.0, 2.0], [0.0, 0.0], [np.nan, 1.0]], np.ones((3, 2)))
