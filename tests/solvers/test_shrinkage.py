"""Shrunk covariances against scikit-learn and the code of LEACE, on the rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from concept_erasure.shrinkage import optimal_linear_shrinkage
from sklearn.covariance import ledoit_wolf as sklearn_ledoit_wolf
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import Accumulator, Moments
from gramian.solvers import ledoit_wolf, linear_shrinkage


def rows(n: int, d: int, seed: int = 0) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    scale = torch.logspace(0, 1, d, dtype=torch.float64)
    return torch.randn(n, d, generator=g, dtype=torch.float64) * scale + 3.0


@pytest.mark.parametrize(("n", "d"), [(200, 10), (30, 30), (8, 50), (2, 5), (50, 1)])
def test_ledoit_wolf_equals_scikit_learn(n: int, d: int) -> None:
    x = rows(n, d)
    covariance, intensity = sklearn_ledoit_wolf(x.numpy())
    got = ledoit_wolf(Moments.from_rows(x))
    if d > 1:  # of one variance scikit-learn says 0 and shrinks nothing either
        assert got.intensity == pytest.approx(intensity, rel=1e-10)
    np.testing.assert_allclose(got.covariance, covariance, rtol=1e-10, atol=1e-10)


def test_streams_of_a_large_mean_and_repeated_rows() -> None:
    x = rows(300, 12) + 1e4
    stream = Accumulator({"x": 12}, precision="float64")
    for batch in x.split(41):
        stream.update({"x": batch})
    covariance, intensity = sklearn_ledoit_wolf(x.numpy())
    got = ledoit_wolf(stream.moments("x"))
    assert got.intensity == pytest.approx(intensity, rel=1e-8)
    np.testing.assert_allclose(got.covariance, covariance, rtol=1e-8, atol=1e-8)
    awkward = torch.cat([rows(40, 3), torch.ones(40, 2), rows(40, 3)], 1)  # constant, duplicated
    covariance, _ = sklearn_ledoit_wolf(awkward.numpy())
    np.testing.assert_allclose(
        ledoit_wolf(Moments.from_rows(awkward)).covariance, covariance, rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize(("n", "d"), [(200, 10), (30, 30), (8, 50)])
def test_linear_shrinkage_equals_that_of_leace(n: int, d: int) -> None:
    moments = Moments.from_rows(rows(n, d), quartic=False)
    sample = moments.covariance(0)
    expected = optimal_linear_shrinkage(sample, n)
    got = linear_shrinkage(moments)
    if 0 < got.intensity < 1:
        torch.testing.assert_close(got.covariance, expected, rtol=1e-10, atol=1e-10)
    else:  # more noise than spread: theirs leaves the convex hull, ours stops at the target
        torch.testing.assert_close(got.covariance, got.target * torch.eye(d).double())


@pytest.mark.parametrize("solver", [ledoit_wolf, linear_shrinkage])
def test_nearer_to_the_truth_than_the_sample(solver: object) -> None:
    d = 40
    truth = torch.diag(torch.logspace(0, 0.7, d, dtype=torch.float64).square())
    gains = []
    for seed in range(10):
        g = torch.Generator().manual_seed(seed)
        x = torch.randn(30, d, generator=g, dtype=torch.float64) * truth.diagonal().sqrt()
        got = solver(Moments.from_rows(x))  # type: ignore[operator]
        sample = Moments.from_rows(x).covariance(0)
        gains.append(float((got.covariance - truth).norm() / (sample - truth).norm()))
        assert float(torch.linalg.eigvalsh(got.covariance)[0]) > 0
        torch.testing.assert_close(got.moments.covariance(0), got.covariance)
        assert float(got.covariance.trace()) == pytest.approx(float(sample.trace()), rel=1e-12)
    assert max(gains) < 0.8


@pytest.mark.parametrize("solver", [ledoit_wolf, linear_shrinkage])
def test_weights_are_repetitions_of_rows(solver: object) -> None:
    """One weight for all rows changes nothing."""
    x = rows(30, 8)
    plain = solver(Moments.from_rows(x))  # type: ignore[operator]
    scaled = solver(Moments.from_rows(x, torch.full((30,), 0.25)))  # type: ignore[operator]
    assert scaled.intensity == pytest.approx(plain.intensity, rel=1e-10)
    torch.testing.assert_close(scaled.covariance, plain.covariance)


def test_refusals() -> None:
    with pytest.raises(GramianError, match="do not keep"):
        ledoit_wolf(Moments.from_rows(rows(9, 3), quartic=False))
    for solver in (ledoit_wolf, linear_shrinkage):
        with pytest.raises(GramianError, match="1 rows, expected at least 2"):
            solver(Moments.from_rows(rows(1, 3)))
        with pytest.raises(GramianError, match="0 rows, expected at least 2"):
            solver(Moments.empty(3))
        with pytest.raises(GramianError, match="needs full moments"):
            solver(Moments.from_rows(rows(9, 3), order="diagonal"))
        still = solver(Moments.from_rows(torch.ones(5, 3)))
        assert not still.covariance.any()
