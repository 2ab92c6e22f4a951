"""Bures and Fréchet distances and the mean of covariances against POT."""

from __future__ import annotations

import numpy as np
import ot.gaussian
import pytest
import torch
from torch import Tensor

from gramian.measures import bures_distance, bures_mean, frechet_distance
from gramian.moments import Moments


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def covariance(d: int, seed: int) -> Tensor:
    root = normal(d, d + 3, seed=seed) * torch.logspace(0, -2, d).double()[:, None]
    return root @ root.T


@pytest.mark.parametrize("d", [1, 4, 30])
def test_bures(d: int) -> None:
    a, b = covariance(d, 0), covariance(d, 1)
    want = ot.gaussian.bures_distance(a.numpy(), b.numpy())
    assert bures_distance(a, b) == pytest.approx(want, rel=1e-9)


def test_frechet() -> None:
    x, y = normal(80, 6) + 1, normal(90, 6, seed=1) @ normal(6, 6, seed=2)
    a, b = Moments.from_rows(x), Moments.from_rows(y)
    want = ot.gaussian.bures_wasserstein_distance(
        a.mean.numpy(), b.mean.numpy(), a.covariance().numpy(), b.covariance().numpy()
    )
    assert frechet_distance(a, b) == pytest.approx(want, rel=1e-9)


def test_singular_matrices_are_the_limit() -> None:
    """POT takes no singular matrix; ours is where its answers go as the jitter goes to zero."""
    a, b = (root @ root.T for root in (normal(8, 5), normal(8, 3, seed=1)))
    for jitter in (1e-3, 1e-5):
        full = (t.numpy() + jitter * np.eye(8) for t in (a, b))
        want = ot.gaussian.bures_distance(*full)
        assert bures_distance(a, b) == pytest.approx(want, abs=3 * jitter**0.5)


def test_mean() -> None:
    parts = [covariance(5, seed) for seed in range(4)]
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    _, want = ot.gaussian.bures_wasserstein_barycenter(
        np.zeros((4, 5)), torch.stack(parts).numpy(), weights, num_iter=2000, eps=1e-14
    )
    got = bures_mean(parts, weights.tolist(), tolerance=1e-13)
    assert got.numpy() == pytest.approx(want, abs=1e-9 * float(parts[0].trace()))
