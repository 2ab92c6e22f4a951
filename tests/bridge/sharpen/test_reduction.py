"""Narrower vectors: the curve, the choice, and its limits."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA, TruncatedSVD

from gramian.bridge.sharpen import reduce_width, whiten_vectors
from gramian.errors import GramianError

RNG = np.random.default_rng(0)
BASIS = np.linalg.qr(RNG.standard_normal((32, 32)))[0]


def cloud(n, scale):
    return (RNG.standard_normal((n, 32)) * scale) @ BASIS


FALLING = cloud(900, np.exp(-np.arange(32) / 4)) + 0.2


def test_vectors_of_few_dimensions_lose_nothing():
    rows = cloud(600, np.arange(32) < 8)
    found = reduce_width(rows, widths=[4, 8, 16])
    assert found.width == 8
    assert [cost.width for cost in found.curve] == [4, 8, 16, 32]
    assert found.curve[1].overlap > 0.999
    assert found.curve[0].overlap < 0.9
    narrow = found.map(rows).numpy()
    np.testing.assert_allclose(narrow @ narrow.T, rows @ rows.T, atol=1e-9)


def test_directions_are_those_of_scikit_learn():
    queries = FALLING[:50]
    about_zero = reduce_width(FALLING[50:], queries, width=5).map.to_dense().numpy()
    peer = TruncatedSVD(5, algorithm="arpack").fit(FALLING[50:]).components_
    np.testing.assert_allclose(np.abs((about_zero * peer).sum(1)), 1, atol=1e-9)
    centred = reduce_width(FALLING[50:], queries, width=5, centre=True).map
    peer = PCA(5).fit(FALLING[50:])
    want = peer.transform(queries)
    found = centred(queries).numpy()
    np.testing.assert_allclose(found * np.sign((found * want).sum(0)), want, atol=1e-9)


def test_the_curve_rises_and_the_choice_keeps_what_was_asked():
    found = reduce_width(FALLING, keep=0.8)
    overlaps = [cost.overlap for cost in found.curve]
    assert overlaps == sorted(overlaps)
    assert overlaps[-1] > 0.999
    chosen = next(cost for cost in found.curve if cost.width == found.width)
    assert chosen.overlap >= 0.8
    assert all(cost.overlap < 0.8 for cost in found.curve if cost.width < found.width)
    assert found.curve[-1].energy == pytest.approx(1.0)
    assert reduce_width(FALLING, keep=1.0).width <= 32
    again = reduce_width(FALLING, keep=0.8)
    assert again.curve == found.curve


def test_recall_of_named_rows():
    queries = FALLING[:100] + 1e-3 * RNG.standard_normal((100, 32))
    found = reduce_width(FALLING, queries, wanted=np.arange(100), k=1, widths=[1, 16])
    assert found.curve[-1].recall == 1.0
    assert found.curve[0].recall < 0.5


def test_rows_of_a_type_and_a_large_mean():
    rows = (FALLING + 100).astype(np.float16)
    assert reduce_width(rows, width=4, centre=True).map.shape == (4, 32)
    fewer = reduce_width(FALLING[:25], k=3)  # fewer rows than dimensions
    assert 1 <= fewer.width <= 32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keep": 0.0}, "keep is 0"),
        ({"width": 33}, "expected 1 to 32"),
        ({"widths": [0, 4]}, "expected 1 to 32"),
        ({"vectors": FALLING[:10]}, "at least 20"),
        ({"vectors": 0 * FALLING}, "all zero"),
        ({"queries": FALLING[:5, :3]}, "expected 32"),
        ({"queries": FALLING[:0]}, "no queries"),
        ({"wanted": [1]}, "pass the queries"),
        ({"queries": FALLING[:2], "wanted": [1, 900]}, "outside"),
        ({"k": 10_000}, "expected 1 to"),
    ],
)
def test_refusals(change, message):
    arguments = {"vectors": FALLING} | change
    with pytest.raises(GramianError, match=message):
        reduce_width(**arguments)


def test_whitened_vectors_vary_alike():
    white = whiten_vectors(FALLING.astype(np.float32), rank=6)(FALLING).numpy()
    np.testing.assert_allclose(white.T @ white / 900, np.eye(6), atol=1e-4)
    with pytest.raises(GramianError, match="NaN"):
        whiten_vectors(np.array([[1.0, np.nan], [0.0, 1.0]]))
