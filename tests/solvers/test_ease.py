"""The item weights against their conditions, a plain inverse and fits without a user."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gramian.errors import GramianError
from gramian.solvers import ease

X = (np.random.default_rng(0).random((300, 40)) < np.linspace(0.02, 0.5, 40)).astype(float)
GRAM = X.T @ X


@pytest.mark.parametrize("lam", [0.5, 50.0, 5000.0])
def test_conditions_of_the_minimum(lam: float) -> None:
    found = ease(GRAM, lam)
    b = found.weights.numpy()
    rest = (GRAM + lam * np.eye(40)) @ b - GRAM
    np.fill_diagonal(rest, 0.0)
    assert np.abs(rest).max() < 1e-10
    assert (np.diagonal(b) == 0).all()


def test_is_a_regression_of_each_item_on_the_others() -> None:
    b = ease(GRAM, 3.0).weights.numpy()
    for item in (0, 17, 39):
        others = np.delete(np.arange(40), item)
        left = X[:, others]
        wanted = np.linalg.solve(left.T @ left + 3 * np.eye(39), left.T @ X[:, item])
        np.testing.assert_allclose(b[others, item], wanted, atol=1e-12)


def test_mirrors_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    whole = ease(GRAM, 2.0).weights
    monkeypatch.setattr(importlib.import_module("gramian.solvers.ease"), "BLOCK", 7)
    assert torch.equal(ease(GRAM, 2.0).weights, whole)
    inverse = np.linalg.inv(GRAM + 2 * np.eye(40))
    wanted = -inverse / np.diagonal(inverse)
    np.fill_diagonal(wanted, 0.0)
    np.testing.assert_allclose(whole.numpy(), wanted, atol=1e-12)


def test_large_ridge_leaves_the_counts() -> None:
    b = ease(GRAM, 1e12).weights.numpy() * 1e12
    np.testing.assert_allclose(b, GRAM - np.diag(np.diagonal(GRAM)), rtol=1e-8, atol=1e-6)


def test_one_user_more_or_less_is_a_fit_with_or_without() -> None:
    all_users, without = ease(GRAM, 2.0), ease(X[1:].T @ X[1:], 2.0)
    torch.testing.assert_close(all_users.without_user(X[0]).weights, without.weights)
    torch.testing.assert_close(without.with_user(X[0]).weights, all_users.weights)
    with pytest.raises(GramianError, match="not among those"):
        all_users.without_user(np.full(40, 5.0))
    with pytest.raises(GramianError, match="shape"):
        all_users.with_user(X[0, :3])


def test_the_map_scores_and_memory_may_be_used() -> None:
    own = GRAM.copy()
    found = ease(own, 2.0, overwrite=True)
    assert found.weights.data_ptr() == own.ctypes.data
    kept = GRAM.copy()
    other = ease(kept, 2.0)
    assert (kept == GRAM).all()
    torch.testing.assert_close(found.map(torch.tensor(X)), torch.tensor(X) @ other.weights)


def test_awkward_grams() -> None:
    twice = np.concatenate([X, X[:, :1], np.zeros((300, 1))], axis=1)
    gram = twice.T @ twice
    with pytest.raises(GramianError, match="lam > 0"):
        ease(gram, 0.0)
    b = ease(gram, 1.0).weights
    assert bool(torch.isfinite(b).all())
    assert float(b[-1].abs().max()) == 0
    for bad, match in (
        (GRAM[:3], "items, items"),
        (np.triu(GRAM), "not symmetric"),
        (np.full((2, 2), np.nan), "NaN"),
    ):
        with pytest.raises(GramianError, match=match):
            ease(bad, 1.0)
    with pytest.raises(GramianError, match="lam is"):
        ease(GRAM, -1.0)
