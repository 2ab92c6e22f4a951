"""How many directions are used, in cases where it is known."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures import effective_rank, participation_ratio, stable_rank
from gramian.moments import Moments

MEASURES = (effective_rank, participation_ratio, stable_rank)


@pytest.mark.parametrize("measure", MEASURES)
def test_k_equal_directions_are_k(measure: Callable[[Moments | Tensor], float]) -> None:
    for k in (1, 3, 6):
        values = torch.zeros(6, dtype=torch.float64)
        values[:k] = 2.5
        assert measure(values) == pytest.approx(k, rel=1e-12)
        q = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(0)).double())
        moments = Moments(9.0, 9.0, torch.zeros(6).double(), q[0] * values @ q[0].T)
        assert measure(moments) == pytest.approx(k, rel=1e-9)
    assert measure(torch.zeros(4)) == 0.0


def test_by_definition() -> None:
    x = torch.randn(50, 5, generator=torch.Generator().manual_seed(1)) * torch.arange(1, 6)
    values = np.linalg.eigvalsh(np.cov(x.numpy().T.astype(float)))
    p = values / values.sum()
    moments = Moments.from_rows(x)
    assert effective_rank(moments) == pytest.approx(math.exp(-(p * np.log(p)).sum()), rel=1e-10)
    assert participation_ratio(moments) == pytest.approx(1 / (p * p).sum(), rel=1e-10)
    assert stable_rank(moments) == pytest.approx(1 / p.max(), rel=1e-10)
    assert stable_rank(moments) <= participation_ratio(moments) <= effective_rank(moments)


def test_refusals() -> None:
    for measure in MEASURES:
        with pytest.raises(GramianError, match="none below zero"):
            measure(torch.tensor([1.0, -1.0]))
    for measure in (effective_rank, stable_rank):
        with pytest.raises(GramianError, match="full moments"):
            measure(Moments.from_rows(torch.ones(3, 2), order="diagonal"))
