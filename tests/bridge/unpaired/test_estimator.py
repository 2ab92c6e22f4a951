"""Bridges without pairs: found where one rotation stands out, refused where none does."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from sklearn.base import clone

import gramian as gm
from gramian.bridge import AmbiguousMatch, UnpairedBridge
from gramian.bridge.embedders import open_embedder
from gramian.errors import GramianError
from tests.bridge.unpaired.clouds import clustered, top_1, turn

WIDTH = 24
QUICK = {"runs": 5, "steps": 15}
"""Enough for clouds that are easily told apart."""


@pytest.fixture(scope="module")
def halves():
    """Two sets of rows that share none, the second turned and shifted, and 300 pairs."""
    rows = clustered(5000, WIDTH)
    turned = 3 * rows @ turn(WIDTH) + np.linspace(-1, 1, WIDTH)
    return rows[:2000], turned[2300:4300], rows[2000:2300], turned[2000:2300]


@pytest.fixture(scope="module")
def fitted(halves):
    return UnpairedBridge(**QUICK).fit(halves[0], halves[1])


def test_the_rotation_the_scale_and_both_means_are_found(halves, fitted):
    x, y, left, partners = halves
    assert fitted.confidence_ > 0.6
    assert (fitted.weight_ * turn(WIDTH)).sum() / WIDTH > 0.98
    assert fitted.scale_ == pytest.approx(3, rel=0.05)
    np.testing.assert_allclose(fitted.mean_in_, x.mean(0), atol=1e-6)
    np.testing.assert_allclose(fitted.mean_out_, y.mean(0), atol=1e-6)
    assert np.abs(fitted.weight_.T @ fitted.weight_ - np.eye(WIDTH)).max() < 1e-10
    mapped = fitted.transform(left)
    assert top_1(mapped - fitted.mean_out_, partners - fitted.mean_out_) > 0.9
    np.testing.assert_allclose(fitted.inverse_transform(mapped), left, atol=1e-8)
    expected = fitted.scale_ * (left - fitted.mean_in_) @ fitted.weight_ + fitted.mean_out_
    np.testing.assert_allclose(mapped, expected, atol=1e-9)


@pytest.mark.parametrize("widths", [(24, 32), (32, 24)])
def test_unequal_widths(widths):
    less = min(widths)
    rows = clustered(4300, less)
    sides = [rows if width == less else rows @ turn(less, width) for width in widths]
    found = UnpairedBridge(**QUICK).fit(sides[0][:2000], sides[1][2300:])
    assert found.transform(sides[0][:1]).shape == (1, widths[1])
    gram = found.weight_ @ found.weight_.T if widths[0] == less else found.weight_.T @ found.weight_
    assert np.abs(gram - np.eye(less)).max() < 1e-10
    left, partners = sides[0][2000:2300], sides[1][2000:2300]
    assert top_1(found.transform(left) - found.mean_out_, partners - found.mean_out_) > 0.9


def test_streamed_clouds_give_the_same_bridge(halves, fitted):
    x, y, _, _ = halves
    again = UnpairedBridge(**QUICK)
    clouds = again.new_cloud(0), again.new_cloud(1)
    for cloud, rows in zip(clouds, (x, y), strict=True):
        cloud.update(rows)
    again.fit_clouds(*clouds)
    assert (again.weight_ == fitted.weight_).all()
    assert again.n_features_in_ == WIDTH
    assert again.rows_ == (2000, 2000)


def test_the_seed_decides_and_nothing_else(halves, fitted):
    x, y, left, _ = halves
    again = clone(fitted).fit(x, y)
    assert (again.weight_ == fitted.weight_).all()
    other = UnpairedBridge(**QUICK, random_state=1).fit(x, y)
    assert (other.weight_ != fitted.weight_).any()
    assert (other.weight_ * fitted.weight_).sum() / WIDTH > 0.98
    loaded = pickle.loads(pickle.dumps(fitted))
    assert (loaded.transform(left) == fitted.transform(left)).all()
    assert list(fitted.get_feature_names_out())[:2] == ["unpairedbridge0", "unpairedbridge1"]


def test_half_precision_and_a_mean_far_from_zero(halves, fitted):
    x, y, left, partners = halves
    half = UnpairedBridge(**QUICK).fit(x.astype(np.float16), y.astype(np.float16))
    assert (half.weight_ * fitted.weight_).sum() / WIDTH > 0.98
    far = UnpairedBridge(**QUICK).fit(x + 1e4, y - 1e4)
    assert (far.weight_ * fitted.weight_).sum() / WIDTH > 0.98
    mapped = far.transform(left + 1e4)
    assert top_1(mapped - far.mean_out_, partners - 1e4 - far.mean_out_) > 0.9


class TestAmbiguous:
    """Clouds of which no rotation can be known: every one of these must be refused."""

    def refused(self, x, y, **settings):
        with pytest.raises(AmbiguousMatch, match="cannot be matched without pairs") as caught:
            UnpairedBridge(**settings).fit(x, y)
        assert caught.value.confidence.value < 0.5
        return caught.value

    def test_isotropic(self):
        draw = np.random.default_rng(0)
        self.refused(draw.standard_normal((2000, 16)), draw.standard_normal((2000, 16)))

    def test_one_gaussian_with_axes_whose_signs_are_free(self):
        draw = np.random.default_rng(0)
        scale = np.linspace(3, 0.3, 16)
        x, y = (draw.standard_normal((2000, 16)) * scale for _ in range(2))
        self.refused(x, y @ turn(16))

    def test_a_mirror_changes_nothing(self):
        half = clustered(1200, WIDTH)
        half -= half.mean(0)
        rows = np.random.default_rng(0).permutation(np.concatenate([half, -half]))
        self.refused(rows[:1200], rows[1200:] @ turn(WIDTH))

    def test_clouds_of_nothing_alike(self):
        self.refused(clustered(2000, WIDTH, seed=0), clustered(2000, WIDTH, seed=1))

    def test_a_warning_instead(self):
        draw = np.random.default_rng(0)
        x, y = draw.standard_normal((2000, 16)), draw.standard_normal((2000, 16))
        with pytest.warns(UserWarning, match="confidence 0"):
            found = UnpairedBridge(on_ambiguous="warn").fit(x, y)
        assert found.confidence_ < 0.5
        assert set(found.evidence_.to_json()) >= {"value", "agreement", "fit", "distinctness"}


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda x, y: (x, None), "requires y to be passed"),
        (lambda x, y: (x[:150], y), "X has 150 rows; .* at least 200"),
        (lambda x, y: (x, y[:9]), "Y has 9 rows"),
        (lambda x, y: (np.ones_like(x), y), "X are all equal"),
        (lambda x, y: (np.where(np.arange(len(x))[:, None] == 77, np.nan, x), y), "row 77"),
        (lambda x, y: (x, np.where(np.arange(len(y))[:, None] == 5, np.inf, y)), "row 5"),
    ],
)
def test_rows_that_are_refused(halves, change, message):
    with pytest.raises(GramianError, match=message):
        UnpairedBridge().fit(*change(halves[0], halves[1]))


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"clusters": 2}, "clusters is 2, expected a whole number of at least 3"),
        ({"runs": 1.5}, "runs is 1.5"),
        ({"on_ambiguous": "ignore"}, "on_ambiguous is 'ignore'"),
        ({"pool_rows": 0}, "a cloud of 0 rows"),
    ],
)
def test_settings_that_are_refused(halves, settings, message):
    with pytest.raises(GramianError, match=message):
        UnpairedBridge(**settings).fit(halves[0], halves[1])


@pytest.mark.slow
def test_a_turned_copy_of_minilm_is_recovered_from_other_texts():
    texts = sorted(
        {
            text
            for document in gm.documents("bundled:pydocs")
            for part in re.split(r"(?<=[.!?])\s+|\n\n+", document.text)
            if 40 < len(text := " ".join(part.split())) < 300
        }
    )
    rows = np.unique(open_embedder("bundled:minilm")(texts), axis=0)
    order = np.random.default_rng(0).permutation(len(rows))
    further, one, other = order[:500], order[500::2], order[501::2]
    turned = rows @ turn(rows.shape[1]).astype(np.float32)
    found = UnpairedBridge().fit(rows[one], turned[other])
    mapped = found.transform(rows[further])
    assert top_1(mapped - found.mean_out_, turned[further] - found.mean_out_) == 1
    # A model of another kind does not match, and is refused
    with pytest.raises(AmbiguousMatch):
        UnpairedBridge().fit(rows[one], open_embedder("bundled:wordllama")(texts)[: len(one)])
