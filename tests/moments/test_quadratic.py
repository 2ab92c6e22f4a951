"""The objective and the error of a map, against brute force on the rows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, Identity, LinearMap, LowRank
from gramian.moments import JointMoments, Moments, Quadratic, squared_error


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


X = normal(80, 5) * 2 + 4
Y = X @ normal(5, 5, seed=1) + normal(80, 5, seed=2) - 3


@pytest.mark.parametrize(
    "map",
    [
        Dense(normal(5, 5, seed=3)),
        Affine(Dense(normal(5, 5, seed=3)), normal(5, seed=4)),
        LowRank(normal(5, 2, seed=5), normal(2, 5, seed=6)),
        Identity(5),
        Affine(Identity(5), normal(5, seed=4)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("target", ["full", "diagonal"])
@pytest.mark.parametrize("weighted", [False, True])
def test_squared_error_is_that_of_the_rows(map: LinearMap, target: str, weighted: bool) -> None:
    w = torch.rand(80, generator=torch.Generator().manual_seed(0)).double() if weighted else None
    parts = [
        JointMoments.from_rows(X[s], Y[s], None if w is None else w[s], target=target)
        for s in (slice(0, 13), slice(13, 80))
    ]
    rows = (map(X) - Y).square().sum(1)
    want = float(rows.sum() if w is None else w @ rows)
    assert squared_error(parts[0] + parts[1], map) == pytest.approx(want, rel=1e-9)


def test_value_is_the_squared_error() -> None:
    joint, w = JointMoments.from_rows(X, Y), normal(5, 5, seed=7)
    raw = float((X @ w.T - Y).square().sum())
    residual = X @ w.T - Y
    best = float((residual - residual.mean(0)).square().sum())
    assert Quadratic.from_joint(joint, intercept=False).value(w) == pytest.approx(raw, rel=1e-9)
    assert Quadratic.from_joint(joint).value(w) == pytest.approx(best, rel=1e-9)
    assert Quadratic.from_joint(joint).value(Dense(w)) == pytest.approx(best, rel=1e-9)
    assert Quadratic.from_joint(joint).per_row(w) == pytest.approx(best / 80, rel=1e-9)


def test_weight_and_prior() -> None:
    w, w0 = normal(3, 5, seed=8), normal(3, 5, seed=9)
    m = Moments.from_rows(X)
    raw = Quadratic.from_weight(w0, m, intercept=False)
    assert raw.value(w) == pytest.approx(float((X @ (w - w0).T).square().sum()), rel=1e-9)
    centred = Quadratic.from_weight(Dense(w0), m)
    u = X - X.mean(0)
    assert centred.value(w) == pytest.approx(float((u @ (w - w0).T).square().sum()), rel=1e-9)
    assert centred.value(w0) == pytest.approx(0.0, abs=1e-9 * centred.c)
    prior = Quadratic.prior(w0, 2.5)
    assert prior.value(w) == pytest.approx(2.5 * float((w - w0).square().sum()), rel=1e-12)
    assert prior.n == 0


def test_quadratics_add_and_scale() -> None:
    w, w0 = normal(5, 5, seed=8), normal(5, 5, seed=9)
    parts = [
        Quadratic.from_joint(JointMoments.from_rows(X, Y)),
        Quadratic.from_weight(w0, Moments.from_rows(X)),
        Quadratic.prior(w0, 3.0),
    ]
    total = sum(parts) + 0.5 * parts[0]  # type: ignore[operator]
    want = 1.5 * parts[0].value(w) + parts[1].value(w) + parts[2].value(w)
    assert total.value(w) == pytest.approx(want, rel=1e-12)
    assert total.n == 80 * 2.5


def test_refusals() -> None:
    joint = JointMoments.from_rows(X, Y)
    objective = Quadratic.from_joint(joint)
    with pytest.raises(GramianError, match="does not fit moments of 5 -> 5"):
        squared_error(joint, Identity(4))
    with pytest.raises(GramianError, match=r"expected \(5, 5\)"):
        objective.value(normal(4, 5))
    with pytest.raises(GramianError, match=r"expected \(dy, 5\)"):
        objective.value(normal(5, 4))
    with pytest.raises(GramianError, match="do not add"):
        objective + Quadratic.prior(normal(4, 5), 1.0)
    with pytest.raises(GramianError, match="at least 0"):
        Quadratic.prior(normal(5, 5), -1.0)
    with pytest.raises(GramianError, match="no rows"):
        Quadratic.prior(normal(5, 5), 1.0).per_row(normal(5, 5))
    with pytest.raises(GramianError, match="full moments"):
        Quadratic.from_weight(normal(5, 5), Moments.from_rows(X, order="diagonal"))
    with pytest.raises(GramianError, match="full moments of x"):
        Quadratic.from_joint(JointMoments.from_rows(X, Y, source="diagonal"))
