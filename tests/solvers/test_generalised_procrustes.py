"""Spaces rotated together: against Procrustes, brute force, and rows with gaps."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Tag
from gramian.moments import JointMoments
from gramian.solvers import CommonSpace, generalised_procrustes, procrustes

Pairs = dict[tuple[int, int], JointMoments]


def spaces(n: int = 400, widths: tuple[int, ...] = (6, 6, 6), noise: float = 0.4) -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    base = torch.randn(n, max(widths), generator=draw, dtype=torch.float64)
    found = []
    for k, d in enumerate(widths):
        turn = torch.linalg.qr(torch.randn(len(base.T), d, generator=draw, dtype=torch.float64))[0]
        rows = base @ turn + noise * torch.randn(n, d, generator=draw, dtype=torch.float64)
        found.append(rows + k)
    return found


def pairs_of(rows: list[Tensor], has: np.ndarray | None = None) -> Pairs:
    found = {}
    for k, l in combinations(range(len(rows)), 2):
        both = slice(None) if has is None else torch.from_numpy(has[k] & has[l])
        found[k, l] = JointMoments.from_rows(rows[k][both], rows[l][both])
    return found


def distance(space: CommonSpace, rows: list[Tensor], has: np.ndarray | None = None) -> float:
    moved = [map(x) for map, x in zip(space.maps, rows, strict=True)]
    total = 0.0
    for k, l in combinations(range(len(rows)), 2):
        both = slice(None) if has is None else torch.from_numpy(has[k] & has[l])
        total += float((moved[k][both] - moved[l][both]).square().sum())
    return total


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("widths", [(6, 6), (4, 6), (6, 4)])
def test_two_spaces_are_procrustes(intercept: bool, widths: tuple[int, ...]) -> None:
    x, y = spaces(widths=widths)
    joint = JointMoments.from_rows(x, y)
    space = generalised_procrustes({(0, 1): joint}, pivot=1, intercept=intercept)
    if widths[0] <= widths[1]:
        want = procrustes(joint, intercept=intercept).map
        np.testing.assert_allclose(space.maps[0](x), want(x), atol=1e-10)
        np.testing.assert_allclose(space.maps[1](y), y, atol=1e-12)
    else:  # the narrower pivot lies in the leading coordinates of the wider space
        np.testing.assert_allclose(space.maps[1](y)[:, :4], y, atol=1e-12)
        want = procrustes(joint.swap(), intercept=intercept).map
        weight = space.maps[0].to_dense()
        back = weight.T @ space.maps[1].to_dense()
        np.testing.assert_allclose(back, want.to_dense(), atol=1e-10)
    assert space.converged


@pytest.mark.parametrize("widths", [(6, 6, 6), (3, 6, 5), (4, 4, 4, 4, 4)])
def test_error_is_that_of_the_rows_and_never_rises(widths: tuple[int, ...]) -> None:
    rows = spaces(widths=widths)
    space = generalised_procrustes(pairs_of(rows))
    assert space.errors[-1] == pytest.approx(distance(space, rows), rel=1e-10)
    falls = np.diff(space.errors)
    assert (falls <= 1e-10 * space.errors[0]).all()
    assert space.converged
    for map, d in zip(space.maps, widths, strict=True):
        weight = map.to_dense()
        np.testing.assert_allclose(weight.T @ weight, np.eye(d), atol=1e-12)
        assert (Tag.ORTHOGONAL in map.tags) == (d == max(widths))


def test_it_is_gowers_fit_to_the_mean() -> None:
    rows = spaces()
    space = generalised_procrustes(pairs_of(rows), tolerance=0.0, rounds=500)
    moved = torch.stack([map(x) for map, x in zip(space.maps, rows, strict=True)])
    mean = moved.mean(0)
    # at the optimum every space is best rotated to the mean of all
    for k, x in enumerate(rows):
        own = procrustes(JointMoments.from_rows(x, mean)).map
        np.testing.assert_allclose(own(x), moved[k], atol=1e-6)
    assert 3 * float((moved - mean).square().sum()) == pytest.approx(space.errors[-1], rel=1e-9)


def test_no_other_start_ends_lower() -> None:
    rows = spaces(noise=1.0)
    pairs = pairs_of(rows)
    best = generalised_procrustes(pairs, tolerance=1e-13, rounds=2000).errors[-1]
    draw = torch.Generator().manual_seed(3)
    for pivot in range(3):
        turned = [
            x @ torch.linalg.qr(torch.randn(6, 6, generator=draw, dtype=torch.float64))[0]
            for x in rows
        ]
        other = generalised_procrustes(pairs_of(turned), pivot=pivot, tolerance=1e-13, rounds=2000)
        assert other.errors[-1] == pytest.approx(best, rel=1e-8)


def test_rotations_of_one_space_meet_exactly() -> None:
    rows = spaces(noise=0.0)
    space = generalised_procrustes(pairs_of(rows))
    moved = [map(x) for map, x in zip(space.maps, rows, strict=True)]
    for other in moved[1:]:
        np.testing.assert_allclose(other, moved[0], atol=1e-9)


def test_items_that_a_space_lacks_are_left_out() -> None:
    rows = spaces(noise=0.0)
    has = np.random.default_rng(0).random((3, 400)) < 0.5
    there = torch.from_numpy(has)[..., None]
    wild = [torch.where(h, x, 1e3) for x, h in zip(rows, there, strict=True)]
    space = generalised_procrustes(pairs_of(wild, has))
    assert distance(space, rows) < 1e-12 * 400
    noisy = spaces()
    space = generalised_procrustes(pairs_of(noisy, has))
    assert space.errors[-1] == pytest.approx(distance(space, noisy, has), rel=1e-9)
    assert (np.diff(space.errors) <= 1e-10 * space.errors[0]).all()
    # no small turn or shift of one space does better
    draw = torch.Generator().manual_seed(5)
    for _ in range(20):
        k = int(torch.randint(3, (1,), generator=draw))
        skew = 1e-3 * torch.randn(6, 6, generator=draw, dtype=torch.float64)
        moved = list(noisy)
        step = 1e-3 * torch.randn(6, generator=draw, dtype=torch.float64)
        moved[k] = (noisy[k] + step) @ torch.linalg.matrix_exp(skew - skew.T)
        assert distance(space, moved, has) > space.errors[-1]


def test_a_chain_connects_spaces_without_common_items() -> None:
    rows = spaces(noise=0.0)
    has = np.zeros((3, 400), bool)
    has[0, :200], has[1], has[2, 200:] = True, True, True
    pairs = pairs_of(rows, has)
    del pairs[0, 2]
    assert distance(generalised_procrustes(pairs, pivot=0), rows) < 1e-12 * 400


def test_a_large_mean_costs_no_digits() -> None:
    rows = [x + 1e4 for x in spaces()]
    near = generalised_procrustes(pairs_of(spaces())).errors[-1]
    assert generalised_procrustes(pairs_of(rows)).errors[-1] == pytest.approx(near, rel=1e-6)


def test_few_rows_and_constant_columns_pass() -> None:
    rows = [x[:3].clone() for x in spaces()]
    rows[0][:, 2] = 5.0
    space = generalised_procrustes(pairs_of(rows))
    for map in space.maps:
        weight = map.to_dense()
        np.testing.assert_allclose(weight.T @ weight, np.eye(6), atol=1e-12)


def test_refusals() -> None:
    rows = spaces()
    joint = JointMoments.from_rows(rows[0], rows[1])
    for pairs, message in (
        ({}, "at least two"),
        ({(0, 2): joint}, "without gaps"),
        ({(0, 1): joint, (1, 0): joint}, "once"),
        ({(0, 0): joint}, "once"),
        ({(0, 1): joint, (2, 3): joint}, "no items in common"),
        ({(0, 1): joint, (1, 2): JointMoments.from_rows(rows[0][:, :3], rows[1])}, "wide"),
        ({(0, 1): JointMoments.from_rows(rows[0], rows[1], source="diagonal")}, "diagonal"),
    ):
        with pytest.raises(GramianError, match=message):
            generalised_procrustes(pairs)
    with pytest.raises(GramianError, match="pivot is 2"):
        generalised_procrustes({(0, 1): joint}, pivot=2)
