"""Whitening against scikit-learn and its own conditions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import Moments
from gramian.solvers import colouring, whitening


def rows(n: int, d: int, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=draw, dtype=torch.float64)
    return x @ torch.randn(d, d, generator=draw, dtype=torch.float64) + 2


@pytest.mark.parametrize("rank", [None, 3])
def test_pca_is_that_of_scikit_learn(rank: int | None) -> None:
    x = rows(300, 7)
    found = whitening(Moments.from_rows(x), rank=rank)(x)
    peer = PCA(n_components=rank or 7, whiten=True).fit_transform(x.numpy())
    peer *= np.sqrt(300 / 299)
    signs = np.sign((found.numpy() * peer).sum(0))
    np.testing.assert_allclose(found * torch.from_numpy(signs), peer, atol=1e-9)


@pytest.mark.parametrize("kind", ["pca", "zca", "cholesky"])
def test_identity_to_rounding(kind: str) -> None:
    moments = Moments.from_rows(rows(500, 16))
    white = moments.through(whitening(moments, kind=kind))
    np.testing.assert_allclose(white.scatter / 500, np.eye(16), atol=1e-12)
    np.testing.assert_allclose(white.mean, 0, atol=1e-12)


@pytest.mark.parametrize("rank", [None, 2])
def test_zca_is_the_nearest_to_the_rows(rank: int | None) -> None:
    moments = Moments.from_rows(rows(300, 5))
    zca = whitening(moments, kind="zca", rank=rank).to_dense()
    values, vectors = np.linalg.eigh((moments.scatter / 300).numpy())
    kept = slice(-(rank or 5), None)
    want = (vectors[:, kept] / np.sqrt(values[kept])) @ vectors[:, kept].T
    np.testing.assert_allclose(zca, want, atol=1e-10)


def test_weights_are_frequencies() -> None:
    x = rows(40, 4)
    times = torch.arange(1, 41)
    share = times.double() / times.sum()
    found = whitening(Moments.from_rows(x, share), kind="zca")
    want = whitening(Moments.from_rows(x.repeat_interleave(times, 0)), kind="zca")
    np.testing.assert_allclose(found.to_dense(), want.to_dense(), atol=1e-10)
    np.testing.assert_allclose(found.bias, want.bias, atol=1e-10)


def test_a_ridge_limits_the_gain_of_noise() -> None:
    x = rows(200, 5)
    x[:, 4] = x[:, 3] * (1 + 1e-9)
    moments = Moments.from_rows(x)
    values = np.linalg.eigvalsh((moments.scatter / 200).numpy()).clip(0)
    for kind in ("pca", "zca", "cholesky"):
        weight = whitening(moments, kind=kind, ridge=0.1).to_dense()
        top = float(torch.linalg.matrix_norm(weight, 2))
        assert top <= 1.2 / np.sqrt(0.1 * values.mean())


@pytest.mark.parametrize("kind", ["pca", "zca"])
def test_fewer_rows_than_dimensions(kind: str) -> None:
    x = rows(6, 9)
    moments = Moments.from_rows(x)
    map = whitening(moments, kind=kind)
    assert map.out_features == (5 if kind == "pca" else 9)
    white = (moments.through(map).scatter / 6).numpy()
    np.testing.assert_allclose(np.linalg.eigvalsh(white)[-5:], 1.0, atol=1e-9)
    back = colouring(moments, kind=kind)
    np.testing.assert_allclose(back(map(x)), x, atol=1e-8)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize(("kind", "rank"), [("pca", 3), ("zca", 3), ("cholesky", None)])
def test_colouring_goes_back(kind: str, rank: int | None, ridge: float) -> None:
    x = rows(200, 5)
    moments = Moments.from_rows(x)
    map = whitening(moments, kind=kind, rank=rank, ridge=ridge)
    back = colouring(moments, kind=kind, rank=rank, ridge=ridge)
    linear, undo = map.to_dense(), back.to_dense()
    np.testing.assert_allclose(undo, torch.linalg.pinv(linear), atol=1e-9)
    np.testing.assert_allclose(back.bias, moments.mean, atol=1e-12)
    # what is lost is what the directions left out hold
    best = PCA(n_components=rank or 5).fit(x.numpy())
    want = best.inverse_transform(best.transform(x.numpy()))
    np.testing.assert_allclose(back(map(x)), want, atol=1e-9)


def test_refusals() -> None:
    moments = Moments.from_rows(rows(30, 4))
    with pytest.raises(GramianError, match="full moments"):
        whitening(moments.diagonal())
    with pytest.raises(GramianError, match="ridge is inf"):
        whitening(moments, ridge=float("inf"))
    with pytest.raises(GramianError, match="at least 2"):
        whitening(Moments.from_rows(rows(1, 4)))
