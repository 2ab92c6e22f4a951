"""Subclass targets: sums, orthogonality, scikit-learn's PCA and planted subclasses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import torch
from scipy.special import softmax
from sklearn.decomposition import PCA

from gramian.bridge.labels import subclass_targets
from gramian.errors import GramianError
from gramian.moments import Moments

G = np.random.default_rng(0)
W = G.normal(size=(3, 10))
ROWS = [G.normal(size=(400, 10)) @ G.normal(size=(10, 10)) + 3 * W[c] for c in range(3)]


def moments(rows: Any) -> list[Moments]:
    return [Moments.from_rows(torch.tensor(r)) for r in rows]


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_sums_to_the_class_and_ignores_the_classifier(offset: float) -> None:
    rows = [r + offset for r in ROWS]
    found = subclass_targets(moments(rows), W, subclasses=4, temperature=0.5)
    x = np.concatenate(rows)
    p = softmax(np.concatenate(ROWS) @ W.T, axis=1)
    targets = found.targets(x, p)
    assert targets.shape == (1200, 3, 4)
    assert (targets >= 0).all()
    assert np.abs(targets.sum(2) - p).max() < 1e-12
    assert np.abs(found.directions @ W.T).max() < 1e-10
    gram = np.einsum("csd,ctd->cst", found.directions, found.directions)
    assert np.abs(gram - np.eye(4)).max() < 1e-12
    # a step along what the classifier reads changes no subclass
    np.testing.assert_allclose(found.logits(x + W[1]), found.logits(x), atol=1e-8)


def test_spans_the_principal_directions_of_the_null_space() -> None:
    found = subclass_targets(moments(ROWS), W, subclasses=3)
    null = scipy.linalg.null_space(W)
    for c, rows in enumerate(ROWS):
        pca = PCA(3).fit(rows @ null)
        angles = scipy.linalg.subspace_angles(found.directions[c].T, null @ pca.components_.T)
        assert angles.max() < 1e-7
        own = found.logits(rows)[:, c]
        assert abs(np.square(own).mean() - 1) < 1e-9
        assert np.abs(own.mean(0)).max() < 1e-9


def test_splits_planted_subclasses_and_scale_does_not_matter() -> None:
    hidden = np.arange(600) % 2
    x = 0.3 * G.normal(size=(600, 6))
    x[:, 5] += np.where(hidden == 1, 2.0, -2.0)
    weights = np.eye(2, 6)
    found = subclass_targets(moments([x, x]), weights, subclasses=2, temperature=0.1)
    p = np.full((600, 2), 0.5)
    side = found.targets(x, p)[:, 0].argmax(1)
    assert max((side == hidden).mean(), (side != hidden).mean()) > 0.95
    wide = subclass_targets(moments([1e3 * x] * 2), weights, subclasses=2, temperature=0.1)
    np.testing.assert_allclose(wide.targets(1e3 * x, p), found.targets(x, p), atol=1e-9)


def test_duplicated_classifier_rows_and_half_precision() -> None:
    weights = np.stack([W[0], W[0], W[1]])
    found = subclass_targets(moments(ROWS), weights, subclasses=8)
    assert np.abs(found.directions @ weights.T).max() < 1e-10
    p = softmax(ROWS[0] @ W.T, axis=1).astype(np.float16)
    assert np.abs(found.targets(ROWS[0].astype(np.float16), p).sum(2) - p).max() < 1e-7


def test_refusals() -> None:
    full = moments(ROWS)
    for classes, weights, options, match in (
        (full[:2], W, {}, "2 classes and a classifier of 3"),
        (full, W, {"subclasses": 8}, "varies in 7"),
        (full, W, {"subclasses": 0}, "at least 1"),
        (full, W, {"temperature": 0.0}, "above 0"),
        (moments([r[:3] for r in ROWS]), W, {"subclasses": 3}, "varies in 2"),
        (moments([r[:, :4] for r in ROWS]), W, {}, "width 10"),
        (full, np.where(W > 0, np.nan, W), {}, "NaN"),
    ):
        with pytest.raises(GramianError, match=match):
            subclass_targets(classes, weights, **options)
    found = subclass_targets(full, W)
    with pytest.raises(GramianError, match="sum to 1"):
        found.targets(ROWS[0], ROWS[0] @ W.T)
    with pytest.raises(GramianError, match="rows of probabilities"):
        found.targets(ROWS[0], np.full((2, 3), 1 / 3))
