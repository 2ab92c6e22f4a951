"""A ridge on quadratics, against scikit-learn and the normal equations."""

from __future__ import annotations

import pytest
import torch
from sklearn.linear_model import Ridge

from gramian.errors import GramianError
from gramian.moments import JointMoments, Quadratic
from gramian.solvers import STRENGTHS, quadratic_ridge


def rows(n, d=6, seed=0, noise=0.3):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    weight = torch.randn(4, d, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    y = x @ weight.T + noise * torch.randn(n, 4, generator=generator, dtype=torch.float64)
    return x, y


def quadratic(x, y):
    return Quadratic.from_joint(JointMoments.from_rows(x, y), intercept=False)


@pytest.mark.parametrize("relative", [0.0, 0.1, 10.0])
def test_is_ridge(relative):
    x, y = rows(50)
    found = quadratic_ridge(quadratic(x, y), strengths=(relative,))
    assert found.ridge == pytest.approx(
        relative * float(torch.linalg.eigvalsh(x.T @ x).quantile(0.5)), rel=1e-9
    )
    oracle = Ridge(alpha=found.ridge, fit_intercept=False, solver="cholesky").fit(x, y)
    torch.testing.assert_close(found.weight, torch.from_numpy(oracle.coef_), rtol=1e-7, atol=1e-9)


def test_the_best_on_the_judging_rows_is_taken():
    x, y = rows(12, noise=3.0)
    held = quadratic(*rows(200, seed=5, noise=3.0))
    found = quadratic_ridge(quadratic(x, y), held)
    values = {
        s: held.value(quadratic_ridge(quadratic(x, y), strengths=(s,)).weight) for s in STRENGTHS
    }
    assert found.relative == min(values, key=values.__getitem__)
    assert held.value(found.weight) == pytest.approx(min(values.values()), rel=1e-9)


def test_fitted_again_on_all_rows():
    (x, y), (u, v) = rows(30), rows(10, seed=3)
    found = quadratic_ridge(quadratic(x, y), quadratic(u, v), more=quadratic(u, v))
    both = torch.cat([x, u]), torch.cat([y, v])
    scale = found.relative * float(torch.linalg.eigvalsh(x.T @ x).quantile(0.5)) * 40 / 30
    assert found.ridge == pytest.approx(scale, rel=1e-9)
    left = both[0].T @ both[0] + found.ridge * torch.eye(6, dtype=torch.float64)
    expected = torch.linalg.solve(left, both[0].T @ both[1]).T
    torch.testing.assert_close(found.weight, expected, rtol=1e-8, atol=1e-10)


def test_a_loud_row_does_not_set_the_scale():
    """One sink row owns the trace; the ridge follows the median."""
    x, y = rows(100)
    loud = torch.cat([x, torch.full((1, 6), 1e4, dtype=torch.float64)])
    target = torch.cat([y, torch.zeros(1, 4, dtype=torch.float64)])
    plain = quadratic_ridge(quadratic(x, y), strengths=(1.0,))
    found = quadratic_ridge(quadratic(loud, target), strengths=(1.0,))
    assert found.ridge < 2 * plain.ridge
    assert found.condition > 1e5


def test_singular_and_nothing_to_add():
    x, y = rows(40)
    doubled = torch.cat([x, x], 1)
    found = quadratic_ridge(quadratic(doubled, y), strengths=(0.0,))
    torch.testing.assert_close(doubled @ found.weight.T, x @ torch.linalg.lstsq(x, y).solution)
    still = quadratic_ridge(quadratic(x, torch.zeros(40, 4, dtype=torch.float64)), strengths=(0.1,))
    assert float(still.weight.abs().max()) == 0.0


@pytest.mark.parametrize(
    "n,options,said",
    [
        (5, {"strengths": (0.0,)}, "fits noise"),
        (50, {}, "needs an objective to choose on"),
        (50, {"strengths": ()}, "expected finite numbers"),
        (50, {"strengths": (-1.0,)}, "expected finite numbers"),
        (50, {"strengths": (float("nan"),)}, "expected finite numbers"),
    ],
)
def test_refused(n, options, said):
    with pytest.raises(GramianError, match=said):
        quadratic_ridge(quadratic(*rows(n)), **options)
