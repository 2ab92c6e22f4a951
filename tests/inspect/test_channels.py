"""Loud and silent channels that were put there."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.inspect import Channels
from gramian.moments import Moments


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("order", ["full", "diagonal"])
def test_a_spread_and_a_mean_are_found_and_measured(order: str) -> None:
    x = normal(4000, 40)
    x = (x - x.mean(0)) / x.std(0, correction=0)
    x[:, 7] *= 20
    x[:, 30] = x[:, 30] * 2 - 11
    found = Channels.of(Moments.from_rows(x, order=order))
    assert [outlier.channel for outlier in found.outliers] == [7, 30]
    spread, mean = found.outliers
    assert spread.std_times == pytest.approx(20, rel=1e-9)
    assert spread.mean_times == pytest.approx(0, abs=1e-9)
    assert spread.times == spread.std_times
    assert mean.mean_times == pytest.approx(11, rel=1e-9)
    assert mean.std_times == pytest.approx(2, rel=1e-9)
    assert found.outlier_share == pytest.approx((400 + 4) / (400 + 4 + 38), rel=1e-9)
    assert found.silent == 0
    assert Channels.of(Moments.from_rows(x, order=order), threshold=21).outliers == ()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_constant_channels_are_silent_and_do_not_make_the_others_loud(dtype: torch.dtype) -> None:
    x = normal(500, 10).to(dtype)
    x[:, 3:9] = 3.0
    found = Channels.of(Moments.from_rows(x))
    assert found.silent == 6
    assert found.outliers == ()
    far = Channels.of(Moments.from_rows((normal(500, 10) + 1e4).float()))
    assert (far.silent, far.outliers) == (0, ())


def test_nothing_varies() -> None:
    found = Channels.of(Moments.from_rows(torch.ones(5, 3)))
    assert found == Channels((), 0.0, 3)
    with pytest.raises(GramianError, match="no rows"):
        Channels.of(Moments.empty(3))
    with pytest.raises(GramianError, match="above 1"):
        Channels.of(Moments.from_rows(normal(5, 3)), threshold=1)
