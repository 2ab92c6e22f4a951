"""Low rank from some columns or one thin product, against scikit-learn and eigenvalues."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.kernel_approximation import Nystroem
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import fjlt
from gramian.moments import Moments, SketchedMoments
from gramian.solvers import leading_columns, nystrom


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def psd(d: int, spectrum: Tensor, seed: int = 0) -> Tensor:
    basis = torch.linalg.qr(normal(seed, d, len(spectrum))).Q
    return (basis * spectrum) @ basis.T


def dense(result: object) -> Tensor:
    return result.map.to_dense()  # type: ignore[attr-defined]


DECAY = 2.0 ** -torch.arange(60, dtype=torch.float64)


@pytest.mark.parametrize("start", ["columns", "omega", "map"])
@pytest.mark.parametrize("condition", [1.0, 1e-8])
def test_exact_on_its_rank(start: str, condition: float) -> None:
    matrix = psd(40, torch.logspace(0, np.log10(condition), 7).double())
    how = {
        "columns": {"columns": leading_columns(matrix, 12)},
        "omega": {"omega": normal(1, 40, 12)},
        "map": {"omega": fjlt(40, 12, seed=3, dtype=torch.float64)},
    }
    got = nystrom(matrix, **how[start])  # type: ignore[arg-type]
    assert got.rank == 7
    torch.testing.assert_close(dense(got), matrix, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        got.values, torch.linalg.eigvalsh(matrix).flip(0)[:7], rtol=1e-4, atol=0
    )
    assert got.missing < 1e-12
    eye = torch.eye(7, dtype=torch.float64)
    torch.testing.assert_close(got.vectors.T @ got.vectors, eye, rtol=0, atol=1e-13)


def test_equals_scikit_learn_on_the_same_landmarks() -> None:
    rows = normal(2, 300, 50) @ torch.diag(torch.logspace(0, -2, 50).double())
    points = (rows - rows.mean(0)).T.numpy()
    model = Nystroem(kernel="linear", n_components=15, random_state=0).fit(points)
    theirs = model.transform(points)
    got = nystrom(Moments.from_rows(rows), columns=model.component_indices_)
    np.testing.assert_allclose(dense(got), theirs @ theirs.T, atol=1e-9)


@pytest.mark.parametrize("rank", [5, 15])
def test_near_the_best_of_its_rank(rank: int) -> None:
    matrix = psd(60, DECAY)
    best = float(DECAY[rank:].sum())
    for how in (
        {"omega": normal(4, 60, rank + 10)},
        {"columns": leading_columns(matrix, rank + 10)},
    ):
        got = nystrom(matrix, rank, **how)  # type: ignore[arg-type]
        gap = matrix - dense(got)
        values = torch.linalg.eigvalsh(gap)
        assert float(values[0]) > -1e-12  # never more than the matrix
        assert float(values.sum()) <= 1.1 * best
        assert got.missing * got.trace == pytest.approx(float(values.sum()), rel=1e-6, abs=1e-12)


def test_one_pass_over_wide_rows() -> None:
    """A site of 20 000 coordinates: the square would hold 3 GB."""
    d, rank = 20_000, 5
    basis = torch.linalg.qr(normal(5, d, rank)).Q
    inner = normal(6, 60, rank) * torch.tensor([9.0, 7, 5, 3, 2]).double()
    rows = inner @ basis.T + 2.0
    sketch = fjlt(d, 15, seed=7, dtype=torch.float64)
    parts = [SketchedMoments.from_rows(part, sketch) for part in rows.split(25)]
    got = nystrom(sum(parts[1:], parts[0]))
    values = torch.linalg.svdvals(inner - inner.mean(0)).square()
    assert got.rank == rank
    torch.testing.assert_close(got.values, values, rtol=1e-9, atol=0)
    assert got.missing < 1e-9
    assert float((basis.T @ got.vectors).square().sum()) == pytest.approx(rank, rel=1e-9)


def test_a_loud_channel_does_not_hide_the_others() -> None:
    matrix = psd(30, torch.ones(6).double())
    scale = torch.ones(30, dtype=torch.float64)
    scale[3] = 1e9
    loud = scale[:, None] * matrix * scale
    got = nystrom(loud, columns=torch.arange(12))
    assert got.rank == 6
    quiet = torch.arange(30) != 3
    gap = (dense(got) - loud)[quiet][:, quiet]
    assert float(gap.abs().max()) < 1e-5 * float(matrix.abs().max())


def test_leading_columns_are_pivoted_cholesky() -> None:
    matrix = psd(20, torch.logspace(0, -3, 8).double(), seed=8)
    chosen, left = [], matrix.clone()
    for _ in range(8):
        pivot = int(left.diagonal().argmax())
        chosen.append(pivot)
        left = left - torch.outer(left[pivot], left[pivot]) / left[pivot, pivot]
    assert leading_columns(matrix, 8).tolist() == chosen
    assert leading_columns(matrix, 20).tolist()[:8] == chosen
    assert len(leading_columns(matrix, 20)) == 8
    assert len(leading_columns(torch.zeros(3, 3), 2)) == 0


def test_awkward_matrices() -> None:
    zero = nystrom(torch.zeros(4, 4), omega=torch.eye(4))
    assert zero.rank == 0
    assert dense(zero).abs().max() == zero.missing == 0
    one = nystrom(torch.tensor([[4.0]]), columns=[0])
    assert one.values.tolist() == [4.0]
    few = Moments.from_rows(normal(9, 3, 10) + 1e4)  # d > n
    assert nystrom(few, columns=leading_columns(few, 6)).rank == 2
    doubled = Moments.from_rows(torch.cat([normal(9, 50, 3)] * 2 + [torch.ones(50, 1)], 1))
    got = nystrom(doubled, columns=[0, 1, 2, 3, 6])
    torch.testing.assert_close(dense(got), doubled.scatter, rtol=0, atol=1e-10)


def test_refusals() -> None:
    matrix = psd(6, torch.ones(3).double())
    with pytest.raises(GramianError, match="give either columns"):
        nystrom(matrix)
    with pytest.raises(GramianError, match="give either columns"):
        nystrom(matrix, columns=[0], omega=torch.eye(6))
    with pytest.raises(GramianError, match="rank is 3, expected 1 to 2"):
        nystrom(matrix, 3, columns=[0, 1])
    with pytest.raises(GramianError, match="indices from 0 to 5"):
        nystrom(matrix, columns=[6])
    with pytest.raises(GramianError, match="an index twice"):
        nystrom(matrix, columns=[1, 1])
    with pytest.raises(GramianError, match=r"omega of shape \(5, 2\), expected \(6, k\)"):
        nystrom(matrix, omega=torch.ones(5, 2))
    with pytest.raises(GramianError, match=r"matrix of shape \(6, 5\)"):
        nystrom(matrix[:, :5], columns=[0])
    with pytest.raises(GramianError, match="off its transpose"):
        nystrom(matrix + torch.triu(torch.ones(6, 6), 1), columns=[0])
    with pytest.raises(GramianError, match="not positive semidefinite"):
        nystrom(matrix - torch.eye(6), columns=[0, 1, 2, 3, 4, 5])
    with pytest.raises(GramianError, match="not positive semidefinite"):
        nystrom(torch.tensor([[1.0, 2.0], [2.0, 1.0]]), columns=[0, 1])
    with pytest.raises(GramianError, match="NaN or infinity"):
        nystrom(matrix * torch.nan, columns=[0])
    with pytest.raises(GramianError, match="needs full moments"):
        nystrom(Moments.from_rows(normal(1, 5, 3), order="diagonal"), columns=[0])
    sketched = SketchedMoments.from_rows(normal(1, 9, 8), fjlt(8, 2, seed=0))
    with pytest.raises(GramianError, match="bring their own omega"):
        nystrom(sketched, omega=torch.eye(8))
    with pytest.raises(GramianError, match="7 columns of 6"):
        leading_columns(matrix, 7)
