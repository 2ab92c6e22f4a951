"""The map between two unpaired clouds against POT and its own conditions."""

from __future__ import annotations

import numpy as np
import ot
import pytest
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures import frechet_distance
from gramian.moments import Moments
from gramian.solvers import optimal_transport


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def cloud(n: int, d: int, seed: int, *, rank: int | None = None, mean: float = 0.0) -> Tensor:
    rank = d if rank is None else rank
    return normal(n, rank, seed=seed) @ normal(rank, d, seed=seed + 100) + mean


def covariance(moments: Moments) -> Tensor:
    return moments.scatter / moments.count


@pytest.mark.parametrize(("d", "mean"), [(1, 0.0), (5, 2.0), (40, 0.0), (6, 1e4)])
def test_equals_pot(d: int, mean: float) -> None:
    source = Moments.from_rows(cloud(300, d, 0, mean=mean))
    target = Moments.from_rows(cloud(200, d, 1))
    found = optimal_transport(source, target)
    weight, bias = ot.gaussian.bures_wasserstein_mapping(
        source.mean.numpy()[None],
        target.mean.numpy()[None],
        covariance(source).numpy(),
        covariance(target).numpy(),
    )
    scale = float(np.abs(weight).max())
    np.testing.assert_allclose(found.to_dense(), weight.T, atol=1e-10 * scale)
    np.testing.assert_allclose(found.bias, np.ravel(bias), atol=1e-9 * scale * max(1.0, mean))
    found.map.check_tags()
    assert float(torch.linalg.eigvalsh(found.to_dense()).min()) > 0


def test_costs_what_the_distance_says() -> None:
    x = cloud(400, 6, 2)
    source, target = Moments.from_rows(x), Moments.from_rows(cloud(400, 6, 3, mean=1.0))
    moved = float((optimal_transport(source, target)(x) - x).square().sum()) / 400
    # covariances over n there and over n - 1 here
    between = frechet_distance(source, target) ** 2 - float(
        (source.mean - target.mean).square().sum()
    )
    want = between * 399 / 400 + float((source.mean - target.mean).square().sum())
    assert moved == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("ranks", [(3, 6), (6, 3), (3, 4), (4, 4)])
def test_singular_clouds_are_carried_as_far_as_they_reach(ranks: tuple[int, int]) -> None:
    x, y = cloud(200, 6, 4, rank=ranks[0]), cloud(200, 6, 5, rank=ranks[1])
    source, target = Moments.from_rows(x), Moments.from_rows(y)
    found = optimal_transport(source, target)
    moved = covariance(source.through(found))
    few = min(ranks)
    assert int(torch.linalg.matrix_rank(moved, hermitian=True, rtol=1e-9)) == few
    # never more variance than the target has, in any direction
    gap = covariance(target) - moved
    assert float(torch.linalg.eigvalsh(gap).min()) > -1e-9 * float(covariance(target).trace())
    if ranks[0] >= ranks[1]:
        np.testing.assert_allclose(moved, covariance(target), atol=1e-9)
    # the limit of sources that vary a little in every direction
    eye = 1e-9 * torch.eye(6).double()
    near = Moments(200.0, 200.0, source.mean, source.scatter + 200 * eye)
    limit = optimal_transport(near, target)
    np.testing.assert_allclose(found(x), limit(x), atol=2e-3)


def test_stays_and_goes_part_of_the_way() -> None:
    x = cloud(100, 4, 6)
    source, target = Moments.from_rows(x), Moments.from_rows(cloud(100, 4, 7, mean=3.0))
    whole = optimal_transport(source, target)
    for alpha in (-1.0, 0.3, 1.0):
        part = optimal_transport(source, target, alpha=alpha)
        np.testing.assert_allclose(part(x), (1 - alpha) * whole(x) + alpha * x, atol=1e-10)
    still = optimal_transport(source, source)
    np.testing.assert_allclose(still(x), x, atol=1e-10)


def test_a_ridge_steadies_directions_without_variance() -> None:
    x = cloud(200, 5, 8)
    x[:, 4] *= 1e-6
    source, target = Moments.from_rows(x), Moments.from_rows(cloud(200, 5, 9))
    wild = float(torch.linalg.matrix_norm(optimal_transport(source, target).to_dense(), 2))
    calm = optimal_transport(source, target, ridge=0.01).to_dense()
    assert wild > 1e4
    assert float(torch.linalg.matrix_norm(calm, 2)) < 100


def test_refusals() -> None:
    a, b = (Moments.from_rows(cloud(30, 4, seed)) for seed in (0, 1))
    with pytest.raises(GramianError, match="full moments"):
        optimal_transport(a.diagonal(), b)
    with pytest.raises(GramianError, match="no rows"):
        optimal_transport(a, Moments.empty(4))
    with pytest.raises(GramianError, match="ridge is -1"):
        optimal_transport(a, b, ridge=-1)
    with pytest.raises(GramianError, match="alpha is nan"):
        optimal_transport(a, b, alpha=float("nan"))
