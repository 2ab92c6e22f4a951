"""The bound before any fit against Gram matrices and the rotation itself."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures import procrustes_bound
from gramian.moments import JointMoments
from gramian.solvers import procrustes


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def unit(rows: Tensor) -> Tensor:
    return rows / rows.norm(dim=1, keepdim=True)


@pytest.mark.parametrize(("dx", "dy"), [(4, 4), (3, 6), (6, 3), (40, 2)])
def test_delta_is_that_of_the_gram_matrices(dx: int, dy: int) -> None:
    x, y = normal(30, dx) + 1, normal(30, dy, seed=1) - 2
    found = procrustes_bound(JointMoments.from_rows(x, y))
    want = float((x @ x.T - y @ y.T).norm()) / 30
    assert found.delta == pytest.approx(want, rel=1e-10)
    assert found.error == pytest.approx(math.sqrt(2 * max(dx, dy)) * want, rel=1e-10)
    assert math.isnan(found.cosine)
    total = float(x.square().sum() + y.square().sum()) / 30
    assert found.total == pytest.approx(total, rel=1e-10)
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["cosine"] is None


@pytest.mark.parametrize("noise", [0.0, 1e-3, 0.03, 0.3, 3.0])
@pytest.mark.parametrize(("dx", "dy"), [(8, 8), (8, 5), (5, 8)])
def test_no_rotation_does_worse_than_promised(noise: float, dx: int, dy: int) -> None:
    x = normal(200, dx, seed=2) * torch.linspace(1, 0.01, dx).double()
    q = torch.linalg.qr(normal(max(dx, dy), max(dx, dy), seed=3))[0][:dx, :dy]
    y = x @ q + noise * normal(200, dy, seed=4)
    x, y = unit(x), unit(y)
    joint = JointMoments.from_rows(x, y)
    found, best = procrustes_bound(joint), procrustes(joint, intercept=False)
    assert best.evidence.errors["train"] <= found.error + 1e-12
    # where the rotation is an isometry, an error is a cosine
    if dx <= dy:
        assert float((best.map(x) * y).sum(1).mean()) >= found.cosine - 1e-12
    assert found.vacuous == (found.error >= 2 - 1e-12)


def test_a_turned_copy_is_promised_to_rounding() -> None:
    x = unit(normal(100, 6))
    q = torch.linalg.qr(normal(6, 6, seed=1))[0]
    found = procrustes_bound(JointMoments.from_rows(x, x @ q))
    assert found.error < 1e-6
    assert found.cosine == pytest.approx(1.0, abs=1e-6)
    assert not found.vacuous
    half = procrustes_bound(JointMoments.from_rows(x.half(), (x @ q).bfloat16()))
    assert 0.9 < half.cosine < 1.0


def test_long_rows_are_vacuous_by_their_own_lengths() -> None:
    x = 100 * unit(normal(100, 6))
    q = torch.linalg.qr(normal(6, 6, seed=1))[0]
    found = procrustes_bound(JointMoments.from_rows(x, x @ q + 0.01))
    assert found.error > 2
    assert not found.vacuous
    apart = procrustes_bound(JointMoments.from_rows(x, x[:1].expand(100, 6)))
    assert apart.vacuous


def test_refusals() -> None:
    x = normal(10, 3)
    with pytest.raises(GramianError, match="no rows"):
        procrustes_bound(JointMoments.from_rows(x[:0], x[:0]))
    with pytest.raises(GramianError, match="full moments of both"):
        procrustes_bound(JointMoments.from_rows(x, x, target="diagonal"))
    assert np.isfinite(procrustes_bound(JointMoments.from_rows(x[:1], x[:1])).delta)
