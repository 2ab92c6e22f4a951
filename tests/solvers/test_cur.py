"""A matrix from its own columns and rows, against SciPy and the best of the rank."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg.interpolative as interpolative
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.solvers import cur


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def decaying(out: int, inn: int, spectrum: Tensor, seed: int = 0) -> Tensor:
    left = torch.linalg.qr(normal(seed, out, len(spectrum))).Q
    right = torch.linalg.qr(normal(seed + 1, inn, len(spectrum))).Q
    return (left * spectrum) @ right.T


BOTH = pytest.mark.parametrize("kind", ["pivot", "leverage"])
CORES = pytest.mark.parametrize("core", ["best", "cross"])


@BOTH
@CORES
@pytest.mark.parametrize("shape", [(30, 50), (50, 30), (8, 8)])
def test_exact_on_its_rank(kind: str, core: str, shape: tuple[int, int]) -> None:
    matrix = decaying(*shape, torch.logspace(0, -3, 5).double())
    got = cur(matrix, 5, kind=kind, core=core)
    torch.testing.assert_close(got.map.to_dense(), matrix, rtol=0, atol=1e-11)
    written = matrix[:, got.columns] @ got.core @ matrix[got.rows]
    torch.testing.assert_close(written, matrix, rtol=0, atol=1e-9)
    assert got.relative_error < 1e-11
    assert len(set(got.columns.tolist())) == 5
    assert 5 <= len(set(got.rows.tolist())) == len(got.rows) <= 8
    assert got.map.rank == 5


@CORES
def test_near_the_best_of_its_rank(core: str) -> None:
    spectrum = 1.0 / torch.arange(1, 41, dtype=torch.float64).square()
    ratios = []
    for seed in range(5):
        matrix = decaying(60, 45, spectrum, seed=10 * seed)
        best = float(spectrum[10:].norm() / spectrum.norm())
        for kind in ("pivot", "leverage"):
            ratios.append(
                cur(matrix, 10, 10, kind=kind, core=core, seed=seed).relative_error / best
            )
    assert min(ratios) >= 1 - 1e-12
    assert max(ratios) < (4 if core == "best" else 12)


def test_columns_are_those_of_scipys_interpolative_decomposition() -> None:
    matrix = decaying(40, 30, torch.logspace(0, -4, 30).double())
    got = cur(matrix, 8)
    index, projection = interpolative.interp_decomp(matrix.numpy(), 8, rand=False)
    assert sorted(got.columns.tolist()) == sorted(index[:8].tolist())
    skeleton = interpolative.reconstruct_skel_matrix(matrix.numpy(), 8, index)
    theirs = interpolative.reconstruct_matrix_from_id(skeleton, index, projection)
    all_rows = cur(matrix, 8, 32)  # every row: the error of the columns alone
    gap = np.linalg.norm(theirs - matrix.numpy()) / np.linalg.norm(matrix.numpy())
    assert all_rows.relative_error == pytest.approx(float(gap), rel=1e-9)


def test_best_core_is_the_least_squares_one() -> None:
    matrix = normal(3, 20, 25)
    got = cur(matrix, 6)
    assert (len(got.columns), len(set(got.rows.tolist())), got.map.rank) == (6, 9, 6)
    c, r = matrix[:, got.columns].numpy(), matrix[got.rows].numpy()
    expected = np.linalg.pinv(c) @ matrix.numpy() @ np.linalg.pinv(r)
    np.testing.assert_allclose(got.core, expected, atol=1e-10)
    cross = cur(matrix, 6, core="cross")
    expected = np.linalg.pinv(matrix[cross.rows][:, cross.columns].numpy())
    np.testing.assert_allclose(cross.core, expected, atol=1e-10)
    assert got.relative_error <= cross.relative_error


@BOTH
@CORES
def test_a_rank_above_that_of_the_matrix(kind: str, core: str) -> None:
    """Duplicated and constant columns; no ill-conditioned core is inverted."""
    matrix = torch.cat([normal(4, 20, 3)] * 3 + [torch.zeros(20, 2)], 1)
    got = cur(matrix, 9, kind=kind, core=core)
    assert got.relative_error < 1e-12
    assert got.map.rank == 3
    assert float(got.core.abs().max()) < 1e3


def test_a_seed_fixes_the_draw_and_loud_columns_come_first() -> None:
    matrix = normal(5, 30, 20).to(torch.bfloat16)
    matrix[:, 7] *= 1000
    assert int(cur(matrix, 3).columns[0]) == 7
    first, again = (cur(matrix, 5, kind="leverage", seed=1) for _ in range(2))
    assert torch.equal(first.columns, again.columns)
    assert torch.equal(first.rows, again.rows)
    found = {tuple(cur(matrix, 5, kind="leverage", seed=s).columns.tolist()) for s in range(5)}
    assert len(found) > 1


def test_refusals() -> None:
    matrix = normal(6, 5, 4)
    for arguments, message in (
        ({"rank": 5}, r"rank is 5 of a matrix \(5, 4\), expected 1 to 4"),
        ({"rank": 0}, "rank is 0"),
        ({"rank": 2, "kind": "svd"}, "kind is 'svd', expected 'pivot' or 'leverage'"),
        ({"rank": 2, "core": "worst"}, "core is 'worst'"),
        ({"rank": 2, "oversample": -1}, "oversample is -1"),
    ):
        with pytest.raises(GramianError, match=message):
            cur(matrix, **arguments)  # type: ignore[arg-type]
    with pytest.raises(GramianError, match="the matrix is zero"):
        cur(torch.zeros(3, 3), 1)
    with pytest.raises(GramianError, match="NaN or infinity"):
        cur(matrix * torch.inf, 1)
    with pytest.raises(GramianError, match=r"matrix of shape \(5,\)"):
        cur(matrix[:, 0], 1)
