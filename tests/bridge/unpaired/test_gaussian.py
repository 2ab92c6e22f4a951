"""The Gaussian map: it undoes a shift within one space, and cannot undo a rotation."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.bridge import GaussianBridge
from gramian.errors import GramianError
from gramian.moments import Moments
from tests.bridge.unpaired.clouds import clustered, top_1, turn

WIDTH = 16


@pytest.fixture(scope="module")
def rows():
    return clustered(6300, WIDTH)


def test_a_stretch_and_a_shift_are_undone(rows):
    scale = np.linspace(0.4, 2.5, WIDTH)
    moved = rows * scale + 3
    found = GaussianBridge().fit(moved[:3000], rows[3000:6000])
    left, partners = moved[6000:], rows[6000:]
    assert top_1(found.transform(left), partners) > 0.95
    assert top_1(left, partners) < 0.7
    exact = GaussianBridge().fit(moved, rows)
    np.testing.assert_allclose(exact.transform(moved), rows, atol=1e-3)
    # Its matrix is symmetric and positive
    dense = exact.map_.map.to_dense().numpy()
    np.testing.assert_allclose(dense, dense.T, atol=1e-9)
    assert np.linalg.eigvalsh(dense).min() > 0


def test_mean_and_covariance_agree_afterwards_though_a_rotation_is_not_found(rows):
    turned = rows @ turn(WIDTH)
    found = GaussianBridge().fit(turned[:3000], rows[3000:6000])
    mapped = found.transform(turned[:3000])
    np.testing.assert_allclose(mapped.mean(0), rows[3000:6000].mean(0), atol=1e-8)
    np.testing.assert_allclose(np.cov(mapped.T), np.cov(rows[3000:6000].T), atol=1e-3)
    assert top_1(found.transform(turned[6000:]), rows[6000:]) < 0.5


def test_moments_are_enough(rows):
    x, y = rows[:3000] * 2, rows[3000:]
    direct = GaussianBridge().fit(x, y)
    built = GaussianBridge().fit_moments(
        Moments.from_rows(x, quartic=False), Moments.from_rows(y, quartic=False)
    )
    np.testing.assert_allclose(built.transform(x), direct.transform(x), atol=1e-9)
    assert built.n_features_in_ == WIDTH
    # alpha = 1 stays where it is
    stays = GaussianBridge(alpha=1.0).fit(x, y)
    np.testing.assert_allclose(stays.transform(x), x, atol=1e-9)


def test_refusals(rows):
    with pytest.raises(GramianError, match="both must come from one model"):
        GaussianBridge().fit(rows, rows[:, :5])
    with pytest.raises(GramianError, match="requires y"):
        GaussianBridge().fit(rows)
    bad = rows.copy()
    bad[9000 % len(bad), 3] = np.nan
    with pytest.raises(GramianError, match=f"row {9000 % len(bad)}"):
        GaussianBridge().fit(bad, rows)
    with pytest.raises(GramianError, match="alpha"):
        GaussianBridge(alpha=float("nan")).fit(rows, rows)
