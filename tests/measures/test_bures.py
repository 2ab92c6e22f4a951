"""Distances between covariances: closed forms, singular matrices, the axioms of a metric."""

from __future__ import annotations

import itertools
import math

import pytest
import scipy.linalg
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures import (
    bures_distance,
    frechet_distance,
    gbw_distance,
    spectral_distance,
)
from gramian.moments import Accumulator, Moments


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def covariance(d: int, rank: int, seed: int = 0) -> Tensor:
    root = normal(d, rank, seed=seed)
    return root @ root.T


def textbook(a: Tensor, b: Tensor) -> float:
    """``tr A + tr B - 2 tr (A^1/2 B A^1/2)^1/2`` with matrix roots, squared."""
    root = scipy.linalg.sqrtm(a.numpy())
    inner = scipy.linalg.sqrtm(root @ b.numpy() @ root)
    return float(a.trace() + b.trace()) - 2 * float(inner.trace().real)


A, B = covariance(6, 9), covariance(6, 9, seed=1)
LOW = covariance(8, 5, seed=2)


def test_textbook_form() -> None:
    assert bures_distance(A, B) ** 2 == pytest.approx(textbook(A, B), rel=1e-10)
    assert bures_distance(A, B) == pytest.approx(bures_distance(B, A), rel=1e-12)


def test_commuting_covariances() -> None:
    q = torch.linalg.qr(normal(6, 6, seed=3))[0]
    a, b = torch.tensor([9.0, 4, 1, 0, 1e-8, 2]).double(), torch.arange(6).double()
    got = bures_distance(q * a @ q.T, q * b @ q.T)
    assert got == pytest.approx(float((a.sqrt() - b.sqrt()).norm()), rel=1e-8)
    assert bures_distance(A, 4 * A) == pytest.approx(math.sqrt(float(A.trace())), rel=1e-12)
    assert bures_distance(A, torch.zeros(6, 6)) == pytest.approx(math.sqrt(float(A.trace())))
    assert bures_distance(torch.zeros(6, 6), torch.zeros(6, 6)) == 0


def test_a_singular_matrix_is_at_no_distance_from_itself() -> None:
    assert bures_distance(LOW, LOW) < 1e-13
    # nor from what it is after a turn there and back, where the null space is rounding
    q = torch.linalg.qr(normal(8, 8, seed=4))[0]
    again = q @ (q.T @ LOW @ q) @ q.T
    assert not torch.equal(again, LOW)
    assert bures_distance(LOW, (again + again.T) / 2) < 1e-13
    assert gbw_distance(LOW, LOW, metric=covariance(8, 12), power=0.5) < 1e-13


def test_small_distances_keep_their_digits() -> None:
    """``d(A, (1 + e)^2 A) = e sqrt(tr A)``, far below the root of rounding."""
    for size in (1e-4, 1e-8, 1e-11):
        got = bures_distance(LOW, (1 + size) ** 2 * LOW)
        assert got == pytest.approx(size * math.sqrt(float(LOW.trace())), rel=2e-3)


def test_a_metric() -> None:
    for seed in range(20):
        parts = [covariance(5, rank, seed=10 * seed + rank) for rank in (2, 5, 8)]
        metric = covariance(5, 7, seed=10 * seed)
        for distance in (
            bures_distance,
            lambda a, b, m=metric: gbw_distance(a, b, metric=m, power=0.5),
            lambda a, b: spectral_distance(
                *(torch.linalg.eigvalsh(t).clamp_min(0) for t in (a, b))
            ),
        ):
            for a, b, c in itertools.permutations(parts):
                assert distance(a, c) <= distance(a, b) + distance(b, c) + 1e-12


def test_frechet_adds_the_means() -> None:
    x, y = normal(200, 6), normal(150, 6, seed=1) @ normal(6, 6, seed=2) + 3
    a, b = Moments.from_rows(x), Moments.from_rows(y)
    gap = float((x.mean(0) - y.mean(0)).square().sum())
    want = gap + textbook(torch.cov(x.T), torch.cov(y.T))
    assert frechet_distance(a, b) ** 2 == pytest.approx(want, rel=1e-9)
    assert frechet_distance(a, a) < 1e-13
    moved = Moments.from_rows(x + 2)
    assert frechet_distance(a, moved) == pytest.approx(2 * math.sqrt(6), rel=1e-12)
    assert bures_distance(a, moved) < 1e-12


def test_far_means_and_batches_of_bfloat16() -> None:
    x, y = normal(300, 5), normal(300, 5, seed=1) * 2
    near = bures_distance(Moments.from_rows(x), Moments.from_rows(y))
    far = bures_distance(Moments.from_rows(x + 1e4), Moments.from_rows(y - 1e4))
    assert far == pytest.approx(near, rel=1e-10)
    halves = [rows.to(torch.bfloat16) for rows in (x, y)]
    streamed = Accumulator({"x": 5, "y": 5})
    for i in range(0, 300, 47):
        streamed.update({"x": halves[0][i : i + 47], "y": halves[1][i : i + 47]})
    got = frechet_distance(streamed.moments("x"), streamed.moments("y"))
    assert got == pytest.approx(frechet_distance(*map(Moments.from_rows, halves)), rel=1e-5)


