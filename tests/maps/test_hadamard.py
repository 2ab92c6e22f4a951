"""The Walsh-Hadamard rotation against SciPy, and the random projection made of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import scipy.linalg
import torch
from sklearn.random_projection import johnson_lindenstrauss_min_dim

from gramian.errors import GramianError
from gramian.maps import (
    Chain,
    Dense,
    Hadamard,
    Identity,
    LinearMap,
    LowRank,
    Sparse,
    fjlt,
    load_map,
)
from gramian.moments import Moments

from .zoo import assert_close, normal, permutation


@pytest.mark.parametrize("size", [1, 2, 4, 32, 64, 128, 1024])
def test_equals_scipy(size: int) -> None:
    map = Hadamard(size)
    expected = torch.from_numpy(scipy.linalg.hadamard(size)).double() / size**0.5
    assert_close(map.to_dense(torch.float64), expected, 1e-15)
    x = normal(1, 3, size)
    assert_close(map(x), x @ expected.T, 1e-13)
    assert map.inverse() is map.T is map.pinv() is map
    assert map.parameters == 0
    assert repr(map) == f"Hadamard({size} -> {size}, 0 parameters)"


def test_wide_rows_are_never_a_matrix() -> None:
    size = 1 << 20  # the matrix of this size would hold 4 TB
    x = normal(2, 2, size)
    y = Hadamard(size)(x)
    assert_close(Hadamard(size)(y), x, 1e-12)
    assert_close(y.norm(dim=1), x.norm(dim=1), 1e-12)
    assert float(y[0, 0]) == pytest.approx(float(x[0].sum()) / 1024, abs=1e-9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_float32(dtype: torch.dtype) -> None:
    x = torch.full((1, 65536), 100.0, dtype=dtype)  # the plain sum overflows float16
    y = Hadamard(65536)(x)
    assert y.dtype == dtype
    assert float(y[0, 0]) == 25600.0
    assert not y[0, 1:].any()


def test_two_cancel_and_one_merges_into_a_weight() -> None:
    assert isinstance(Hadamard(8) @ Hadamard(8), Identity)
    assert isinstance(Hadamard(8) @ Dense(normal(1, 8, 3)), Dense)
    assert isinstance(Dense(normal(1, 3, 8)) @ Hadamard(8), Dense)
    mixed = Hadamard(8) @ permutation(3, 8)
    assert isinstance(mixed, Chain)
    assert mixed.tag_defect("orthogonal") < 1e-6
    assert "orthogonal" in mixed.tags


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Hadamard(12), "features is 12, expected a power of two; pad to 16"),
        (lambda: Hadamard(0), "features is 0, expected a power of two"),
        (lambda: Hadamard(2.0), "features is 2.0, expected an integer"),
        (lambda: fjlt(10, 4, seed=0, kind="dense"), "kind is 'dense', expected 'sparse' or 'rows'"),
        (lambda: fjlt(10, 17, seed=0, kind="rows"), "17 rows of a rotation of 16 coordinates"),
        (lambda: fjlt(10, 0, seed=0), "a projection of 10 to 0 coordinates"),
        (lambda: fjlt(10, 4, seed=0, density=1.5), "density is 1.5, expected a number above 0"),
        (lambda: fjlt(10, 4, seed=0, density=0.5, kind="rows"), "density is of the sparse kind"),
    ],
)
def test_refusals(make: object, message: str) -> None:
    with pytest.raises(GramianError, match=message):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("kind", ["sparse", "rows"])
def test_lengths_are_kept_on_average(kind: str) -> None:
    """E |Px|^2 = |x|^2, also for a row of one entry, which plain sampling would lose."""
    x = torch.stack((torch.eye(100)[7], torch.ones(100), normal(1, 100).float())).double()
    found = torch.stack(
        [
            fjlt(100, 40, seed=s, kind=kind)(x).square().sum(1) / x.square().sum(1)
            for s in range(300)
        ]
    )
    assert_close(found.mean(0), torch.ones(3).double(), 0.06)


@pytest.mark.parametrize("kind", ["sparse", "rows"])
def test_distances_are_kept(kind: str) -> None:
    n, d, eps = 40, 3000, 0.3
    out = int(johnson_lindenstrauss_min_dim(n, eps=eps))
    points = normal(3, n, d)
    points[: n // 2, 1:] = 0.0  # sparse rows beside dense ones
    points[:, 0] += torch.arange(n)
    map = fjlt(d, out, seed=4, kind=kind, dtype=torch.float64)
    before, after = torch.pdist(points).square(), torch.pdist(map(points)).square()
    assert float((after / before - 1).abs().max()) < eps
    last = map.factors[0]
    assert isinstance(last, Sparse)
    assert map.shape == (out, d)
    assert map.parameters == d + 3 * last.entries + 3 * d


def test_a_seed_fixes_the_map(tmp_path: Path) -> None:
    first, again, other = (fjlt(50, 9, seed=s) for s in (5, 5, 6))
    assert torch.equal(first.to_dense(), again.to_dense())
    assert not torch.equal(first.to_dense(), other.to_dense())
    assert torch.equal(load_map(first.save(tmp_path / "sketch")).to_dense(), first.to_dense())
    assert_close(first.T.to_dense(), first.to_dense().T, 1e-6)


def test_moments_of_projected_rows() -> None:
    rows, map = normal(6, 200, 60) + 3, fjlt(60, 12, seed=7, dtype=torch.float64)
    got, want = Moments.from_rows(rows).through(map), Moments.from_rows(map(rows))
    assert_close(got.mean, want.mean)
    assert_close(got.scatter, want.scatter, 1e-9)


def entries(values: list[float], rows: list[int], columns: list[int], *size: int) -> Sparse:
    return Sparse(torch.tensor(values), torch.tensor(rows), torch.tensor(columns), size)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: entries([1.0], [0, 1], [0], 2, 2), "1 values, 2 rows and 1 columns"),
        (lambda: entries([1.0], [2], [0], 2, 3), r"rows run from 2 to 2, expected 0 to 1"),
        (lambda: entries([1.0], [0], [-1], 2, 3), r"columns run from -1 to -1, expected 0 to 2"),
        (
            lambda: entries([1.0, 2.0, 3.0], [1, 0, 1], [2, 0, 2], 2, 3),
            r"entry \(1, 2\) is given twice",
        ),
        (lambda: entries([1.0], [0], [0], 2), r"size is \(2,\), expected \(out, in\)"),
        (lambda: entries([1.0], [0], [0], 0, 2), r"size is \(0, 2\)"),
        (lambda: entries([0.0, 1.0], [0, 1], [0, 1], 2, 2).inverse(), "has no inverse"),
    ],
)
def test_sparse_refuses(make: object, message: str) -> None:
    with pytest.raises(GramianError, match=message):
        make()  # type: ignore[operator]


def test_sparse_entries_are_sorted_and_many_of_them_multiply() -> None:
    given = entries([1.0, 2.0, 3.0], [1, 0, 0], [0, 2, 1], 2, 3)
    assert given.values.tolist() == [3.0, 2.0, 1.0]
    assert given.to_dense().tolist() == [[0.0, 3.0, 2.0], [1.0, 0.0, 0.0]]
    matrix = normal(1, 40, 30) * (normal(2, 40, 30) > 0)
    rows, columns = matrix.nonzero(as_tuple=True)
    map = Sparse(matrix[rows, columns], rows, columns, (40, 30))
    x = normal(3, 2, 5, 30)
    assert_close(map(x), x @ matrix.T, 1e-12)
    assert_close(map(x.to(torch.bfloat16).to(torch.float64)), x.bfloat16().double() @ matrix.T)
    half = map.to(dtype=torch.bfloat16)
    assert half(x.bfloat16()).dtype == torch.bfloat16


def test_thin_sparse_maps_merge_and_wide_ones_wait() -> None:
    pick, pad = Sparse.selection([2, 0], 4), Sparse.padding(4, 8)
    products: list[tuple[LinearMap, type[LinearMap]]] = [
        (pick @ Dense(normal(1, 4, 3)), Dense),
        (Dense(normal(1, 3, 8)) @ pad, Dense),
        (pad @ Dense(normal(1, 4, 3)), Chain),
        (pad @ LowRank(normal(1, 4, 2), normal(2, 2, 5)), Chain),
        (pick @ LowRank(normal(1, 4, 2), normal(2, 2, 5)), LowRank),
    ]
    for map, kind in products:
        assert type(map) is kind, repr(map)
