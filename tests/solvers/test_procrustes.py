"""Procrustes from moments against SciPy and brute force."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Tag
from gramian.moments import JointMoments, Moments
from gramian.solvers import procrustes


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


X = normal(90, 5) * torch.arange(1.0, 6.0) + 2
Y = X @ normal(5, 5, seed=1) + normal(90, 5, seed=2) - 1


@pytest.mark.parametrize("intercept", [True, False])
def test_equals_scipy(intercept: bool) -> None:
    solution = procrustes(JointMoments.from_rows(X, Y), intercept=intercept)
    x, y = (X - X.mean(0), Y - Y.mean(0)) if intercept else (X, Y)
    r, total = scipy.linalg.orthogonal_procrustes(x.numpy(), y.numpy())
    np.testing.assert_allclose(solution.map.to_dense(), r.T, atol=1e-10)
    assert Tag.ORTHOGONAL in solution.map.tags
    solution.map.check_tags()
    error = float((solution.map(X) - Y).square().sum()) / 90
    assert solution.evidence.errors["train"] == pytest.approx(error, rel=1e-10)
    if intercept:
        # |XR - Y|^2 = tr Sxx + tr Syy - 2 sum S
        spread = float(x.square().sum() + y.square().sum())
        assert error * 90 == pytest.approx(spread - 2 * total, rel=1e-10)


@pytest.mark.parametrize("widths", [(5, 3), (3, 5)])
def test_unequal_widths_are_the_block_of_the_padded_one(widths: tuple[int, int]) -> None:
    x, y = X[:, : widths[0]], Y[:, : widths[1]]
    weight = procrustes(JointMoments.from_rows(x, y)).map.to_dense()
    x, y = x - x.mean(0), y - y.mean(0)
    pads = [torch.cat([m, torch.zeros(90, 5 - m.shape[1]).double()], 1).numpy() for m in (x, y)]
    full = scipy.linalg.orthogonal_procrustes(*pads)[0]
    np.testing.assert_allclose(weight, full[: widths[0], : widths[1]].T, atol=1e-10)
    eye = weight @ weight.T if widths[0] > widths[1] else weight.T @ weight
    np.testing.assert_allclose(eye, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("widths", [(5, 5), (5, 3), (3, 5)])
def test_scale_is_the_best(widths: tuple[int, int]) -> None:
    joint = JointMoments.from_rows(X[:, : widths[0]], Y[:, : widths[1]])
    scaled, plain = procrustes(joint, scaled=True), procrustes(joint)
    u, v = (m - m.mean(0) for m in (X[:, : widths[0]], Y[:, : widths[1]]))
    image = u @ plain.map.to_dense().T
    best = float((image * v).sum() / image.square().sum())
    np.testing.assert_allclose(scaled.map.to_dense(), best * plain.map.to_dense(), rtol=1e-9)
    assert scaled.evidence.errors["train"] < plain.evidence.errors["train"]


def test_turned_rows_give_the_turn_back_and_report_is_judged() -> None:
    q = torch.linalg.qr(normal(5, 5, seed=3))[0]
    joint = JointMoments.from_rows(X[:60], X[:60] @ q.T + 4)
    report = JointMoments.from_rows(X[60:], X[60:] @ q.T + 4)
    solution = procrustes(joint, report)
    np.testing.assert_allclose(solution.map.to_dense(), q, atol=1e-12)
    assert isinstance(solution.map, Affine)
    assert solution.evidence.r2["report"] == pytest.approx(1.0, abs=1e-12)


def test_singular_and_empty() -> None:
    x = torch.cat([X[:, :1]] * 3, 1)
    solution = procrustes(JointMoments.from_rows(x, Y))
    assert "rank 1 of 3" in solution.evidence.notes[0]
    empty = JointMoments(Moments.empty(2), Moments.empty(2), torch.zeros(2, 2).double())
    with pytest.raises(GramianError, match="no rows"):
        procrustes(empty)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_rotation_never_reflects(d: int) -> None:
    """Umeyama: ``W = V diag(1, ..., 1, -1) U^T`` where the best map reflects, with its scale."""
    x = X[:, :d]
    mirror = torch.ones(d).double()
    mirror[0] = -3.0
    joint = JointMoments.from_rows(x, x * mirror)
    assert float(torch.linalg.det(procrustes(joint).map.to_dense())) < 0
    plain = procrustes(joint, rotation_only=True).map
    plain.check_tags()
    assert float(torch.linalg.det(plain.to_dense())) == pytest.approx(1.0, rel=1e-12)
    u, s, vh = np.linalg.svd(joint.cross.numpy())
    signs = np.ones(d)
    signs[-1] = np.sign(np.linalg.det(u) * np.linalg.det(vh))
    np.testing.assert_allclose(plain.to_dense(), vh.T @ np.diag(signs) @ u.T, atol=1e-12)
    scaled = procrustes(joint, rotation_only=True, scaled=True).map.to_dense()
    scale = max(0.0, float((s * signs).sum())) / joint.x.trace
    np.testing.assert_allclose(scaled, scale * plain.to_dense(), atol=1e-12)
