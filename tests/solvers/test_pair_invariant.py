"""Pair-invariant directions against a planted subspace and scipy's generalised solver."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch

from gramian.errors import GramianError
from gramian.moments import Moments
from gramian.solvers import pair_invariant


def pairs(shift: float = 0.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows of width 12 and their edits, which move 8 directions and keep 4; those 4."""
    g = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    basis = torch.linalg.qr(draw(12, 12)).Q
    x = draw(4000, 12)
    step = draw(4000, 12) * 2 + shift
    step[:, :4] = 0
    # what is kept varies least, so that the covariance alone does not find it
    x = torch.cat([0.2 * x[:, :4], x[:, 4:]], 1) @ basis.T
    return x, x + step @ basis.T, basis[:, :4]


def sides(x: torch.Tensor, y: torch.Tensor) -> tuple[Moments, Moments]:
    return Moments.from_rows(torch.cat([x, y])), Moments.from_rows(x - y)


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_recovers_the_planted_subspace(offset: float) -> None:
    x, y, kept = pairs()
    total, differences = sides(x + offset, y + offset)
    found = pair_invariant(total, differences, rank=4, ridge=1e-6)
    angles = scipy.linalg.subspace_angles(found.projection.numpy(), kept.numpy())
    assert angles.max() < 1e-4
    top = torch.linalg.eigh(total.scatter).eigenvectors[:, -4:]
    assert scipy.linalg.subspace_angles(top.numpy(), kept.numpy()).max() > 1
    p = found.projection
    gap = p.T @ found.denominator @ p - torch.eye(4, dtype=torch.float64)
    assert float(gap.abs().max()) < 1e-9


def test_equals_the_generalised_eigenproblem() -> None:
    x, y, _ = pairs(shift=1.0)
    total, differences = sides(x, y)
    found = pair_invariant(total, differences, rank=12, ridge=0.1)
    st = np.cov(torch.cat([x, y]).numpy().T, bias=True)
    gap = (x - y).numpy()
    sd = gap.T @ gap / len(gap) + 0.1 * np.trace(st) / 12 * np.eye(12)
    np.testing.assert_allclose(found.denominator.numpy(), sd, atol=1e-10)
    np.testing.assert_allclose(found.values.numpy(), scipy.linalg.eigh(st, sd)[0][::-1], rtol=1e-9)
    np.testing.assert_allclose(
        found.map(x).numpy(), ((x - total.mean) @ found.projection).numpy(), atol=1e-10
    )


def test_constant_columns_take_no_direction_and_refusals() -> None:
    x, y, _ = pairs()
    x[:, 3] = y[:, 3] = 5.0
    total, differences = sides(x, y)
    assert pair_invariant(total, differences, rank=11).projection.shape == (12, 11)
    for options, match in (
        ({"rank": 12}, "vary in 11"),
        ({"rank": 0}, "expected 1 to 12"),
        ({"rank": 2, "ridge": 0.0}, "larger ridge"),
        ({"rank": 2, "ridge": float("nan")}, "finite"),
    ):
        with pytest.raises(GramianError, match=match):
            pair_invariant(total, differences, **options)
    with pytest.raises(GramianError, match="width 12"):
        pair_invariant(total, Moments.from_rows(x[:, :5]), rank=2)
    with pytest.raises(GramianError, match="full"):
        pair_invariant(total, Moments.from_rows(x, order="diagonal"), rank=2)
    with pytest.raises(GramianError, match="empty"):
        pair_invariant(total, Moments.empty(12), rank=2)
