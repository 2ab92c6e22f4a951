"""One pass over rows too wide for a matrix: the sum, its parts, and what it refuses."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, LinearMap, fjlt
from gramian.moments import Moments, SketchedMoments


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


SKETCHES: list[LinearMap] = [Dense(normal(1, 6, 20)), fjlt(20, 6, seed=2, dtype=torch.float64)]


@pytest.mark.parametrize("sketch", SKETCHES, ids=repr)
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_is_the_scatter_times_the_sketch(sketch: LinearMap, offset: float) -> None:
    rows, weight = normal(3, 70, 20) + offset, normal(4, 70).abs()
    plain = Moments.from_rows(rows, weight)
    omega = sketch.to_dense().T
    whole = SketchedMoments.from_rows(rows, sketch, weight)
    parts = [
        SketchedMoments.from_rows(r, sketch, w)
        for r, w in zip(rows.split(9), weight.split(9), strict=True)
    ]
    for got in (whole, sum(parts[1:], SketchedMoments.empty(sketch) + parts[0])):
        assert got.count == pytest.approx(plain.count, rel=1e-13)
        assert got.trace == pytest.approx(plain.trace, rel=1e-9)
        torch.testing.assert_close(got.mean, plain.mean, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(got.product, plain.scatter @ omega, rtol=1e-8, atol=1e-7)
        core = omega.T @ plain.scatter @ omega
        torch.testing.assert_close(got.core(), core, rtol=1e-8, atol=1e-7)
    assert torch.equal(whole.core(), whole.core().T)


def test_a_wide_site_takes_no_square() -> None:
    size = 50_000  # the square would hold 20 GB
    sketch = fjlt(size, 16, seed=5)
    got = SketchedMoments.from_rows(normal(6, 3, size).to(torch.bfloat16), sketch)
    assert got.product.shape == (size, 16)
    again = fjlt(size, 16, seed=5)
    assert (got + SketchedMoments.empty(again)).count == 3


def test_refusals() -> None:
    sketch = SKETCHES[0]
    got = SketchedMoments.from_rows(normal(3, 5, 20), sketch)
    with pytest.raises(GramianError, match="do not add; use one sketch, of one seed"):
        got + SketchedMoments.empty(SKETCHES[1])
    with pytest.raises(GramianError, match="rows of width 19 do not pass through"):
        SketchedMoments.from_rows(normal(3, 5, 19), sketch)
    with pytest.raises(GramianError, match=r"has a bias; a sketch is linear: give its \.map"):
        SketchedMoments.from_rows(normal(3, 5, 20), Affine(sketch, torch.ones(6)))
