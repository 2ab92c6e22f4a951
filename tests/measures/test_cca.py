"""Canonical correlations against rows, known answers, and what must be refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures import cca, linearity, pwcca, regression_r2, svcca
from gramian.measures.cca import projection_weights
from gramian.moments import Accumulator, JointMoments, Moments, Pair


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def invertible(d: int, condition: float, seed: int = 0) -> Tensor:
    u, v = (torch.linalg.qr(normal(d, d, seed=seed + i))[0] for i in (1, 2))
    return u * torch.logspace(0, math.log10(condition), d).double() @ v


def correlations_of_rows(x: Tensor, y: Tensor) -> np.ndarray:
    """Cosines between the column spaces of the centred rows (Björck and Golub)."""
    a, b = (scipy.linalg.orth((t - t.mean(0)).numpy(), rcond=1e-10) for t in (x, y))
    return np.linalg.svd(a.T @ b, compute_uv=False)


X = normal(400, 9) * torch.logspace(-1, 2, 9).double() + 30
Y = (X[:, :6] @ normal(6, 5, seed=1) / 9).sin() + 0.5 * normal(400, 5, seed=2)


def test_cosines_between_the_spaces_of_the_rows() -> None:
    found = cca(JointMoments.from_rows(X, Y))
    want = correlations_of_rows(X, Y)
    assert found.correlations.numpy() == pytest.approx(want, abs=1e-12)
    assert (found.rank_x, found.rank_y) == (9, 5)
    assert found.mean == pytest.approx(want.mean(), abs=1e-12)
    assert found.r2 == pytest.approx((want**2).mean(), abs=1e-12)
    assert 0 < found.cut < 1e-12


@pytest.mark.parametrize("condition", [1.0, 1e2, 1e4])
def test_all_ones_for_an_invertible_map(condition: float) -> None:
    x = normal(700, 20)
    joint = JointMoments.from_rows(x, x @ invertible(20, condition) + 1e3)
    found = cca(joint)
    assert len(found.correlations) == 20
    assert float((found.correlations - 1).abs().max()) < 1e-8
    assert pwcca(joint) == pytest.approx(1, abs=1e-8)
    assert regression_r2(joint) == pytest.approx(1, abs=1e-8)


def test_invertible_maps_of_either_side_change_nothing() -> None:
    want = cca(JointMoments.from_rows(X, Y)).correlations
    mixed = JointMoments.from_rows(X @ invertible(9, 50.0), Y @ invertible(5, 50.0, seed=5) - 7)
    assert torch.allclose(cca(mixed).correlations, want, atol=1e-10)
    units = JointMoments.from_rows(X * torch.logspace(-9, 9, 9).double(), Y)
    assert torch.allclose(cca(units).correlations, want, atol=1e-9)
    assert cca(units).rank_x == 9


def test_constant_and_duplicated_channels_are_no_directions() -> None:
    x = torch.cat([X, X[:, :4], X[:, :2] @ normal(2, 3), torch.full((400, 2), 0.1)], 1)
    joint = JointMoments.from_rows(x, Y)
    found, want = cca(joint), cca(JointMoments.from_rows(X, Y))
    assert (found.rank_x, found.rank_y) == (9, 5)
    assert torch.allclose(found.correlations, want.correlations, atol=1e-9)


def test_a_mean_of_ten_thousand_deviations() -> None:
    x, y = normal(400, 6), normal(400, 4, seed=1)
    y[:, 0] += x[:, 1]
    near, far = (cca(JointMoments.from_rows(x + m, y - m)) for m in (0, 1e4))
    assert torch.allclose(near.correlations, far.correlations, atol=1e-10)


def test_what_is_hidden_below_the_cut_is_left_out() -> None:
    x = X.clone()
    x[:, 8] = X[:, 0] + 1e-5 * normal(400, seed=3)
    joint = JointMoments.from_rows(x, Y)
    assert cca(joint).rank_x == 9
    found = cca(joint, cut=1e-6)
    assert found.rank_x == 8
    assert found.cut == 1e-6


def test_svcca_is_cca_of_the_leading_directions() -> None:
    spread = normal(400, 9, seed=4) * torch.logspace(0, -2, 9).double() @ invertible(9, 1.0)
    for keep in (0.6, 0.9, 0.99, 1.0):
        kept = []
        for rows in (spread, Y):
            centred = rows - rows.mean(0)
            u, s, _ = torch.linalg.svd(centred, full_matrices=False)
            few = int((s.square().cumsum(0) / s.square().sum() < keep - 1e-12).sum()) + 1
            kept.append(u[:, :few])
        found = svcca(JointMoments.from_rows(spread, Y), keep)
        assert (found.rank_x, found.rank_y) == (kept[0].shape[1], kept[1].shape[1])
        want = torch.linalg.svdvals(kept[0].T @ kept[1])
        assert torch.allclose(found.correlations, want, atol=1e-10)
    full = svcca(JointMoments.from_rows(spread, Y), 1.0).correlations
    assert torch.allclose(full, cca(JointMoments.from_rows(spread, Y)).correlations, atol=1e-10)


def test_pwcca_weights_are_those_of_the_rows() -> None:
    """``a_i = sum_j |<h_i, x_j>|`` formed from the canonical variables themselves."""
    for x in (X, torch.cat([X, X[:, :3], torch.ones(400, 1)], 1)):
        centred = x - x.mean(0)
        a = torch.from_numpy(scipy.linalg.orth(centred.numpy(), rcond=1e-10))
        b = torch.from_numpy(scipy.linalg.orth((Y - Y.mean(0)).numpy(), rcond=1e-10))
        u, rho, _ = torch.linalg.svd(a.T @ b, full_matrices=False)
        want = ((a @ u).T @ centred).abs().sum(1)
        joint = JointMoments.from_rows(x, Y)
        correlations, weights = projection_weights(joint)
        assert torch.allclose(weights, want, rtol=1e-9)
        assert torch.allclose(correlations, rho, atol=1e-10)
        value = float(want @ rho / want.sum())
        assert pwcca(joint) == pytest.approx(value, abs=1e-10)


def test_pwcca_sides() -> None:
    joint = JointMoments.from_rows(X, Y)
    assert pwcca(joint) != pytest.approx(pwcca(joint.swap()), abs=1e-3)
    mixed = JointMoments.from_rows(X, Y @ invertible(5, 30.0))
    assert pwcca(mixed) == pytest.approx(pwcca(joint), abs=1e-10)


def test_regression_is_linearity_the_other_way() -> None:
    joint = JointMoments.from_rows(X, Y)
    assert regression_r2(joint) == pytest.approx(linearity(joint.swap()), abs=1e-11)
    assert regression_r2(joint) != pytest.approx(regression_r2(joint.swap()), abs=1e-3)
    predicted = torch.linalg.lstsq(torch.cat([Y, torch.ones(400, 1)], 1), X)[0]
    rest = X - torch.cat([Y, torch.ones(400, 1)], 1) @ predicted
    want = 1 - float(rest.square().sum() / (X - X.mean(0)).square().sum())
    assert regression_r2(joint) == pytest.approx(want, abs=1e-11)
    # the target may be kept diagonal, and wider than there are rows
    sparse = JointMoments.from_rows(normal(30, 50), Y[:30], source="diagonal")
    assert 0 < regression_r2(sparse) < 1


@pytest.mark.parametrize(
    ("n", "dx", "dy"), [(50, 64, 3), (50, 50, 3), (50, 3, 64), (64, 32, 32), (10, 200, 200)]
)
def test_never_a_silent_one(n: int, dx: int, dy: int) -> None:
    """Independent rows of which some directions agree perfectly by counting alone."""
    x, y = normal(n, dx), normal(n, dy, seed=1)
    assert correlations_of_rows(x, y).max() == pytest.approx(1, abs=1e-9)
    joint = JointMoments.from_rows(x, y)
    for measure in (cca, pwcca, lambda j: svcca(j, 1.0)):
        with pytest.raises(GramianError, match="by counting alone"):
            measure(joint)


def test_one_row_more_is_enough() -> None:
    x, y = normal(65, 32), normal(65, 32, seed=1)
    found = cca(JointMoments.from_rows(x, y))
    assert float(found.correlations[0]) == pytest.approx(correlations_of_rows(x, y)[0], abs=1e-9)
    assert float(found.correlations[0]) < 1 - 1e-6


def test_more_channels_than_rows_of_low_rank() -> None:
    x, y = normal(50, 4) @ normal(4, 90, seed=1), normal(50, 60, seed=2)[:, :3]
    found = cca(JointMoments.from_rows(x, y))
    assert found.rank_x == 4
    assert found.correlations.numpy() == pytest.approx(correlations_of_rows(x, y), abs=1e-9)


def test_regression_of_too_many_predictors_is_refused() -> None:
    with pytest.raises(GramianError, match="by counting alone"):
        regression_r2(JointMoments.from_rows(normal(20, 2), normal(20, 19, seed=1)))
    value = regression_r2(JointMoments.from_rows(normal(20, 2), normal(20, 18, seed=1)))
    assert value < 1 - 1e-6


def test_chance_is_what_independent_rows_give() -> None:
    found = [
        cca(JointMoments.from_rows(normal(40, 6, seed=i), normal(40, 11, seed=500 + i)))
        for i in range(60)
    ]
    mean = sum(one.r2 for one in found) / len(found)
    assert mean == pytest.approx(found[0].chance, rel=0.05)
    assert found[0].chance == pytest.approx(11 / 39)
    half = cca(JointMoments.from_rows(X, Y, torch.arange(400) % 2))
    assert half.rows == pytest.approx(200)


def test_class_labels_have_one_direction_less_than_classes() -> None:
    labels = torch.arange(400) % 4
    x = X + 3 * normal(4, 9, seed=5)[labels]
    found = cca(JointMoments.from_labels(x, labels))
    assert found.rank_y == 3
    onehot = torch.nn.functional.one_hot(labels).double()
    assert found.correlations.numpy() == pytest.approx(correlations_of_rows(x, onehot), abs=1e-9)


def test_repeated_rows_count_once_by_weight() -> None:
    """Large weights do not stand for rows."""
    x, y = normal(50, 30), normal(50, 30, seed=1)
    with pytest.raises(GramianError, match="50 rows"):
        cca(JointMoments.from_rows(x, y, torch.full((50,), 1000.0)))


def test_a_constant_side_has_no_answer() -> None:
    for value in (0.0, 0.1):
        constant = torch.full((60, 3), value)
        for x, y in ((constant, Y[:60]), (Y[:60], constant)):
            joint = JointMoments.from_rows(x, y)
            for found in (cca(joint), svcca(joint)):
                assert len(found.correlations) == 0
                assert math.isnan(found.mean)
                assert math.isnan(found.r2)
            assert math.isnan(pwcca(joint))
        assert math.isnan(regression_r2(JointMoments.from_rows(constant, Y[:60])))
        assert regression_r2(JointMoments.from_rows(Y[:60], constant)) == 0


def test_refusals() -> None:
    joint = JointMoments.from_rows(X, Y, target="diagonal")
    for measure in (cca, svcca, pwcca, regression_r2):
        with pytest.raises(GramianError, match="diagonal of y"):
            measure(joint)
        with pytest.raises(GramianError, match="2 rows"):
            measure(JointMoments.from_rows(X[:1], Y[:1]))
    for keep in (0.0, 1.5):
        with pytest.raises(GramianError, match="keep"):
            svcca(JointMoments.from_rows(X, Y), keep)
    with pytest.raises(GramianError, match="cut"):
        cca(JointMoments.from_rows(X, Y), cut=1.0)


def test_sums_less_precise_than_the_cut_are_refused() -> None:
    """A cross scatter that no rows could have left behind."""
    joint = JointMoments.from_rows(X, X @ invertible(9, 10.0))
    broken = JointMoments(joint.x, joint.y, joint.cross * 1.01)
    for measure in (cca, svcca, pwcca, regression_r2):
        with pytest.raises(GramianError, match="less precise than the cut"):
            measure(broken)


def test_the_cut_rises_to_the_precision_of_the_sums() -> None:
    """A negative eigenvalue shows how large rounding is; nothing smaller is a direction."""
    joint = JointMoments.from_rows(torch.cat([X, X[:, :1]], 1), Y)
    values, vectors = torch.linalg.eigh(joint.x.scatter)
    noisy = (vectors * values.clamp_min(-1) @ vectors.T) - 1e-7 * joint.x.scatter.diagonal().diag()
    x = Moments(joint.x.count, joint.x.count2, joint.x.mean, noisy)
    found = cca(JointMoments(x, joint.y, joint.cross))
    assert found.rank_x == 9
    assert found.cut > 1e-9


def test_batches_of_bfloat16_are_the_whole() -> None:
    x, y = X.to(torch.bfloat16), Y.to(torch.bfloat16)
    streamed = Accumulator({"a": 9, "b": 5}, [Pair("a", "b")])
    for i in range(0, 400, 37):
        streamed.update({"a": x[i : i + 37], "b": y[i : i + 37]})
    joint, whole = streamed.joint(Pair("a", "b")), JointMoments.from_rows(x, y)
    assert torch.allclose(cca(joint).correlations, cca(whole).correlations, atol=1e-5)
    assert pwcca(joint) == pytest.approx(pwcca(whole), abs=1e-5)
    assert regression_r2(joint) == pytest.approx(regression_r2(whole), abs=1e-5)
