"""The linearity score against the paper's package, scikit-learn and closed forms."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures import adjusted, held_out_linearity, linearity
from gramian.moments import JointMoments


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


X = normal(120, 6) * torch.arange(1.0, 7.0) + 5
Y = X + (X @ normal(6, 6, seed=1)).tanh() + normal(120, 6, seed=2)


def paper_functions(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The functions of the paper's package, without the plotting that it imports beside them."""
    found = importlib.util.find_spec("llm_microscope")
    assert found is not None, "pip install --no-deps llm-microscope, as make test does"
    assert found.submodule_search_locations
    path = Path(found.submodule_search_locations[0]) / "functions.py"
    stub = ModuleType("matplotlib")
    stub.pyplot = ModuleType("pyplot")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "matplotlib", stub)
    spec = importlib.util.spec_from_file_location("paper_functions", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_equals_the_package_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    score = paper_functions(monkeypatch).procrustes_similarity
    parts = [JointMoments.from_rows(X[s], Y[s]) for s in (slice(0, 50), slice(50, 120))]
    assert linearity(parts[0] + parts[1]) == pytest.approx(score(X, Y), abs=1e-10)
    step = linearity(parts[0] + parts[1], residual=False)
    assert step == pytest.approx(score(X, Y - X), abs=1e-10)


def test_equals_least_squares_of_scikit_learn() -> None:
    x, y = X.numpy(), Y.numpy()
    for target, residual in ((y, True), (y - x, False)):
        predicted = LinearRegression().fit(x, target).predict(x)
        want = r2_score(target, predicted, multioutput="variance_weighted")
        got = linearity(JointMoments.from_rows(X, Y, target="diagonal"), residual=residual)
        assert got == pytest.approx(want, abs=1e-10)
    step = JointMoments.from_rows(X, Y - X)
    assert linearity(step) == pytest.approx(got, abs=1e-12)


def test_linear_step_scores_one() -> None:
    joint = JointMoments.from_rows(X, X @ normal(6, 4, seed=3) + 7)
    assert linearity(joint) == pytest.approx(1.0, abs=1e-12)


def test_independent_rows_score_about_d_over_n() -> None:
    joint = JointMoments.from_rows(normal(4000, 40), normal(4000, 40, seed=5))
    score = linearity(joint)
    assert score == pytest.approx(40 / 4000, rel=0.1)
    assert abs(adjusted(score, 4000, 40)) < 1e-3
    with pytest.raises(GramianError, match="more than 41 rows"):
        adjusted(score, 41, 40)


def test_orthogonal_score() -> None:
    u, v = X - X.mean(0), Y - Y.mean(0)
    nuclear = np.linalg.svd((u.T @ v).numpy(), compute_uv=False).sum()
    want = nuclear**2 / float(u.square().sum() * v.square().sum())
    got = linearity(JointMoments.from_rows(X, Y), kind="orthogonal")
    assert got == pytest.approx(want, rel=1e-12)
    q = torch.linalg.qr(normal(6, 6, seed=3))[0]
    turned = JointMoments.from_rows(X, 3 * X @ q + 1)
    assert linearity(turned, kind="orthogonal") == pytest.approx(1.0, abs=1e-12)


def test_held_out() -> None:
    fit, judge = (JointMoments.from_rows(X[s], Y[s]) for s in (slice(0, 80), slice(80, 120)))
    model = LinearRegression().fit(X[:80].numpy(), Y[:80].numpy())
    want = r2_score(Y[80:].numpy(), model.predict(X[80:].numpy()), multioutput="variance_weighted")
    assert held_out_linearity(fit, judge) == pytest.approx(want, abs=1e-10)


def test_rank_deficient_input() -> None:
    wide = torch.cat([X, X[:, :2], torch.ones(120, 1).double()], 1)
    got, want = (linearity(JointMoments.from_rows(x, Y)) for x in (wide, X))
    assert got == pytest.approx(want, abs=1e-10)


def test_constant_target_and_refusals() -> None:
    joint = JointMoments.from_rows(X, torch.ones(120, 2))
    assert np.isnan(linearity(joint))
    assert np.isnan(linearity(joint, kind="orthogonal"))
    assert np.isnan(held_out_linearity(joint, joint))
    with pytest.raises(GramianError, match="'affine' or 'orthogonal'"):
        linearity(joint, kind="linear")
    with pytest.raises(GramianError, match="one width"):
        linearity(joint, residual=False)
