"""Ridge from moments against scikit-learn, NumPy and brute force on the rows."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import r2_score
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Dense
from gramian.moments import JointMoments, Quadratic
from gramian.solvers import LAMBDAS, Evidence, Solution, Spectrum, minimise, ridge

Rows = tuple[Tensor, Tensor]
_WEIGHT = torch.randn(4, 6, generator=torch.Generator().manual_seed(9), dtype=torch.float64)


def fold(n: int, seed: int, dx: int = 6, noise: float = 1.0) -> Rows:
    g = torch.Generator().manual_seed(seed)
    scale = torch.logspace(0, 1, dx, dtype=torch.float64)
    x = torch.randn(n, dx, generator=g, dtype=torch.float64) * scale + 3
    y = x[:, :6] @ _WEIGHT[:, :dx].T + 2
    return x, y + noise * torch.randn(n, 4, generator=g, dtype=torch.float64)


TRAIN, SELECT, REPORT = fold(200, 0), fold(60, 1), fold(70, 2)


def joints(*rows: Rows) -> list[JointMoments]:
    return [JointMoments.from_rows(x, y, target="diagonal") for x, y in rows]


def weight_and_bias(solution: Solution) -> tuple[np.ndarray, np.ndarray]:
    map = solution.map
    bias = map.bias if isinstance(map, Affine) else torch.zeros(map.out_features)
    return map.to_dense().numpy(), bias.numpy()


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("relative", [0.0, 1e-3, 0.5, 20.0])
@pytest.mark.parametrize("refit", [True, False])
def test_equals_scikit_learn(intercept: bool, relative: float, refit: bool) -> None:
    solution = ridge(*joints(TRAIN, SELECT), intercept=intercept, lambdas=[relative], refit=refit)
    rows = [TRAIN, SELECT] if refit else [TRAIN]
    x, y = (torch.cat(part).numpy() for part in zip(*rows, strict=True))
    alpha = solution.evidence.regularization
    model = Ridge(alpha=alpha, fit_intercept=intercept).fit(x, y)
    if relative == 0:
        assert alpha == 0
        model = LinearRegression(fit_intercept=intercept).fit(x, y)
    weight, bias = weight_and_bias(solution)
    np.testing.assert_allclose(weight, model.coef_, atol=1e-8)
    np.testing.assert_allclose(bias, np.broadcast_to(model.intercept_, 4), atol=1e-8)
    assert isinstance(solution.map, Affine if intercept else Dense)


@pytest.mark.parametrize("intercept", [True, False])
def test_lambda_is_the_best_of_the_grid_on_select(intercept: bool) -> None:
    train = fold(12, 3, noise=8.0)
    solution = ridge(*joints(train, SELECT, REPORT), intercept=intercept)
    spectrum = Spectrum.of(joints(train)[0].x, intercept=intercept)
    errors = {}
    for relative in LAMBDAS:
        model = Ridge(alpha=relative * spectrum.median, fit_intercept=intercept)
        if relative == 0:
            model = LinearRegression(fit_intercept=intercept)
        model.fit(*(part.numpy() for part in train))
        gap = model.predict(SELECT[0].numpy()) - SELECT[1].numpy()
        errors[relative] = float((gap**2).sum()) / 60
    best = min(errors, key=errors.__getitem__)
    assert 0 < best < LAMBDAS[-1]
    evidence = solution.evidence
    assert evidence.relative_regularization == best
    assert evidence.errors["select"] == pytest.approx(errors[best], rel=1e-9)
    assert evidence.regularization == pytest.approx(best * spectrum.median * 72 / 12, rel=1e-12)
    assert evidence.rows_per_dimension == 72 / 6


def test_evidence_is_that_of_the_rows() -> None:
    solution = ridge(*joints(TRAIN, SELECT, REPORT), lambdas=[1e-2])
    evidence = solution.evidence
    fitted = ridge(*joints(TRAIN), lambdas=[1e-2]).map
    for name, map, (x, y) in (
        ("train", fitted, TRAIN),
        ("select", fitted, SELECT),
        ("report", solution.map, REPORT),
    ):
        error = float((map(x) - y).square().sum()) / len(x)
        r2 = r2_score(y.numpy(), map(x).numpy(), multioutput="variance_weighted")
        assert evidence.errors[name] == pytest.approx(error, rel=1e-9)
        assert evidence.r2[name] == pytest.approx(r2, rel=1e-9)
    covariance = np.cov(TRAIN[0].numpy().T)
    assert evidence.condition == pytest.approx(np.linalg.cond(covariance), rel=1e-9)
    assert evidence.notes == ()
    again = Evidence.from_json(json.loads(json.dumps(evidence.to_json())))
    assert again == evidence


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("refit", [True, False])
def test_prior(intercept: bool, refit: bool) -> None:
    """A ridge towards W0 is a ridge to zero of what W0 leaves."""
    folds = joints(TRAIN, SELECT, REPORT)
    base = torch.randn(4, 6, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    got = ridge(*folds, prior=base, intercept=intercept, refit=refit)
    left = joints(*((x, y - x @ base.T) for x, y in (TRAIN, SELECT, REPORT)))
    want = ridge(*left, intercept=intercept, refit=refit)
    np.testing.assert_allclose(got.map.to_dense(), want.map.to_dense() + base, atol=1e-9)
    for name, error in want.evidence.errors.items():
        assert got.evidence.errors[name] == pytest.approx(error, rel=1e-9)
    heavy = ridge(folds[0], prior=base, lambdas=[1e12], intercept=intercept)
    np.testing.assert_allclose(heavy.map.to_dense(), base, atol=1e-8)


def test_identity_prior() -> None:
    x, y = fold(50, 5)
    joint = JointMoments.from_rows(x, x + torch.cat([y, y[:, :2]], 1) * 1e-3)
    heavy = ridge(joint, prior="identity", lambdas=[1e12])
    np.testing.assert_allclose(heavy.map.to_dense(), np.eye(6), atol=1e-8)


def test_few_rows_are_regularised_and_said() -> None:
    train = fold(5, 6)
    solution = ridge(*joints(train, SELECT))
    assert solution.evidence.relative_regularization > 0
    assert "5 rows for 6 dimensions" in solution.evidence.notes[0]
    with pytest.raises(GramianError, match="lambda 0 with 5 rows for 6 dimensions"):
        ridge(*joints(train, SELECT), lambdas=[0.0, 1.0])
    alone = ridge(*joints(train))
    assert alone.evidence.relative_regularization == 0.1
    assert "no fold to choose lambda on" in alone.evidence.notes[1]
    assert alone.evidence.condition == float("inf")
    assert Evidence.from_json(json.loads(json.dumps(alone.evidence.to_json()))) == alone.evidence


@pytest.mark.parametrize("refit", [True, False])
def test_singular_input_gives_the_shortest_weight(refit: bool) -> None:
    """A constant and a duplicated column: NumPy's lstsq takes the same minimiser."""
    rows = []
    for x, y in (TRAIN, SELECT):
        rows.append((torch.cat([x, x[:, :1], torch.ones(len(x), 1).double()], 1), y))
    solution = ridge(*joints(*rows), lambdas=[0.0], refit=refit)
    used = rows if refit else rows[:1]
    x, y = (torch.cat(part) for part in zip(*used, strict=True))
    want = np.linalg.lstsq((x - x.mean(0)).numpy(), (y - y.mean(0)).numpy(), rcond=1e-10)[0]
    np.testing.assert_allclose(solution.map.to_dense(), want.T, atol=1e-9)
    assert "the input is singular, rank 6 of 8" in solution.evidence.notes


