"""The slider between rotations and least squares against brute force and its own conditions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.optimize
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, LinearMap
from gramian.moments import JointMoments, Quadratic, squared_error
from gramian.solvers import procrustes, relaxed_orthogonal, ridge


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pairs(n: int, dx: int, dy: int, *, steep: float = 1.0) -> tuple[Tensor, Tensor]:
    spread = torch.arange(1, dx + 1).double() ** (-steep / 2)
    x = normal(n, dx) * spread
    y = x @ normal(dx, dy, seed=1) + 0.2 * normal(n, dy, seed=2)
    return x + 1, y - 2


def weight_of(map: LinearMap) -> Tensor:
    return (map.map if isinstance(map, Affine) else map).to_dense(torch.float64)


def turn(angle: float) -> np.ndarray:
    return np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


@pytest.mark.parametrize("delta", [0.1, 0.4, 1.5])
@pytest.mark.parametrize("seed", range(3))
def test_two_dimensions_by_brute_force(delta: float, seed: int) -> None:
    x = normal(40, 2, seed=seed) * torch.tensor([1.0, 0.4]).double()
    y = x @ normal(2, 2, seed=seed + 10) * 1.5 + 0.2 * normal(40, 2, seed=seed + 20)
    joint = JointMoments.from_rows(x, y)
    objective = Quadratic.from_joint(joint)
    a, b = objective.A.numpy(), objective.B.numpy()
    best = math.inf
    for sign in (1.0, -1.0):

        def value(p: np.ndarray, sign: float = sign) -> float:
            w = turn(p[0]) @ np.diag([p[1], sign * p[2]]) @ turn(p[3])
            return float(np.trace(w @ a @ w.T) - 2 * np.trace(w @ b)) + objective.c

        sides = [(max(0.0, 1 - delta), 1 + delta)] * 2
        bounds = [(-math.pi, math.pi), *sides, (-math.pi, math.pi)]
        found = scipy.optimize.differential_evolution(value, bounds, seed=0, tol=1e-10)
        best = min(best, found.fun)
    error = relaxed_orthogonal(joint, delta=delta).evidence.errors["train"] * joint.count
    assert error <= best * (1 + 1e-6)
    assert error >= best * (1 - 1e-6)


@pytest.mark.parametrize(("dx", "dy"), [(12, 12), (12, 7), (7, 12)])
def test_stationary_and_within_the_bound(dx: int, dy: int) -> None:
    joint = JointMoments.from_rows(*pairs(300, dx, dy, steep=2.0))
    found = weight_of(relaxed_orthogonal(joint, delta=0.3).map)
    assert float((torch.linalg.svdvals(found) - 1).abs().max()) <= 0.3 + 1e-12
    # a step along the gradient and back into the bound does not move
    objective = Quadratic.from_joint(joint)
    rate = float(torch.linalg.eigvalsh(objective.A)[-1])
    u, s, vh = torch.linalg.svd(
        found - (found @ objective.A - objective.B.T) / rate, full_matrices=False
    )
    gap = (u * s.clamp(0.7, 1.3)) @ vh - found
    assert float(gap.norm()) < 1e-3 * float(found.norm())


def test_a_larger_bound_is_no_worse_in_a_steep_spectrum() -> None:
    joint = JointMoments.from_rows(*pairs(500, 16, 16, steep=3.0))
    errors = [
        relaxed_orthogonal(joint, delta=delta).evidence.errors["train"]
        for delta in (0.0, 0.05, 0.1, 0.3, 0.6, 0.99, 1.0, 2.0, 50.0)
    ]
    assert all(b <= a * (1 + 1e-6) for a, b in itertools.pairwise(errors))
    assert errors[0] == pytest.approx(procrustes(joint).evidence.errors["train"], rel=1e-12)
    assert errors[-1] == pytest.approx(
        ridge(joint, lambdas=[0.0]).evidence.errors["train"], rel=1e-9
    )


@pytest.mark.parametrize(("dx", "dy"), [(9, 9), (9, 5), (5, 9)])
def test_the_norm_of_the_paper(dx: int, dy: int) -> None:
    joint = JointMoments.from_rows(*pairs(300, dx, dy))
    weight = weight_of(relaxed_orthogonal(joint, lam=0.8, per_dimension=False).map)
    gram = weight.T @ weight if dx <= dy else weight @ weight.T
    norm = float((gram - torch.eye(len(gram)).double()).norm())
    assert 0.8 * 0.98 < norm <= 0.8 + 1e-9
    exact = weight_of(relaxed_orthogonal(joint, lam=0.0).map)
    np.testing.assert_allclose(exact, weight_of(procrustes(joint).map), atol=1e-9)
    free = weight_of(relaxed_orthogonal(joint, lam=1e6).map)
    np.testing.assert_allclose(free, weight_of(ridge(joint, lambdas=[0.0]).map), atol=1e-8)


@pytest.mark.parametrize("intercept", [True, False])
def test_scaled_turns_about_scaled_procrustes(intercept: bool) -> None:
    x, y = pairs(300, 6, 6)
    joint = JointMoments.from_rows(x, 40 * y)
    stiff = relaxed_orthogonal(joint, delta=0.0, scaled=True, intercept=intercept)
    want = procrustes(joint, scaled=True, intercept=intercept)
    np.testing.assert_allclose(weight_of(stiff.map), weight_of(want.map), rtol=1e-9, atol=1e-9)
    loose = relaxed_orthogonal(joint, delta=0.2, scaled=True, intercept=intercept)
    s = torch.linalg.svdvals(weight_of(loose.map)) / torch.linalg.svdvals(weight_of(want.map))[0]
    assert float((s - 1).abs().max()) <= 0.2 + 1e-9
    assert loose.evidence.errors["train"] < stiff.evidence.errors["train"]
    free = relaxed_orthogonal(joint, delta=1e3, scaled=True, intercept=intercept)
    least = ridge(joint, lambdas=[0.0], intercept=intercept)
    np.testing.assert_allclose(weight_of(free.map), weight_of(least.map), rtol=1e-7, atol=1e-7)


def test_select_chooses_and_report_judges() -> None:
    x, y = pairs(400, 6, 6)
    folds = [JointMoments.from_rows(x[i:j], y[i:j]) for i, j in ((0, 200), (200, 300), (300, 400))]
    found = relaxed_orthogonal(*folds)
    tried = {
        delta: squared_error(folds[1], relaxed_orthogonal(folds[0], delta=delta).map)
        for delta in (0.0, 0.1, 0.3, 0.6, 1.0)
    }
    best = min(tried, key=tried.__getitem__)
    assert f"delta {best:g} has" in found.evidence.notes[0]
    again = relaxed_orthogonal(folds[0] + folds[1], delta=best)
    np.testing.assert_allclose(weight_of(found.map), weight_of(again.map), atol=1e-6)
    error = float((found.map(x[300:]) - y[300:]).square().sum()) / 100
    assert found.evidence.errors["select"] == pytest.approx(tried[best] / 100, rel=1e-5)
    assert found.evidence.errors["report"] == pytest.approx(error, rel=1e-9)


def test_awkward_rows() -> None:
    x, y = pairs(60, 5, 5)
    twin = torch.cat([x, x[:, :1], torch.ones(60, 1).double()], 1)
    for rows in (twin, twin[:4], (twin + 1e4), twin.half()):
        joint = JointMoments.from_rows(rows, y[: len(rows)])
        found = weight_of(relaxed_orthogonal(joint, delta=0.2).map)
        assert float((torch.linalg.svdvals(found) - 1).abs().max()) <= 0.2 + 1e-9
    with pytest.raises(GramianError, match="NaN"):
        JointMoments.from_rows(x * float("nan"), y)
    still = JointMoments.from_rows(torch.ones(5, 3), y[:5, :3])
    with pytest.raises(GramianError, match="there is no scale"):
        relaxed_orthogonal(still, delta=0.1, scaled=True)
    with pytest.raises(GramianError, match="no rows"):
        relaxed_orthogonal(JointMoments.from_rows(x[:0], y[:0]), delta=0.1)
