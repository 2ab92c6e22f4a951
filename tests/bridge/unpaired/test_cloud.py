"""A bounded sample: what is kept, of what it is the mean, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.bridge.unpaired import Cloud
from gramian.errors import GramianError


def test_batches_of_any_size_give_the_same_sample_and_the_mean_of_all():
    rows = np.random.default_rng(0).standard_normal((5000, 6)) + 7
    whole, parts = Cloud(400), Cloud(400)
    whole.update(rows)
    for start in range(0, 5000, 611):
        parts.update(rows[start : start + 611])
    assert whole.count == parts.count == 5000
    np.testing.assert_allclose(whole.mean, rows.mean(0), atol=1e-9)
    np.testing.assert_allclose(parts.mean, rows.mean(0), atol=1e-9)
    kept, length = whole.centred()
    assert kept.shape == (400, 6)
    np.testing.assert_allclose(np.linalg.norm(kept, axis=1), 1, atol=1e-6)
    assert length == pytest.approx(np.linalg.norm(rows - rows.mean(0), axis=1).mean(), rel=0.05)
    # The draw does not depend on how rows came
    np.testing.assert_allclose(parts.centred()[0], kept, atol=1e-5)


def test_every_row_is_as_likely():
    hits = np.zeros(50)
    for seed in range(400):
        cloud = Cloud(10, seed=seed)
        for row in range(50):
            cloud.update(np.full((1, 1), float(row)))
        hits[np.rint(cloud._kept[:, 0] + cloud._shift[0]).astype(int)] += 1
    assert hits.sum() == 4000
    # 80 expected, standard deviation 8
    assert np.abs(hits - 80).max() < 40


def test_refusals():
    cloud = Cloud(10)
    with pytest.raises(GramianError, match="no rows; expected vectors"):
        cloud.centred()
    cloud.update(np.ones((3, 4)))
    with pytest.raises(GramianError, match="4"):
        cloud.update(np.ones((3, 5)))
    with pytest.raises(GramianError, match="all equal"):
        cloud.centred("X")
    with pytest.raises(GramianError, match="row 1"):
        Cloud().update(np.array([[1.0], [np.nan]]))
