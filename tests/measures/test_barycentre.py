"""The mean of covariances: closed forms, the defining equation, singular parts."""

from __future__ import annotations

import math

import pytest
import scipy.linalg
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures import bures_distance, bures_mean, gbw_distance
from gramian.moments import Moments


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def covariance(d: int, rank: int, seed: int = 0) -> Tensor:
    root = normal(d, rank, seed=seed)
    return root @ root.T / rank


def root(a: Tensor) -> Tensor:
    return torch.from_numpy(scipy.linalg.sqrtm(a.numpy()).real)


PARTS = [covariance(5, 8, seed=i) * (1 + i) for i in range(4)]
WEIGHTS = [0.1, 0.4, 0.2, 0.3]


def test_the_defining_equation() -> None:
    """``G = sum_i w_i (G^1/2 A_i G^1/2)^1/2``."""
    g = bures_mean(PARTS, WEIGHTS)
    r = root(g)
    want = sum(w * root(r @ a @ r) for w, a in zip(WEIGHTS, PARTS, strict=True))
    assert torch.allclose(g, want, atol=1e-9)


def test_no_other_matrix_is_closer() -> None:
    def cost(g: Tensor) -> float:
        return sum(w * bures_distance(g, a) ** 2 for w, a in zip(WEIGHTS, PARTS, strict=True))

    g = bures_mean(PARTS, WEIGHTS)
    for seed in range(30):
        change = torch.eye(5).double() + 0.02 * normal(5, 5, seed=seed)
        assert cost(change @ g @ change.T) > cost(g)


def test_commuting_parts() -> None:
    """The mean of the roots, squared; also where some are singular."""
    q = torch.linalg.qr(normal(4, 4))[0]
    spectra = torch.tensor([[1.0, 4, 0, 9], [16, 0, 0, 1], [4, 1, 0, 25]]).double()
    got = bures_mean([q * s @ q.T for s in spectra], [1, 2, 1])
    weights = torch.tensor([0.25, 0.5, 0.25]).double()
    assert torch.allclose(got, q * (weights @ spectra.sqrt()).square() @ q.T, atol=1e-9)


def test_two_parts_meet_in_the_middle_of_the_geodesic() -> None:
    a, b = PARTS[:2]
    distance = bures_distance(a, b)
    for t in (0.2, 0.5, 0.9):
        g = bures_mean([a, b], [1 - t, t])
        assert bures_distance(g, a) == pytest.approx(t * distance, rel=1e-7)
        assert bures_distance(g, b) == pytest.approx((1 - t) * distance, rel=1e-7)


def test_singular_parts_of_rank_two() -> None:
    parts = [covariance(6, 2, seed=i) for i in range(2)]
    g = bures_mean(parts)
    assert bool(torch.isfinite(g).all())
    half = bures_distance(*parts) / 2
    for part in parts:
        assert bures_distance(g, part) == pytest.approx(half, rel=1e-7)


def test_one_part_equal_parts_and_parts_without_weight() -> None:
    for parts, weights in (([PARTS[0]], None), ([PARTS[0]] * 3, None), (PARTS, [1, 0, 0, 0])):
        assert torch.allclose(bures_mean(parts, weights), PARTS[0], atol=1e-12)
    assert not bures_mean([torch.zeros(3, 3)] * 2).any()


def test_of_moments() -> None:
    rows = [normal(40, 3, seed=i) * (i + 1) + 1e4 for i in range(3)]
    got = bures_mean([Moments.from_rows(x) for x in rows])
    assert torch.allclose(got, bures_mean([torch.cov(x.T) for x in rows]), rtol=1e-8)


def test_generalised_mean_is_closest_in_its_own_distance() -> None:
    metric = covariance(5, 9, seed=20)
    g = bures_mean(PARTS, WEIGHTS, metric=metric, power=0.5)

    def cost(g: Tensor) -> float:
        return sum(
            w * gbw_distance(g, a, metric=metric, power=0.5) ** 2
            for w, a in zip(WEIGHTS, PARTS, strict=True)
        )

    for seed in range(20):
        change = torch.eye(5).double() + 0.02 * normal(5, 5, seed=seed)
        assert cost(change @ g @ change.T) > cost(g)
    # with a power the mean of multiples of the identity is the power mean of their roots
    powered = bures_mean([4 * torch.eye(2), 16 * torch.eye(2)], power=0.5)
    want = ((4**0.25 + 16**0.25) / 2) ** 4
    assert torch.allclose(powered, want * torch.eye(2).double(), rtol=1e-10)


def test_refusals() -> None:
    with pytest.raises(GramianError, match="no covariances"):
        bures_mean([])
    with pytest.raises(GramianError, match=r"parts\[1\] has width 3"):
        bures_mean([PARTS[0], torch.eye(3)])
    for weights in ([1, 2], [1, 1, 1, -1], [0, 0, 0, 0], [1, 1, 1, math.nan]):
        with pytest.raises(GramianError, match="weights"):
            bures_mean(PARTS, weights)
    with pytest.raises(GramianError, match="after 2 steps"):
        bures_mean(PARTS, steps=2, tolerance=1e-14)
