"""Utilised ranks of layers whose data lies in known subspaces."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures import InputBasis, energy_rank, utilised_rank
from gramian.moments import Moments


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("outputs", [3, 8, 20])
def test_rows_in_a_subspace_use_its_dimension(outputs: int) -> None:
    x = normal(200, 4) @ normal(4, 8, seed=1) + 50
    weight = normal(outputs, 8, seed=2)
    found = utilised_rank(Moments.from_rows(x), weight, energy=1.0)
    assert (found.input, found.output) == (4, min(4, outputs))
    assert found.utilisation == pytest.approx(min(4, outputs) / min(8, outputs))
    narrow = normal(outputs, 2, seed=3) @ normal(2, 8, seed=4)
    assert utilised_rank(Moments.from_rows(x), narrow, energy=1.0).output == 2


@pytest.mark.parametrize("energy", [0.5, 0.9, 0.99, 0.999])
@pytest.mark.parametrize("outputs", [4, 16])
def test_as_principal_components_of_the_rows_on_both_sides(energy: float, outputs: int) -> None:
    x = normal(300, 8) * torch.logspace(0, -2, 8)
    weight = normal(outputs, 8, seed=2)
    found = utilised_rank(Moments.from_rows(x), weight, energy=energy)
    for rows, rank in ((x, found.input), (x @ weight.T, found.output)):
        shares = PCA(svd_solver="full").fit(rows.numpy()).explained_variance_ratio_
        assert rank == int(np.searchsorted(np.cumsum(shares), energy)) + 1


def test_projected_weight_keeps_what_is_used() -> None:
    x = normal(200, 4) @ normal(4, 8, seed=1) + 3
    weight = normal(6, 8, seed=2)
    basis = InputBasis.of(Moments.from_rows(x))
    kept = basis.project(weight, 1.0)
    centred = x - x.mean(0)
    torch.testing.assert_close(centred @ kept.T, centred @ weight.T, atol=1e-9, rtol=1e-9)
    assert int(torch.linalg.matrix_rank(kept, atol=1e-8)) == 4
    less = basis.project(weight, 0.8)
    found = basis.utilised(weight, 0.8)
    assert int(torch.linalg.matrix_rank(less, atol=1e-8)) <= found.rank
    error = (centred @ (weight - less).T).square().sum() / (centred @ weight.T).square().sum()
    assert 0 < float(error) < 0.6
    assert float((centred @ (weight - basis.project(weight, 0.99)).T).norm()) < float(
        (centred @ (weight - less).T).norm()
    )


def test_one_long_row_hides_the_others() -> None:
    """Why sink rows are left out: with one of them the share of energy says nothing."""
    x = normal(500, 8)
    long = torch.cat([x, torch.full((1, 8), 1e3).double()])
    assert energy_rank(Moments.from_rows(x), 0.99) == 8
    assert energy_rank(Moments.from_rows(long), 0.99) == 1


def test_energy_rank_of_eigenvalues() -> None:
    assert energy_rank(torch.full((10,), 2.0), 0.5) == 5
    assert energy_rank(torch.full((10,), 0.1), 0.7) == 7
    assert energy_rank(torch.ones(100), 0.07) == 7  # 0.07 * 100 is above 7 in floating point
    assert energy_rank(torch.tensor([0.0, 9.0, 1.0]), 0.9) == 1
    assert energy_rank(torch.tensor([0.0, 9.0, 1.0]), 0.901) == 2
    assert energy_rank(torch.tensor([1.0, 1e-30]), 1.0) == 1
    assert energy_rank(torch.zeros(3), 0.9) == 0


def test_awkward_rows() -> None:
    weight = normal(4, 6, seed=5)
    few = utilised_rank(Moments.from_rows(normal(3, 6)), weight, energy=1.0)
    assert (few.input, few.output) == (2, 2)
    x = normal(100, 2)
    doubled = torch.cat([x, x, torch.ones(100, 2)], 1)
    assert utilised_rank(Moments.from_rows(doubled), weight, energy=1.0).input == 2
    still = utilised_rank(Moments.from_rows(torch.ones(9, 6)), weight)
    assert (still.rank, still.utilisation) == (0, 0.0)
    half = normal(100, 6).bfloat16()
    assert utilised_rank(Moments.from_rows(half), weight.half(), energy=1.0).rank == 4


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda m: utilised_rank(m, normal(3, 5)), r"\(out, 6\)"),
        (lambda m: utilised_rank(m.diagonal(), normal(3, 6)), "full moments"),
        (lambda m: utilised_rank(m, normal(3, 6), energy=0.0), "energy"),
        (lambda m: utilised_rank(m, normal(3, 6), energy=99), "energy"),
    ],
)
def test_refusals(call: Callable[[Moments], object], message: str) -> None:
    with pytest.raises(GramianError, match=message):
        call(Moments.from_rows(normal(20, 6)))
