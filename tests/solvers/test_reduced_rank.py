"""Least squares of a given rank against the rows and against descent over all such maps."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import torch
from torch import Tensor

from gramian.maps import Affine, LowRank
from gramian.moments import JointMoments, Quadratic, squared_error
from gramian.solvers import diagonal_gain, reduced_rank, ridge


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pairs(n: int, dx: int, dy: int, *, mean: float = 0.0) -> tuple[Tensor, Tensor]:
    x = normal(n, dx) * torch.linspace(1, 0.2, dx).double()
    y = x @ normal(dx, dy, seed=1) + 0.5 * normal(n, dy, seed=2)
    return x + mean, y - mean


def test_no_map_of_that_rank_does_better() -> None:
    """Descent over both factors from many starts, with a ridge on the whole weight."""
    joint = JointMoments.from_rows(*pairs(120, 4, 3))
    found = reduced_rank(joint, rank=1, lambdas=[0.3])
    strength = found.evidence.regularization
    objective = Quadratic.from_joint(joint) + Quadratic.prior(torch.zeros(3, 4), strength)
    a, b = objective.A.numpy(), objective.B.numpy()

    def value(p: np.ndarray) -> float:
        w = np.outer(p[:3], p[3:])
        return float(np.trace(w @ a @ w.T) - 2 * np.trace(w @ b)) + objective.c

    starts = np.random.default_rng(0).standard_normal((8, 7))
    best = min(scipy.optimize.minimize(value, start).fun for start in starts)
    assert isinstance(found.map, Affine)
    assert isinstance(found.map.map, LowRank)
    assert objective.value(found.map) == pytest.approx(best, rel=1e-7)


@pytest.mark.parametrize("intercept", [True, False])
def test_full_rank_is_ridge(intercept: bool) -> None:
    joint = JointMoments.from_rows(*pairs(200, 6, 4, mean=2.0))
    found = reduced_rank(joint, rank=4, lambdas=[0.1], intercept=intercept)
    want = ridge(joint, lambdas=[0.1], intercept=intercept)
    np.testing.assert_allclose(found.map.to_dense(), want.map.to_dense(), atol=1e-10)
    assert found.evidence.errors["train"] == pytest.approx(want.evidence.errors["train"], rel=1e-10)


def test_select_is_judged_by_a_map_that_has_not_seen_it() -> None:
    x, y = pairs(90, 12, 9, mean=1e4)
    folds = [JointMoments.from_rows(x[i : i + 30], y[i : i + 30]) for i in (0, 30, 60)]
    found = reduced_rank(*folds)
    rank = found.map.map.rank
    relative = found.evidence.relative_regularization
    alone = reduced_rank(folds[0], rank=rank, lambdas=[relative])
    assert found.evidence.errors["select"] == pytest.approx(
        squared_error(folds[1], alone.map) / 30, rel=1e-8
    )
    error = float((found.map(x[60:]) - y[60:]).square().sum()) / 30
    assert found.evidence.errors["report"] == pytest.approx(error, rel=1e-6)


@pytest.mark.parametrize("rows", [3, 8])
def test_fewer_rows_than_dimensions(rows: int) -> None:
    joint = JointMoments.from_rows(*pairs(rows, 10, 6))
    found = reduced_rank(joint, rank=4)
    assert torch.isfinite(found.map.to_dense()).all()
    assert any("more text is needed" in note for note in found.evidence.notes)


def test_a_gain_keeps_it_thin() -> None:
    joint = JointMoments.from_rows(*pairs(100, 6, 5))
    start = reduced_rank(joint, rank=2, lambdas=[1.0]).map
    found = diagonal_gain(joint, start)
    assert isinstance(found.map.map, LowRank)
    moved = start.map(normal(10, 6, seed=4))
    gains = found.map.map(normal(10, 6, seed=4)) / moved
    np.testing.assert_allclose(gains, gains[:1].expand(10, 5), rtol=1e-9)
    assert found.evidence.errors["train"] < squared_error(joint, start) / 100
