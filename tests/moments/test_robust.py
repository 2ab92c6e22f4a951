"""Row weights against a few rows that own the plain second moments."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import Accumulator, Moments, NonFiniteRows, RobustPilot, robust_weights
from gramian.moments.robust import geometric_median

TRUE = torch.tensor([5.0] + [1.0] * 29, dtype=torch.float64)
"""Variances of the clean rows: the leading direction is the first coordinate."""


def spoiled(n: int = 20_000, seed: int = 0, share: float = 0.02) -> Tensor:
    """Gaussian rows, some of them moved far along the last coordinate."""
    g = torch.Generator().manual_seed(seed)
    rows = torch.randn(n, 30, generator=g, dtype=torch.float64) * TRUE.sqrt()
    bad = torch.rand(n, generator=g) < share
    rows[bad, 29] += 100 * TRUE[0].sqrt() * torch.randn(int(bad.sum()), generator=g).double()
    return rows


def angle(moments: Moments) -> float:
    """Degrees between the leading direction and the first coordinate."""
    leading = torch.linalg.eigh(moments.scatter).eigenvectors[:, -1]
    return math.degrees(math.acos(min(1.0, abs(float(leading[0])))))


def test_only_the_square_saves_the_leading_direction() -> None:
    rows = spoiled()
    pilot = RobustPilot.fit(rows[:1000])
    distance = (rows - pilot.centre).norm(dim=1)
    huber = (2 * pilot.scale / distance).clamp(max=1)
    assert angle(Moments.from_rows(rows)) > 89
    assert angle(Moments.from_rows(rows, huber)) > 89
    # 1.0 degree is what these rows without the moved ones give, plain
    assert angle(Moments.from_rows(rows, pilot.weights(rows))) < 1.5


def test_a_stream_in_low_precision_gives_the_same() -> None:
    rows = spoiled(4000)
    pilot = RobustPilot.fit(rows[:500])
    whole = Moments.from_rows(rows, pilot.weights(rows))
    stream = Accumulator({"x": 30})
    for batch in rows.split(700):
        half = batch.to(torch.bfloat16)
        stream.update({"x": half}, weight=pilot.weights(half))
    got = stream.moments("x")
    assert got.count == pytest.approx(whole.count, rel=1e-4)
    torch.testing.assert_close(got.scatter, whole.scatter, rtol=1e-2, atol=1e-2 * whole.count)
    parts = [Moments.from_rows(part, pilot.weights(part)) for part in rows.split(900)]
    torch.testing.assert_close(
        sum(parts[1:], parts[0]).scatter, whole.scatter, rtol=1e-9, atol=1e-6
    )


@pytest.mark.parametrize("share", [0.0, 0.02])
@pytest.mark.parametrize(("shape", "tolerance"), [("plain", 0.02), ("long", 0.06)])
def test_rescaled_moments_have_the_variance_of_the_bulk(
    share: float, shape: str, tolerance: float
) -> None:
    """Where one direction holds a third of the variance, the weights shorten it a little."""
    rows = spoiled(share=share)
    true = TRUE
    if shape == "long":
        stretch = torch.logspace(0.5, 0, 30, dtype=torch.float64)
        rows, true = rows * stretch, TRUE * stretch.square()
    pilot = RobustPilot.fit(rows[:2000])
    moments = Moments.from_rows(rows, pilot.weights(rows))
    variance = pilot.rescale(moments).trace / moments.count / float(true.sum())
    shape_only = moments.trace / moments.count / float(true.sum())
    assert shape_only < 0.995
    assert variance == pytest.approx(1.0, abs=tolerance)


def test_weights_are_the_formula() -> None:
    rows = spoiled(50)
    centre, scale = torch.full((30,), 0.5).double(), 3.0
    expected = [min(1.0, (scale / float((row - centre).norm())) ** 2) for row in rows]
    got = robust_weights(rows, centre, scale)
    wanted = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(got, wanted, rtol=1e-12, atol=0)
    bounded = got * (rows - centre).square().sum(1)
    assert float(bounded.max()) <= scale**2 * (1 + 1e-12)
    alone = robust_weights(rows)
    assert torch.equal(alone, RobustPilot.fit(rows).weights(rows))
    assert int((alone == 1).sum()) >= 25
    assert robust_weights(centre[None] + 1, centre=centre, scale=1e3).tolist() == [1.0]


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_geometric_median_is_the_minimiser(offset: float) -> None:
    rows = spoiled(200, share=0.3)[:, :4] + offset
    found = geometric_median(rows)

    def total(point: object) -> float:
        return float((rows - torch.as_tensor(point)).norm(dim=1).sum())

    best = minimize(total, rows.mean(0).numpy(), method="BFGS", options={"gtol": 1e-9})
    assert total(found) <= best.fun * (1 + 1e-9)


def test_geometric_median_of_a_heavy_point_is_that_point() -> None:
    rows = torch.tensor([[1.0, 2.0]] * 6 + [[5.0, 5.0], [-3.0, 9.0], [8.0, 0.0]]).double()
    torch.testing.assert_close(geometric_median(rows), rows[0], rtol=0, atol=1e-9)
    line = torch.tensor([[0.0], [1.0], [7.0]]).double()
    torch.testing.assert_close(geometric_median(line), line[1], rtol=0, atol=1e-6)
    one = torch.tensor([[3.0, 4.0]]).double()
    assert torch.equal(geometric_median(one), one[0])


def test_refusals() -> None:
    rows = spoiled(20)
    with pytest.raises(GramianError, match="half of the 9 rows or more lie in one place"):
        robust_weights(torch.cat([torch.zeros(6, 3), torch.ones(3, 3)]))
    with pytest.raises(GramianError, match="centre has 4 coordinates, expected 30"):
        robust_weights(rows, centre=torch.zeros(4))
    with pytest.raises(GramianError, match="scale is 0, expected a finite number above 0"):
        robust_weights(rows, scale=0.0)
    with pytest.raises(GramianError, match="no rows to take a centre of"):
        RobustPilot.fit(rows[:0])
    rows[3, 2] = torch.nan
    with pytest.raises(NonFiniteRows, match="row 3"):
        robust_weights(rows)
    with pytest.raises(GramianError, match="expected rows of width 30 that vary"):
        RobustPilot.fit(spoiled(20)).rescale(Moments.empty(30))
