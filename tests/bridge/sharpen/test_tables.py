"""Zipfian whitening of static tables against its own conditions and a plain transcription."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from gramian.bridge.embedders.static import wordllama
from gramian.bridge.sharpen import token_counts, whiten_table, whiten_vectors
from gramian.errors import GramianError
from gramian.moments import Moments

RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((400, 12)) @ RNG.standard_normal((12, 12)) + 3
COUNTS = np.floor(1e5 / np.arange(1, 401) ** 1.1)


def cosines(rows):
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit @ unit.T


@pytest.mark.parametrize("kind", ["pca", "zca"])
def test_weighted_covariance_is_the_identity(kind):
    white = whiten_table(TABLE, COUNTS, kind=kind)
    p = white.frequencies
    new = white.map(torch.from_numpy(TABLE)).numpy()
    np.testing.assert_allclose(p @ new, 0, atol=1e-12)
    np.testing.assert_allclose(new.T @ (p[:, None] * new), np.eye(12), atol=1e-11)
    np.testing.assert_allclose(white.table, new, rtol=1e-5, atol=1e-5)
    assert white.table.shape == TABLE.shape


def test_kinds_have_the_same_cosines():
    pca, zca = (whiten_table(TABLE, COUNTS, kind=kind).table for kind in ("pca", "zca"))
    np.testing.assert_allclose(cosines(pca), cosines(zca), atol=1e-5)


def test_equal_counts_are_plain_pca_whitening():
    peer = PCA(whiten=True).fit_transform(TABLE) * np.sqrt(400 / 399)
    for counts in (None, np.full(400, 7.0)):
        found = whiten_table(TABLE, counts, kind="pca").table
        np.testing.assert_allclose(found * np.sign((found * peer).sum(0)), peer, atol=1e-5)


def test_counting_a_corpus_is_the_same_as_its_moments():
    documents = [RNG.integers(0, 400, size=n) for n in (0, 5, 3000, 1)]
    counts = token_counts(documents, 400)
    assert counts.sum() == 3006
    white = whiten_table(TABLE, counts, floor=0)
    stream = Moments.from_rows(TABLE[np.concatenate([d for d in documents if len(d)])])
    want = whiten_vectors(stream, kind="zca")
    np.testing.assert_allclose(white.map.to_dense(), want.to_dense(), atol=1e-9)
    np.testing.assert_allclose(white.map.bias, want.bias, atol=1e-9)


def test_special_tokens_weigh_nothing_and_are_zero():
    wild = TABLE.copy()
    wild[[0, 399]] = 1e6
    white = whiten_table(wild, COUNTS, special=[0, 399])
    np.testing.assert_array_equal(white.table[[0, 399]], 0)
    want = whiten_table(TABLE[1:-1], COUNTS[1:-1])
    np.testing.assert_allclose(white.table[1:-1], want.table, atol=1e-5)


def test_the_floor_lets_unseen_tokens_count():
    counts = np.zeros(400)
    counts[:5] = 100
    assert (whiten_table(TABLE, counts).frequencies > 0).all()
    # five tokens span four directions about their mean: the others are given up
    white = whiten_table(TABLE, counts, floor=0)
    assert np.linalg.matrix_rank(white.map.to_dense().numpy(), tol=1e-8) == 4


def test_a_large_mean_and_narrow_types():
    shifted = (TABLE + 1e4 * TABLE.std()).astype(np.float64)
    np.testing.assert_allclose(
        whiten_table(shifted, COUNTS).table, whiten_table(TABLE, COUNTS).table, atol=1e-4
    )
    half = torch.from_numpy(TABLE).to(torch.bfloat16)
    np.testing.assert_allclose(
        whiten_table(half, COUNTS).table, whiten_table(half.double(), COUNTS).table, atol=1e-5
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"counts": COUNTS[:-1]}, "one a row"),
        ({"counts": -COUNTS}, "negative"),
        ({"counts": 0 * COUNTS}, "all zero"),
        ({"special": [400]}, "outside a table"),
        ({"special": range(400)}, "special"),
        ({"floor": -1.0}, "floor"),
        ({"table": np.where(TABLE.max() - 1e-9 < TABLE, np.nan, TABLE)}, "NaN"),
        ({"table": np.ones((400, 3))}, "nothing varies"),
    ],
)
def test_refusals(change, message):
    arguments = {"table": TABLE, "counts": COUNTS} | change
    with pytest.raises(GramianError, match=message):
        whiten_table(**arguments)


def test_ids_of_another_tokenizer():
    with pytest.raises(GramianError, match="document 1: ids 0 to 400"):
        token_counts([[1], [0, 400]], 400)
    with pytest.raises(GramianError, match="float64"):
        token_counts([[0.5]], 400)


def test_a_real_table_keeps_its_shape_and_varies_alike():
    pytest.importorskip("wordllama")
    static = wordllama()
    text = ["The library reads a file and returns its lines as a list of strings."] * 3
    text += ["A dictionary maps keys to values; both may be of any type.", "Rain fell all day."]
    ids = [e.ids for e in static.tokenizer.encode_batch(text, add_special_tokens=False)]
    counts = token_counts(ids, len(static.table))
    white = whiten_table(static.table, counts, special=[0, 1, 2])
    assert white.table.shape == static.table.shape
    p = white.frequencies
    covariance = white.table.T.astype(float) @ (p[:, None] * white.table)
    np.testing.assert_allclose(covariance, np.eye(256), atol=2e-3)