def test_spectra_of_different_widths() -> None:
    p, q = torch.tensor([4.0, 4, 1]), torch.tensor([1.0, 8])
    want = math.sqrt(
        (math.sqrt(4 / 9) - math.sqrt(8 / 9)) ** 2 + (2 / 3 - 1 / 3) ** 2 + (1 / 3) ** 2
    )
    assert spectral_distance(p, q) == pytest.approx(want, rel=1e-12)
    x = normal(90, 4) * torch.tensor([5.0, 3, 2, 1])
    padded = torch.cat([x, torch.zeros(90, 7)], 1) @ torch.linalg.qr(normal(11, 11))[0] * 40
    same = spectral_distance(Moments.from_rows(x), Moments.from_rows(padded + 3))
    assert same == pytest.approx(0, abs=1e-12)
    one, many = torch.ones(1), torch.ones(1000)
    assert spectral_distance(one, many) == pytest.approx(math.sqrt(2 - 2 / math.sqrt(1000)))


def test_the_spectral_distance_is_the_best_over_rotations() -> None:
    a, b = A / A.trace(), B / B.trace()
    least = spectral_distance(torch.linalg.eigvalsh(a), torch.linalg.eigvalsh(b))
    turns = [torch.linalg.qr(normal(6, 6, seed=i))[0] for i in range(50)]
    assert least <= min(bures_distance(a, q @ b @ q.T) for q in turns)
    u, v = (torch.linalg.eigh(t)[1] for t in (a, b))
    assert bures_distance(a, u @ v.T @ b @ v @ u.T) == pytest.approx(least, rel=1e-10)


def test_generalised_by_definition() -> None:
    m = covariance(6, 10, seed=5)
    assert gbw_distance(A, B) == pytest.approx(bures_distance(A, B), rel=1e-13)
    assert gbw_distance(A, B, metric=torch.eye(6)) == pytest.approx(bures_distance(A, B), rel=1e-12)
    inverse = torch.from_numpy(scipy.linalg.inv(scipy.linalg.sqrtm(m.numpy()).real))
    a, b = (
        inverse @ torch.from_numpy(scipy.linalg.fractional_matrix_power(t.numpy(), 0.3)) @ inverse
        for t in (A, B)
    )
    want = textbook((a + a.T) / 2, (b + b.T) / 2)
    assert gbw_distance(A, B, metric=m, power=0.3) ** 2 == pytest.approx(want, rel=1e-8)


def test_an_invertible_map_of_rows_and_metric_changes_nothing() -> None:
    """In the units of a reference, a change of units of everything cancels."""
    t, m = normal(6, 6, seed=6), covariance(6, 10, seed=5)
    changed = gbw_distance(t @ A @ t.T, t @ B @ t.T, metric=t @ m @ t.T)
    assert changed == pytest.approx(gbw_distance(A, B, metric=m), rel=1e-9)


def test_constant_sites() -> None:
    still, moving = Moments.from_rows(torch.ones(9, 3)), Moments.from_rows(normal(9, 3))
    assert bures_distance(still, still) == 0
    want = math.sqrt(moving.trace / 8)
    assert bures_distance(still, moving) == pytest.approx(want, rel=1e-12)
    assert math.isnan(spectral_distance(still, moving))


def test_refusals() -> None:
    full = Moments.from_rows(normal(9, 3))
    with pytest.raises(GramianError, match="spectral_distance compares"):
        bures_distance(full, A)
    with pytest.raises(GramianError, match="order='full'"):
        bures_distance(full, Moments.from_rows(normal(9, 3), order="diagonal"))
    with pytest.raises(GramianError, match="more rows than ddof"):
        frechet_distance(full, Moments.from_rows(normal(1, 3)))
    for broken, reason in (
        (normal(3, 4), "expected"),
        (normal(3, 3), "symmetric"),
        (torch.full((3, 3), torch.nan), "NaN"),
        (-torch.eye(3), "below zero"),
        (torch.diag(torch.tensor([2.0, 1, -0.1])), "below zero"),
    ):
        with pytest.raises(GramianError, match=reason):
            bures_distance(full, broken)
    for metric, reason in ((covariance(6, 3), "singular"), (torch.eye(5), "order 5")):
        with pytest.raises(GramianError, match=reason):
            gbw_distance(A, B, metric=metric)
    for power in (0.0, -1.0, math.inf):
        with pytest.raises(GramianError, match="power"):
            gbw_distance(A, B, power=power)
