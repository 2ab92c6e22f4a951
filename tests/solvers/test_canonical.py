"""Bridges through canonical directions against scikit-learn, cca-zoo and brute force."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from cca_zoo.linear import CCA as ZooCCA
from sklearn.cross_decomposition import CCA
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures import cca
from gramian.moments import JointMoments, squared_error
from gramian.solvers import canonical, canonical_coordinates, ridge


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pairs(n: int, dx: int, dy: int, *, noise: float = 0.5, mean: float = 0.0) -> tuple[Tensor, ...]:
    common = normal(n, 4, seed=1) * torch.tensor([1.0, 0.8, 0.5, 0.3]).double()
    x = common @ normal(4, dx, seed=2) + noise * normal(n, dx, seed=3)
    y = common @ normal(4, dy, seed=4) + noise * normal(n, dy, seed=5)
    return x + mean, y - mean


def correlations(u: Tensor, v: Tensor) -> np.ndarray:
    return np.array([np.corrcoef(u[:, i], v[:, i])[0, 1] for i in range(u.shape[1])])


@pytest.mark.parametrize(
    ("n", "dx", "dy", "mean"), [(400, 8, 5, 0.0), (400, 5, 8, 3.0), (300, 6, 6, 1e4)]
)
def test_coordinates_are_those_of_scikit_learn_and_cca_zoo(
    n: int, dx: int, dy: int, mean: float
) -> None:
    x, y = pairs(n, dx, dy, mean=mean)
    joint = JointMoments.from_rows(x, y)
    to_common, from_target = canonical_coordinates(joint, rank=3, ridge=0.0)
    u, v = to_common(x), from_target(y)
    want = cca(joint).correlations[:3].numpy()
    np.testing.assert_allclose(correlations(u, v), want, atol=1e-9)
    np.testing.assert_allclose(u.T @ u / n, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(v.T @ v / n, np.eye(3), atol=1e-9)
    zoo = ZooCCA(n_components=3).fit([x.numpy(), y.numpy()])
    peer = CCA(n_components=3, scale=False, max_iter=50000, tol=1e-15).fit(x, y)
    for ours, theirs, tolerance in (
        (u, zoo.transform([x.numpy(), y.numpy()])[0], 1e-6),
        (v, zoo.transform([x.numpy(), y.numpy()])[1], 1e-6),
        (u, peer.transform(x, y)[0], 1e-4),
    ):
        # the same coordinates up to sign and scale
        agreement = np.abs(correlations(ours, torch.as_tensor(theirs)))
        np.testing.assert_allclose(agreement, 1.0, atol=tolerance)


def test_a_power_weighs_coordinates() -> None:
    joint = JointMoments.from_rows(*pairs(200, 6, 5))
    plain = canonical_coordinates(joint, ridge=0.0)
    heavy = canonical_coordinates(joint, power=0.5, ridge=0.0)
    gains = cca(joint).correlations.sqrt()[:, None]
    for left, right in zip(plain, heavy, strict=True):
        np.testing.assert_allclose(right.to_dense(), gains * left.to_dense(), atol=1e-9)


@pytest.mark.parametrize("noise", [0.05, 2.0])
def test_the_power_that_is_named_is_the_power_that_is_used(noise: float) -> None:
    x, y = pairs(300, 6, 4, noise=noise)
    train = JointMoments.from_rows(x[:200], y[:200])
    select = JointMoments.from_rows(x[200:], y[200:])
    found = canonical(train, select)
    errors = {
        p: squared_error(select, canonical(train, power=p).map) for p in (0.0, 0.25, 0.5, 0.75, 1.0)
    }
    best = min(errors, key=errors.__getitem__)
    assert f"power {best:g} has the least error" in found.evidence.notes[0]
    again = canonical(train + select, power=best)
    np.testing.assert_allclose(found.map.to_dense(), again.map.to_dense(), atol=1e-12)
    assert found.evidence.errors["select"] == pytest.approx(errors[best] / 100, rel=1e-9)


def test_rank_keeps_the_most_correlated() -> None:
    x, y = pairs(300, 7, 5)
    joint = JointMoments.from_rows(x, y)
    for rank in (1, 3):
        found = canonical(joint, rank=rank, power=1.0, ridge=0.0).map.map.to_dense()
        to_common, _ = canonical_coordinates(joint, rank=rank, ridge=0.0)
        # least squares of y from the kept coordinates
        u = to_common(x)
        want = torch.linalg.lstsq(u, y - y.mean(0)).solution.T @ to_common.map.to_dense()
        np.testing.assert_allclose(found, want, atol=1e-9)


def test_constant_and_duplicated_columns() -> None:
    x, y = pairs(200, 5, 4, mean=1e4)
    wide = torch.cat([x, x[:, :1], torch.full((200, 1), 7.0).double()], 1)
    tall = torch.cat([y, y[:, 1:2], torch.zeros(200, 1).double()], 1)
    found = canonical(JointMoments.from_rows(wide, tall), power=1.0, ridge=0.0)
    want = ridge(JointMoments.from_rows(wide, tall), lambdas=[0.0])
    np.testing.assert_allclose(found.map(wide), want.map(wide), atol=1e-6)
    assert found.evidence.condition == float("inf")


def test_few_rows_are_said() -> None:
    joint = JointMoments.from_rows(*pairs(12, 8, 6))
    assert "by counting alone" in canonical(joint).evidence.notes[-1]
    assert torch.isfinite(canonical(joint).map.to_dense()).all()


def test_refusals() -> None:
    x, y = pairs(30, 4, 3)
    joint = JointMoments.from_rows(x, y)
    with pytest.raises(GramianError, match="rank is 4, expected 1 to 3"):
        canonical(joint, rank=4)
    with pytest.raises(GramianError, match="power is 2"):
        canonical(joint, power=2.0)
    with pytest.raises(GramianError, match="ridge is -1"):
        canonical_coordinates(joint, ridge=-1.0)
    with pytest.raises(GramianError, match="no rows"):
        canonical(JointMoments.from_rows(x[:0], y[:0]))
    with pytest.raises(GramianError, match="0 directions vary on both"):
        canonical_coordinates(JointMoments.from_rows(torch.ones(5, 3), torch.ones(5, 2)))
