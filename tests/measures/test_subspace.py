"""Principal angles against SciPy, and the confidence region by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures import principal_angles, subspace_test
from gramian.moments import Moments


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("k,m", [(3, 3), (2, 4), (4, 2), (1, 1), (5, 5)])
def test_angles_are_those_of_scipy(k: int, m: int) -> None:
    a, b = normal(7, k), normal(7, m, seed=1)
    expected = np.sort(scipy.linalg.subspace_angles(a.numpy(), b.numpy()))
    np.testing.assert_allclose(principal_angles(a, b).numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(principal_angles(1e-9 * a, b * 1e9).numpy(), expected, atol=1e-12)


def test_tiny_and_right_angles_keep_their_digits() -> None:
    a = torch.eye(6, dtype=torch.float64)[:, :2]
    b = a.clone()
    b[2, 0], b[3, 1] = math.tan(1e-9), math.tan(3e-7)
    found = principal_angles(a, b)
    torch.testing.assert_close(found, torch.tensor([1e-9, 3e-7]).double(), rtol=1e-6, atol=0)
    right = principal_angles(a, torch.eye(6).double()[:, 3:])
    torch.testing.assert_close(right, torch.full((2,), math.pi / 2).double())
    assert float(principal_angles(a, a @ normal(2, 2)).max()) < 1e-15


def by_definition(x: Tensor, basis: Tensor) -> float:
    values, vectors = np.linalg.eigh(np.cov(x.numpy().T))
    values, vectors = values[::-1], vectors[:, ::-1]
    k, total = basis.shape[1], 0.0
    tilt = vectors[:, k:].T @ basis.numpy() @ np.linalg.inv(vectors[:, :k].T @ basis.numpy())
    for i in range(k):
        for j in range(k, len(values)):
            gap = (values[i] - values[j]) ** 2 / (values[i] * values[j])
            total += gap * tilt[j - k, i] ** 2
    return len(x) * total


def test_statistic_by_definition_in_any_basis_of_the_subspace() -> None:
    x = normal(300, 5) * torch.tensor([4.0, 3, 1, 1, 0.5]) + 100
    basis = torch.eye(5, dtype=torch.float64)[:, :2] + 0.1 * normal(5, 2, seed=2)
    found = subspace_test(Moments.from_rows(x), basis)
    assert found.statistic == pytest.approx(by_definition(x, basis), rel=1e-9)
    mixed = subspace_test(Moments.from_rows(x), basis @ normal(2, 2, seed=3))
    assert mixed.statistic == pytest.approx(found.statistic, rel=1e-9)
    assert found.dof == 6
    assert found.p_value == pytest.approx(scipy.stats.chi2.sf(found.statistic, 6), rel=1e-9)
    halved = subspace_test(Moments.from_rows(x), basis, rows=150)
    assert halved.statistic == pytest.approx(found.statistic / 2, rel=1e-12)


def test_own_subspace_and_an_orthogonal_one() -> None:
    m = Moments.from_rows(normal(300, 4) * torch.tensor([4.0, 3, 1, 1]))
    own = torch.linalg.eigh(m.scatter)[1].flip(1)
    same = subspace_test(m, own[:, :2])
    assert same.statistic < 1e-20
    assert same.p_value == pytest.approx(1.0)
    assert same.gap == pytest.approx(
        float(torch.linalg.eigvalsh(m.scatter)[2] / torch.linalg.eigvalsh(m.scatter)[1]), rel=1e-9
    )
    other = subspace_test(m, own[:, 2:])
    assert (other.statistic, other.p_value) == (math.inf, 0.0)
    assert not other.accepts()


def coverage(rows: Callable[[torch.Generator], Tensor], runs: int, *, elliptical: bool) -> tuple:
    scale = torch.tensor([3.0, 2.0, 1.0, 1.0, 0.8, 0.5], dtype=torch.float64)
    turn = torch.linalg.qr(normal(6, 6, seed=4))[0]
    generator = torch.Generator().manual_seed(11)
    tests = [
        subspace_test(
            Moments.from_rows(rows(generator) * scale @ turn.T), turn[:, :2], elliptical=elliptical
        )
        for _ in range(runs)
    ]
    return np.mean([t.statistic for t in tests]), np.mean([t.accepts(0.95) for t in tests])


def gaussian(generator: torch.Generator) -> Tensor:
    return torch.randn(1000, 6, generator=generator, dtype=torch.float64)


def student(generator: torch.Generator) -> Tensor:
    """A multivariate t with 12 degrees of freedom, of which all fourth moments exist."""
    chi = torch.randn(1000, 12, generator=generator, dtype=torch.float64).square().sum(1)
    return gaussian(generator) * (12 / chi).sqrt()[:, None]


def test_the_region_covers_what_it_says_on_normal_rows() -> None:
    mean, covered = coverage(gaussian, 400, elliptical=False)
    assert mean == pytest.approx(8, abs=0.6)  # 8 degrees of freedom; standard error 0.2
    assert covered == pytest.approx(0.95, abs=0.033)  # three standard errors


def test_heavy_tails_need_the_correction() -> None:
    plain, covered_plainly = coverage(student, 300, elliptical=False)
    assert plain == pytest.approx(8 * 1.25, rel=0.12)  # kappa = 2 / (12 - 4)
    corrected, covered = coverage(student, 300, elliptical=True)
    assert corrected == pytest.approx(8, abs=0.8)
    assert covered > covered_plainly
    assert covered == pytest.approx(0.95, abs=0.04)


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda m: subspace_test(m.diagonal(), torch.eye(4)[:, :1]), "full moments"),
        (lambda m: subspace_test(m, torch.eye(4)), "k < d"),
        (lambda m: subspace_test(m, torch.eye(5)[:, :2]), "width 4"),
        (lambda m: subspace_test(m, torch.ones(4, 2)), "depend on each other"),
        (lambda m: subspace_test(m, torch.full((4, 1), torch.nan)), "NaN"),
        (lambda m: subspace_test(m, torch.ones(4)), "expected"),
        (lambda m: subspace_test(m, torch.eye(4)[:, :1], rows=3), "more than 4 rows"),
        (
            lambda m: subspace_test(Moments.from_rows(torch.ones(9, 4)), torch.eye(4)[:, :1]),
            "0 of 4 directions",
        ),
        (
            lambda m: subspace_test(m.without_quartic(), torch.eye(4)[:, :1], elliptical=True),
            "fourth order",
        ),
        (lambda m: subspace_test(m, torch.eye(4)[:, :1]).accepts(1.0), "between 0 and 1"),
        (lambda m: principal_angles(torch.eye(4)[:, :1], torch.eye(5)[:, :1]), "4 and 5"),
    ],
)
def test_refusals(call: Callable[[Moments], object], message: str) -> None:
    with pytest.raises(GramianError, match=message):
        call(Moments.from_rows(normal(50, 4)))
