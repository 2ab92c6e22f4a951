"""Structured matrices for a layer: planted ones found again, each step exact, the error honest."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import scipy.linalg
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Blast, BlockDiagonal, LinearMap, LowRank, Monarch, Sum
from gramian.moments import Moments
from gramian.solvers import blast, blocks_plus_low_rank, monarch, monarch_projection, truncate
from gramian.solvers.blast import _Steps as BlastSteps
from gramian.solvers.monarch import _Steps as MonarchSteps
from gramian.solvers.structured import Problem


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rows(n: int = 24, count: int = 400, seed: int = 7) -> Tensor:
    """Correlated, with a mean, and one row that is a thousand times longer."""
    x = normal(seed, count, n) @ normal(seed + 1, n, n) + 3 * normal(seed + 2, n)
    x[0] *= 1000
    return x


def seen(n: int = 24, **options: int) -> Moments:
    return Moments.from_rows(rows(n, **options))


def mild(n: int = 24) -> Moments:
    return Moments.from_rows(normal(9, 400, n) @ (torch.eye(n) + 0.2 * normal(8, n, n)) + 1)


def gap(map: LinearMap, weight: Tensor) -> float:
    return float((map.to_dense(torch.float64) - weight).norm() / weight.norm())


PLANTED = {
    "monarch": Monarch(normal(1, 4, 6, 4, 1), normal(2, 4, 4, 1, 6)),
    "wide monarch": Monarch(normal(1, 4, 9, 6, 2), normal(2, 6, 4, 2, 4)),
    "blast": Blast(normal(1, 4, 9, 3), normal(2, 4, 4, 3), normal(3, 4, 3, 6)),
    "blocks and rank": Sum(
        (BlockDiagonal(normal(1, 4, 6, 6)), LowRank(normal(20, 24, 2), normal(30, 2, 24)))
    ),
}


@pytest.mark.parametrize("informed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_planted_maps_are_found_again(informed: bool) -> None:
    inputs = mild() if informed else None
    for name in ("monarch", "wide monarch"):
        made = PLANTED[name]
        assert isinstance(made, Monarch)
        found = monarch(made.to_dense(), inputs, grid=made.grid, rank=made.rank)
        assert gap(found.map, made.to_dense()) < 1e-10
    both = PLANTED["blocks and rank"].to_dense()
    found = blocks_plus_low_rank(both, inputs, blocks=4, rank=2, sweeps=800)
    assert found.objective[-1] < 1e-20
    made = PLANTED["blast"]
    assert isinstance(made, Blast)
    found = blast(made.to_dense(), inputs, rank=made.rank, grid=made.grid, sweeps=900, starts=3)
    assert gap(found.map, made.to_dense()) < 1e-10


@pytest.mark.parametrize("size", [4, 16, 64, 256])
def test_a_hadamard_matrix_is_a_monarch_matrix(size: int) -> None:
    weight = torch.from_numpy(scipy.linalg.hadamard(size)).double()
    assert gap(monarch_projection(weight), weight) < 1e-10


@pytest.mark.parametrize(("groups", "pieces"), [(4, 4), (4, 6), (6, 4), (24, 24)])
def test_a_permuted_fourier_transform_is_a_monarch_matrix(groups: int, pieces: int) -> None:
    """Of rank 1 over complex numbers, so of rank 2 in their real and imaginary parts."""
    n = groups * pieces
    angle = -2 * math.pi / n * torch.outer(torch.arange(n), torch.arange(n)).remainder(n).double()
    order = torch.arange(n).reshape(-1, pieces).T.flatten()
    cos, sin = angle.cos()[:, order], angle.sin()[:, order]
    real = torch.cat((torch.cat((cos, -sin), 1), torch.cat((sin, cos), 1)))
    # Real and imaginary parts side by side within every group of inputs.
    columns = torch.arange(2 * n).reshape(2, pieces, -1).transpose(0, 1).flatten()
    found = monarch_projection(real[:, columns], (groups, pieces), rank=2)
    assert gap(found, real[:, columns]) < 1e-10
    assert found.parameters < real.numel() or n < 30


@pytest.mark.parametrize("rank", [1, 2])
def test_the_projection_is_idempotent_and_orthogonal(rank: int) -> None:
    weight = normal(1, 36, 24)
    first = monarch_projection(weight, (6, 4), rank=rank)
    again = monarch_projection(first.to_dense(), (6, 4), rank=rank)
    assert gap(again, first.to_dense()) < 1e-12
    rest = weight - first.to_dense()
    assert abs(float((rest * first.to_dense()).sum())) < 1e-10
    whole = monarch_projection(weight, (6, 4), rank=6)
    assert gap(whole, weight) < 1e-12


def test_the_projection_is_no_worse_than_blocks_on_the_diagonal() -> None:
    """Blocks are a Monarch matrix where as many groups of outputs as of inputs are strided."""
    for seed in range(5):
        weight = normal(seed, 36, 24) + 3 * torch.block_diag(*normal(seed + 9, 6, 6, 4))
        blocks = blocks_plus_low_rank(weight, None, blocks=6)
        found = monarch(weight, None, grid=(6, 6))
        assert found.errors["weight"] <= blocks.errors["weight"]


@pytest.mark.parametrize("informed", [False, True])
def test_one_block_is_a_truncation(informed: bool) -> None:
    weight, inputs = normal(1, 36, 24), seen() if informed else None
    metric = "full" if informed else "none"
    for rank in (1, 5, 24):
        best = truncate(weight, inputs, rank=rank, metric=metric)  # type: ignore[arg-type]
        expected = Problem(weight, inputs).error(best.to_dense(torch.float64))
        found = blast(weight, inputs, rank=rank, grid=(1, 1))
        assert found.objective[-1] == pytest.approx(expected, rel=1e-2, abs=1e-12)
        alone = blocks_plus_low_rank(weight, inputs, blocks=1, rank=0)
        assert alone.objective[-1] < 1e-12


def test_more_blocks_are_no_worse_than_the_truncation_they_start_from() -> None:
    weight, inputs = normal(1, 36, 24), mild()
    for rank in (2, 8):
        found = blast(weight, inputs, rank=rank, grid=(4, 4), sweeps=20)
        best = truncate(weight, inputs, rank=rank)
        expected = Problem(weight, inputs).error(best.to_dense(torch.float64))
        assert found.objective[0] == pytest.approx(expected, rel=1e-8)
        assert found.objective[-1] < 0.95 * expected


@pytest.mark.parametrize("informed", [False, True])
def test_every_sweep_lowers_the_error(informed: bool) -> None:
    """Raw steps, without what stops them when they would not."""
    weight, inputs = normal(1, 36, 24), seen() if informed else None
    problem = Problem(weight, inputs)
    for steps in (
        MonarchSteps(problem, Monarch(normal(4, 6, 6, 4, 2), normal(5, 4, 6, 2, 6))),
        BlastSteps(problem, Blast(normal(2, 4, 9, 5), normal(6, 4, 4, 5), normal(3, 4, 5, 6))),
    ):
        errors = []
        for _ in range(30):
            steps.sweep()
            errors.append(problem.error(steps.map().to_dense()))
        assert all(b <= a * (1 + 1e-9) for a, b in pairwise(errors))
        assert errors[-1] < 0.99 * errors[0]


def gradient(problem: Problem, map: LinearMap, parameter: Tensor, build: object) -> Tensor:
    parameter = parameter.clone().requires_grad_()
    rest = problem.weight - build(parameter).to_dense()  # type: ignore[operator]
    error = ((rest @ problem.metric()) * rest).sum() / problem.size
    return torch.autograd.grad(error, parameter)[0]


def test_the_last_step_of_a_sweep_is_a_least_squares_solution() -> None:
    """No gradient in what was solved for last: an oracle that knows nothing of the algebra."""
    problem = Problem(normal(1, 36, 24), mild())
    steps = MonarchSteps(problem, monarch_projection(problem.weight, (6, 4), rank=2))
    steps.sweep()
    map = steps.map()
    last = gradient(
        problem, map, map.right[-1:], lambda p: Monarch(map.left, torch.cat((map.right[:-1], p)))
    )
    other = gradient(problem, map, map.left, lambda p: Monarch(p, map.right))
    assert last.abs().max() < 1e-10 < 1e-5 < other.abs().max()
    blocks = BlastSteps(problem, Blast(normal(2, 4, 9, 5), normal(6, 4, 4, 5), normal(3, 4, 5, 6)))
    blocks.sweep()
    found = blocks.map()
    last = gradient(
        problem,
        found,
        found.right[-1:],
        lambda p: Blast(found.left, found.gains, torch.cat((found.right[:-1], p))),
    )
    other = gradient(problem, found, found.gains, lambda p: Blast(found.left, p, found.right))
    assert last.abs().max() < 1e-10 < 1e-5 < other.abs().max()


def test_knowing_the_inputs_helps_on_rows_not_seen() -> None:
    mixing, mean = normal(1, 24, 24) * torch.logspace(0, -2, 24).double(), normal(2, 24)
    train, other = (Moments.from_rows(normal(s, 4000, 24) @ mixing + mean) for s in (3, 4))
    weight = normal(5, 36, 24)
    for solve in (
        lambda inputs: monarch(weight, inputs, grid=(6, 4), folds={"report": other}),
        lambda inputs: blast(weight, inputs, rank=3, grid=(4, 4), folds={"report": other}),
        lambda inputs: blocks_plus_low_rank(
            weight, inputs, blocks=4, rank=2, folds={"report": other}
        ),
    ):
        informed, blind = solve(train), solve(None)
        assert informed.errors["report"] < 0.8 * blind.errors["report"]
        assert informed.errors["weight"] > blind.errors["weight"]
        assert informed.map.parameters == blind.map.parameters


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_error_is_that_of_the_rows(dtype: torch.dtype) -> None:
    x, weight = rows(), normal(1, 36, 24).to(dtype)
    inputs = Moments.from_rows(x)
    for found in (
        monarch(weight, inputs, grid=(6, 4), folds={"rows": inputs}),
        blast(weight, inputs, rank=3, grid=(4, 4), sweeps=5, folds={"rows": inputs}),
        blocks_plus_low_rank(weight, inputs, blocks=4, rank=2, sweeps=5, folds={"rows": inputs}),
    ):
        target = x @ weight.double().T
        measured = float((found.map(x) - target).square().sum() / target.square().sum())
        assert found.errors["rows"] == pytest.approx(measured, rel=1e-6)
        assert found.objective[-1] == pytest.approx(measured, rel=1e-6)
        assert found.errors["weight"] == pytest.approx(gap(found.map, weight.double()) ** 2)


@pytest.mark.parametrize(
    "inputs",
    [
        pytest.param(rows(count=3), id="fewer rows than inputs"),
        pytest.param(rows()[:, :1].expand(-1, 24), id="one column"),
        pytest.param(rows() * torch.cat((torch.zeros(6), torch.ones(18))), id="silent inputs"),
        pytest.param(rows() + 1e4 * rows().std(), id="far from the origin"),
        pytest.param(torch.cat((rows()[:, :12],) * 2, 1), id="twins"),
        pytest.param(rows().bfloat16(), id="bfloat16"),
    ],
)
def test_awkward_inputs(inputs: Tensor) -> None:
    moments, weight = Moments.from_rows(inputs), normal(1, 36, 24)
    for found in (
        monarch(weight, moments, grid=(6, 4), folds={"a": moments}),
        blast(weight, moments, rank=4, grid=(4, 4), sweeps=20, folds={"a": moments}),
        blocks_plus_low_rank(weight, moments, blocks=4, rank=2, sweeps=20, folds={"a": moments}),
    ):
        assert found.map.to_dense().isfinite().all()
        assert found.errors["a"] <= found.objective[0] * (1 + 1e-6)
        assert sorted(found.objective, reverse=True) == list(found.objective)


@pytest.mark.parametrize(
    ("solve", "message"),
    [
        (lambda w: monarch(w, grid=(5, 4)), r"Monarch grid of \(5, 4\) does not divide .* 36 x 24"),
        (lambda w: monarch(w, grid=(0, 4)), "does not divide"),
        (lambda w: monarch(w, grid=(6, 4), rank=7), "rank is 7, expected 1 to 6"),
        (lambda w: monarch(w, rank=0), "rank is 0"),
        (lambda w: monarch(w[0]), r"expected floating point \(out, in\)"),
        (lambda w: monarch(w * float("nan")), "NaN"),
        (lambda w: monarch(w, seen(12)), "inputs have width 12, expected 24"),
        (lambda w: monarch(w, Moments.empty(24)), "have no rows"),
        (lambda w: monarch(w, Moments.from_rows(rows(), order="diagonal")), "diagonal moments"),
        (lambda w: monarch(w * 0), "gives zero"),
        (lambda w: monarch(w, sweeps=-1), None),
        (lambda w: monarch(w, seen(), sweeps=-1), "sweeps is -1"),
        (lambda w: blast(w, rank=25), "rank is 25, expected 1 to 24"),
        (lambda w: blast(w, rank=True), "rank is True"),
        (lambda w: blast(w, rank=2, grid=(5, 5)), "BLAST grid"),
        (lambda w: blast(w, rank=2, starts=0), "starts is 0"),
        (
            lambda w: blocks_plus_low_rank(w, blocks=5),
            "blocks is 5, expected a number that divides",
        ),
        (lambda w: blocks_plus_low_rank(w, rank=-1), "rank is -1, expected 0 to 24"),
    ],
)
def test_what_is_refused(solve: object, message: str | None) -> None:
    if message is None:
        solve(normal(1, 36, 24))  # type: ignore[operator]
        return
    with pytest.raises(GramianError, match=message):
        solve(normal(1, 36, 24))  # type: ignore[operator]


def test_sizes_that_nothing_divides() -> None:
    weight = normal(1, 23, 1)
    assert monarch(weight).map.parameters == 24
    assert blocks_plus_low_rank(weight).errors["weight"] < 1e-20
    assert blast(weight, rank=1).errors["weight"] < 1e-20
