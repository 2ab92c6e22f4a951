"""Coding rates from rows by definition and for orthogonal classes in closed form."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures import coding_rate, rate_reduction, unit_rows
from gramian.moments import Moments


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("shape", [(40, 6), (4, 9)])
def test_by_the_determinant_of_either_gram_matrix(shape: tuple[int, int]) -> None:
    z = unit_rows(normal(*shape) + 1)
    n, d = shape
    alpha = d / (n * 0.3**2)
    for gram in (z.T @ z, z @ z.T):
        eye = torch.eye(len(gram), dtype=torch.float64)
        expected = 0.5 * float(torch.linalg.slogdet(eye + alpha * gram).logabsdet)
        assert coding_rate(Moments.from_rows(z), epsilon=0.3) == pytest.approx(expected, rel=1e-11)


def test_orthogonal_classes_in_closed_form() -> None:
    """Class k holds each of its r axes and their negatives c_k times: all eigenvalues are known."""
    r, sizes, epsilon = 2, (3, 5, 4), 0.5
    d = r * len(sizes)
    classes = []
    for k, copies in enumerate(sizes):
        axes = torch.eye(d, dtype=torch.float64)[k * r : (k + 1) * r]
        classes.append(torch.cat([axes, -axes]).repeat(copies, 1))
    n = sum(len(rows) for rows in classes)
    found = rate_reduction([Moments.from_rows(rows) for rows in classes], epsilon=epsilon)
    total = sum(r / 2 * math.log1p(d / (n * epsilon**2) * 2 * c) for c in sizes)
    apart = sum(
        len(rows) / n * r / 2 * math.log1p(d / (len(rows) * epsilon**2) * 2 * c)
        for rows, c in zip(classes, sizes, strict=True)
    )
    assert found.total == pytest.approx(total, rel=1e-12)
    assert found.classes == pytest.approx(apart, rel=1e-12)
    assert found.reduction == pytest.approx(total - apart, rel=1e-12)


def test_reduction_is_never_negative_and_zero_for_one_law() -> None:
    for seed in range(20):
        rows = unit_rows(normal(30, 5, seed=seed) * torch.arange(1.0, 6.0))
        parts = [Moments.from_rows(rows[:4]), Moments.from_rows(rows[4:9]), Moments.empty(5)]
        assert rate_reduction([*parts, Moments.from_rows(rows[9:])]).reduction > 0
    same = Moments.from_rows(rows)
    assert rate_reduction([same, same, same]).reduction == pytest.approx(0, abs=1e-12)
    single = rate_reduction([same])
    assert single.total == single.classes


def test_soft_memberships_are_weights() -> None:
    rows = unit_rows(normal(30, 5))
    share = torch.rand(30, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    parts = [Moments.from_rows(rows, share), Moments.from_rows(rows, 1 - share)]
    found = rate_reduction(parts)
    assert found.total == pytest.approx(coding_rate(Moments.from_rows(rows)), rel=1e-12)
    weighted = (rows * share[:, None]).T @ rows
    eye = torch.eye(5, dtype=torch.float64)
    rate = 0.5 * float(torch.logdet(eye + 5 / (float(share.sum()) * 0.25) * weighted))
    assert coding_rate(parts[0]) == pytest.approx(rate, rel=1e-11)


def test_refusals() -> None:
    m = Moments.from_rows(normal(9, 3))
    for call, message in (
        (lambda: coding_rate(m, epsilon=0.0), "epsilon"),
        (lambda: coding_rate(m, epsilon=math.nan), "epsilon"),
        (lambda: coding_rate(m.diagonal()), "full moments"),
        (lambda: coding_rate(Moments.empty(3)), "no rows"),
        (lambda: rate_reduction([]), "moments of each class"),
        (lambda: rate_reduction([m, Moments.from_rows(normal(9, 4))]), "width"),
    ):
        with pytest.raises(GramianError, match=message):
            call()
