"""Slopes of one after unshrinking, and what cannot be undone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Dense
from gramian.moments import JointMoments
from gramian.solvers import Solution, ridge, unshrink


def pairs(n: int, seed: int) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 8, generator=g, dtype=torch.float64) + 3
    w = torch.randn(3, 8, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return x, x @ w.T + 2 * torch.randn(n, 3, generator=g, dtype=torch.float64) - 1


TRAIN = JointMoments.from_rows(*pairs(200, 0))
X, Y = pairs(400, 1)
HELD = JointMoments.from_rows(X, Y)


@pytest.mark.parametrize("multivariate", [False, True])
def test_slope_is_one_and_there_is_no_offset(multivariate: bool) -> None:
    shrunk = ridge(TRAIN, lambdas=[3.0])
    found = unshrink(shrunk, HELD, multivariate=multivariate).map(X)
    centred, y = found - found.mean(0), Y - Y.mean(0)
    before = shrunk.map(X) - shrunk.map(X).mean(0)
    assert float((before * y).sum() / y.square().sum()) < 0.6
    assert float((centred * y).sum() / y.square().sum()) == pytest.approx(1, abs=1e-12)
    torch.testing.assert_close(found.mean(0), Y.mean(0))
    if multivariate:
        slopes = torch.linalg.lstsq(y, centred).solution
        torch.testing.assert_close(slopes, torch.eye(3, dtype=torch.float64))


def test_new_rows_have_slope_near_one() -> None:
    found = unshrink(ridge(TRAIN, lambdas=[3.0]), HELD)
    x, y = pairs(4000, 2)
    y = y - y.mean(0)
    assert float((found.map(x) * y).sum() / y.square().sum()) == pytest.approx(1, abs=0.06)


def test_refusals() -> None:
    known = ridge(TRAIN, lambdas=[3.0])
    against = Solution(Dense(-known.map.to_dense()), known.evidence)
    with pytest.raises(GramianError, match="do not follow"):
        unshrink(against, HELD)
    with pytest.raises(GramianError, match="one shape"):
        unshrink(known, HELD.swap())
    flat = JointMoments.from_rows(X, torch.ones_like(Y))
    with pytest.raises(GramianError, match="does not vary"):
        unshrink(known, flat)
    thin = Solution(Dense(torch.eye(3, 8, dtype=torch.float64) * 0 + 1), known.evidence)
    with pytest.raises(GramianError, match="multivariate=False"):
        unshrink(thin, HELD, multivariate=True)
