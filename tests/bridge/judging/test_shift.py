"""Scores that move, and the table that moves them back."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gramian.bridge.judging import ScoreCalibration, score_shift
from gramian.errors import GramianError


def test_same_scores_do_not_shift():
    scores = np.random.default_rng(0).random((20, 5))
    assert score_shift(scores, scores, (scores, scores)).ks == 0


def test_scores_apart_shift_wholly_and_come_back():
    random = np.random.default_rng(1)
    bridged = random.random((200, 5))
    old = 3 + np.sqrt(bridged)
    found = score_shift(old, bridged, (bridged, old))
    assert found.ks == 1
    assert found.ks_calibrated < 0.1
    np.testing.assert_allclose(found.calibration(bridged), old, atol=0.02)
    assert found.correlation == pytest.approx(1)
    assert found.median_old > found.median_bridge


def test_quantiles_are_matched():
    table = ScoreCalibration.fit([4, 1, 3, 2], [10, 30, 20, 40])
    np.testing.assert_allclose(table([1, 2, 3, 4]), [10, 20, 30, 40])
    np.testing.assert_allclose(table([-9, 1.5, 9]), [10, 15, 40])
    tied = ScoreCalibration.fit([1, 1, 2, 2], [1, 2, 3, 4])
    np.testing.assert_allclose(tied([1, 2]), [1.5, 3.5])


def test_noise_does_not_draw_scores_to_the_mean():
    """As many of new queries pass a threshold as passed before, though scores are noisy."""
    random = np.random.default_rng(6)
    truth = random.standard_normal((2000, 5))
    old, bridged = 0.5 + 0.1 * truth, 2 * truth + 2 * random.standard_normal(truth.shape)
    table = ScoreCalibration.fit(bridged[:1000], old[:1000])
    for threshold in (0.4, 0.55, 0.6):
        share = (table(bridged[1000:]) >= threshold).mean()
        assert share == pytest.approx((old[1000:] >= threshold).mean(), abs=0.03)
    assert len(table.old) <= 257
    found = score_shift(old, bridged, (bridged, old))
    # of two normal variables with correlation r Spearman's is 6/pi asin(r/2)
    assert found.correlation == pytest.approx(6 / np.pi * np.arcsin(np.sqrt(0.5) / 2), abs=0.02)


def test_threshold_on_the_new_scale():
    table = ScoreCalibration((0.0, 1.0, 2.0), (0.0, 0.5, 0.9))
    assert table.threshold(0.5) == 1.0
    assert table.threshold(0.7) == pytest.approx(1.5)
    assert table(table.threshold(0.8)) == pytest.approx(0.8)
    assert table.threshold(-1) == 0.0
    assert table.threshold(0.95) is None


def test_saved_and_loaded(tmp_path):
    table = ScoreCalibration.fit(np.arange(9), np.sqrt(np.arange(9)))
    path = table.save(tmp_path / "scores.json")
    assert ScoreCalibration.load(path) == table
    with pytest.raises(GramianError, match="exists"):
        table.save(path)
    table.save(path, force=True)


@pytest.mark.parametrize(
    "text, message",
    [
        ("[]", "expected an object"),
        ("{", "not valid JSON"),
        ('{"format": "other", "bridged": [], "old": []}', "expected one of"),
        ('{"format": "gramian score calibration", "bridged": [1, "x"], "old": [1, 2]}', "numbers"),
        ('{"format": "gramian score calibration", "bridged": [2, 1], "old": [1, 2]}', "must rise"),
        ('{"format": "gramian score calibration", "bridged": [1, 2], "old": [2, 1]}', "never fall"),
        ('{"format": "gramian score calibration", "bridged": [], "old": []}', "0 bridged"),
        ('{"format": "gramian score calibration", "bridged": [1], "old": [1], "x": 1}', "unknown"),
    ],
)
def test_files_that_are_not_ours(tmp_path, text, message):
    path = tmp_path / "scores.json"
    path.write_text(text)
    with pytest.raises(GramianError, match=message):
        ScoreCalibration.load(path)
    with pytest.raises(GramianError, match="No such file"):
        ScoreCalibration.load(tmp_path / "none.json")


def test_constant_scores():
    flat = np.ones((6, 2))
    found = score_shift(flat, flat, (flat, 2 * flat))
    assert found.calibration(1.0) == 1.0
    assert found.correlation is None
    assert json.dumps(found.to_json(), allow_nan=False)


def test_few_queries_hold_nothing_back():
    one = np.ones((2, 3))
    assert score_shift(one, one, (one, one)).ks_calibrated is None


def test_refusals():
    with pytest.raises(GramianError, match="scores of 2, 3"):
        score_shift(np.ones((2, 1)), np.ones((3, 1)), (np.ones((2, 1)), np.ones((2, 1))))
    with pytest.raises(GramianError, match="0 bridged"):
        ScoreCalibration.fit([], [])