def test_one_spectrum_for_many_targets() -> None:
    folds = joints(TRAIN, SELECT, REPORT)
    shared = Spectrum.of(folds[0].x, folds[1].x)
    got, want = ridge(*folds, spectrum=shared), ridge(*folds)
    assert torch.equal(got.map.to_dense(), want.map.to_dense())
    assert got.evidence == want.evidence
    np.testing.assert_allclose(
        shared.vectors @ torch.diag(shared.values) @ shared.vectors.T,
        folds[0].x.scatter,
        atol=1e-9 * float(shared.values[-1]),
    )


def test_known_map_is_returned() -> None:
    x, _ = TRAIN
    y = x @ _WEIGHT.T + 2
    solution = ridge(JointMoments.from_rows(x, y))
    weight, bias = weight_and_bias(solution)
    np.testing.assert_allclose(weight, _WEIGHT, atol=1e-10)
    np.testing.assert_allclose(bias, 2.0, atol=1e-8)
    assert solution.evidence.r2["train"] == pytest.approx(1.0, abs=1e-10)
    same = ridge(JointMoments.from_rows(x, x), intercept=False)
    np.testing.assert_allclose(same.map.to_dense(), np.eye(6), atol=1e-8)


def test_grid_that_ends_too_early_is_said() -> None:
    noise = torch.randn(60, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    solution = ridge(*joints((TRAIN[0][:20], noise[:20]), (TRAIN[0][20:60], noise[20:])))
    assert "the largest lambda of the grid was chosen" in solution.evidence.notes[-1]


def test_minimise_adds_up_objectives() -> None:
    objective = Quadratic.from_joint(joints(TRAIN)[0]) + Quadratic.prior(_WEIGHT * 2, 50.0)
    weight, full = minimise(objective)
    assert full
    gradient = weight @ objective.A - objective.B.T
    assert float(gradient.abs().max()) < 1e-9 * float(objective.B.abs().max())


def test_refusals() -> None:
    folds = joints(TRAIN, SELECT)
    with pytest.raises(GramianError, match="needs a fold to choose on"):
        ridge(folds[0], lambdas=[0.0, 1.0])
    with pytest.raises(GramianError, match="at least 0"):
        ridge(*folds, lambdas=[-1.0])
    with pytest.raises(GramianError, match="expected 'zero', 'identity' or a weight"):
        ridge(*folds, prior="one")
    with pytest.raises(GramianError, match="equal widths, not 6 and 4"):
        ridge(*folds, prior="identity")
    with pytest.raises(GramianError, match=r"expected \(4, 6\)"):
        ridge(*folds, prior=torch.eye(6))
    with pytest.raises(GramianError, match="diagonal moments only"):
        ridge(JointMoments.from_rows(*TRAIN, source="diagonal"))
    with pytest.raises(GramianError, match="no rows"):
        ridge(joints((TRAIN[0][:0], TRAIN[1][:0]))[0])
    with pytest.raises(GramianError, match="evidence cannot be read"):
        Evidence.from_json({"errors": {}})
