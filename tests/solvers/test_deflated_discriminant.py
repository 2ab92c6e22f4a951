"""Deflated directions against scikit-learn's discriminant and a planted second feature."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from gramian.errors import GramianError
from gramian.moments import Moments
from gramian.solvers import Deflated, deflated_discriminant

G = np.random.default_rng(0)


def drawn(n: int, gaps: object, d: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Two balanced classes that differ by gaps in the first coordinates."""
    y = np.arange(n) % 2
    x = G.normal(size=(n, d))
    gaps = np.asarray(gaps, dtype=float)
    x[:, : len(gaps)] += y[:, None] * gaps
    return x, y


def solve(x: np.ndarray, y: np.ndarray, **options: Any) -> Deflated:
    means = np.stack([x[y == k].mean(0) for k in np.unique(y)])
    moments = Moments.from_rows(torch.tensor(x))
    return deflated_discriminant(
        moments, torch.tensor(np.bincount(y)), torch.tensor(means), **options
    )


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_first_is_the_discriminant_and_all_are_orthonormal(classes: int, offset: float) -> None:
    y = np.arange(900) % classes
    x = G.normal(size=(900, 8)) @ G.normal(size=(8, 8)) + 3 * G.normal(size=(classes, 8))[y]
    found = solve(x + offset, y, level=None)
    pi = found.projection
    assert pi.shape[1] >= 4
    assert float((pi.T @ pi - torch.eye(pi.shape[1])).abs().max()) < 1e-12
    other = LinearDiscriminantAnalysis(solver="eigen").fit(x, y).scalings_[:, 0]
    cosine = pi[:, 0].numpy() @ other / np.linalg.norm(other)
    assert abs(cosine) > 1 - 1e-9
    assert bool((found.values[1:] <= found.values[:-1] * (1 + 1e-9)).all())


def test_second_direction_is_the_discriminant_of_the_complement() -> None:
    x, y = drawn(600, [2.0, 1.0])
    x = x @ G.normal(size=(6, 6))
    found = solve(x, y, level=None, components=2)
    first = found.projection[:, :1].numpy()
    basis = np.linalg.svd(first.T)[2][1:].T
    inner = LinearDiscriminantAnalysis(solver="eigen").fit(x @ basis, y).scalings_[:, 0]
    other = basis @ inner / np.linalg.norm(inner)
    assert abs(other @ found.projection[:, 1].numpy()) > 1 - 1e-9


def test_second_direction_tells_apart_without_the_spurious_feature() -> None:
    # the first coordinate has little spread and parts the source; on new rows it is noise
    x, y = drawn(4000, [0.6, 1.5])
    x[:, 0] *= 0.1
    x = np.concatenate([x[:, :1] + 0.3 * y[:, None], x[:, 1:]], 1)
    found = solve(x, y)
    assert 2 <= found.projection.shape[1] < 6
    new, label = drawn(4000, [0.0, 1.5])
    new[:, 0] *= 0.1
    z = found.map(torch.tensor(new)).numpy()[:, 1]
    cut = found.map(torch.tensor(x)).numpy()[:, 1]
    sign = np.sign(cut[y == 1].mean() - cut[y == 0].mean())
    assert ((sign * z > 0) == label).mean() > 0.7


def test_stops_at_noise() -> None:
    hits = 0
    for _ in range(100):
        x, y = drawn(60, [0.0])
        with contextlib.suppress(GramianError):
            solve(x, y, level=0.05)
            hits += 1
    assert hits <= 14  # 100 trials at 0.05: above 14 has a chance below 1e-3
    x, y = np.tile(G.normal(size=(30, 6)), (2, 1)), np.repeat([0, 1], 30)
    with pytest.raises(GramianError, match="beyond noise"):
        solve(x, y)
    x, y = drawn(300, [0.0])
    x[:, 2] += 4.0 * y
    assert solve(x, y).projection.shape[1] <= 2


def test_awkward_rows() -> None:
    x, y = drawn(40, [2.0], d=60)
    found = solve(x, y, level=None, shrinkage=0.2, components=3)
    assert float((found.projection.T @ found.projection - torch.eye(3)).abs().max()) < 1e-12
    x, y = drawn(200, [2.0])
    x = np.concatenate([x, x[:, :1], np.full((200, 1), 7.0)], 1)
    found = solve(x, y, level=None)
    assert bool(torch.isfinite(found.projection).all())
    for options, match in (
        ({"components": 0}, "expected 1 to 8"),
        ({"level": 1.5}, "level is"),
    ):
        with pytest.raises(GramianError, match=match):
            solve(x, y, **options)
    with pytest.raises(GramianError, match="too few"):
        solve(*drawn(40, [2.0], d=60))
