"""Canonical correlations against cca-zoo on the same rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from cca_zoo.linear import CCA
from torch import Tensor

from gramian.measures import cca
from gramian.moments import Accumulator, JointMoments, Pair


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def reference(x: Tensor, y: Tensor, k: int) -> np.ndarray:
    views = [x.numpy(), y.numpy()]
    a, b = CCA(n_components=k).fit(views).transform(views)
    return np.array([np.corrcoef(a[:, i], b[:, i])[0, 1] for i in range(k)])


@pytest.mark.parametrize(
    ("n", "dx", "dy", "mean"), [(500, 20, 12, 0.0), (120, 5, 30, 3.0), (40, 6, 6, 1e4)]
)
def test_correlations(n: int, dx: int, dy: int, mean: float) -> None:
    common = normal(n, 4, seed=1)
    x = common @ normal(4, dx, seed=2) + 0.7 * normal(n, dx, seed=3) + mean
    y = common @ normal(4, dy, seed=4) + 0.5 * normal(n, dy, seed=5) - mean
    k = min(dx, dy)
    want = reference(x, y, k)
    assert cca(JointMoments.from_rows(x, y)).correlations.numpy() == pytest.approx(want, abs=1e-8)
    streamed = Accumulator({"x": dx, "y": dy}, [Pair("x", "y")], precision="float64")
    for i in range(0, n, 33):
        streamed.update({"x": x[i : i + 33], "y": y[i : i + 33]})
    found = cca(streamed.joint(Pair("x", "y")))
    assert found.correlations.numpy() == pytest.approx(want, abs=1e-8)
    assert found.mean == pytest.approx(want.mean(), abs=1e-8)
