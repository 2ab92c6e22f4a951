"""Features taken one by one, and leverage scores."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import Moments
from gramian.solvers import eliminate, reconstruct, ridge_leverage
from gramian.solvers.leverage import precision


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def second(d: int, n: int = 300, seed: int = 0) -> Tensor:
    rows = normal(seed, n, d) @ normal(seed + 1, d, d) / d**0.5
    return rows.T @ rows


def loss(weight: Tensor, c: Tensor, kept: list[int]) -> float:
    """tr W (C - C_J C_JJ^-1 C_J^T) W^T."""
    inner = torch.linalg.solve(c[kept][:, kept], c[kept])
    return float((weight @ (c - c[:, kept] @ inner) @ weight.T).trace())


def greedy(weight: Tensor, c: Tensor, number: int, block: int = 1) -> list[int]:
    """The same by refitting anew for every candidate."""
    alive = list(range(len(c) // block))
    for _ in range(number):

        def without(one: int) -> float:
            left = [i for i in alive if i != one]
            return loss(weight, c, [b * block + j for b in left for j in range(block)])

        alive.remove(min(alive, key=without))
    return alive


@pytest.mark.parametrize("block", [1, 3])
def test_is_the_greedy_choice_by_refitting(block: int) -> None:
    weight, c = normal(4, 5, 18), second(18)
    for number in range(18 // block):
        got = eliminate(weight, c, number, ridge=1e-9, block=block)
        assert got.tolist() == greedy(weight, c, number, block)


def test_many_at_once_are_the_same_as_one_by_one() -> None:
    """Beyond one panel of updates."""
    weight, c = normal(4, 7, 150), second(150)
    one = eliminate(weight, c, 140, ridge=1e-6)
    blocks = eliminate(weight, c, 140, ridge=1e-6, quota=[0] * 150)
    assert one.tolist() == blocks.tolist()


def test_the_first_is_the_best_of_all() -> None:
    weight, c = normal(4, 5, 10), second(10)
    best = min(combinations(range(10), 9), key=lambda kept: loss(weight, c, list(kept)))
    assert eliminate(weight, c, 1, ridge=1e-9).tolist() == list(best)


def test_loss_grows_with_every_feature_that_goes() -> None:
    weight, c = normal(4, 5, 30), second(30)
    kept = [eliminate(weight, c, number, ridge=1e-6).tolist() for number in range(0, 30, 3)]
    losses = [loss(weight, c, own) for own in kept]
    assert losses == sorted(losses)
    assert all(set(b) <= set(a) for a, b in pairwise(kept))


def test_dead_and_doubled_features_go_first() -> None:
    rows = normal(0, 200, 20)
    rows[:, 3] = 0.0
    rows[:, 7] = rows[:, 8]
    rows[:, 12] = rows[:, 1] - 2.0 * rows[:, 2]
    weight = normal(4, 5, 20)
    weight[:, 15] = 0.0  # nothing reads it
    kept = eliminate(weight, rows.T @ rows, 4, ridge=1e-6).tolist()
    got = reconstruct(weight, kept, Moments.from_rows(rows, quartic=False), ridges=(0.0,))
    assert got.errors["train"] < 1e-12


def test_scaling_a_feature_against_its_column_changes_nothing() -> None:
    weight, c = normal(4, 5, 20), second(20)
    scale = torch.logspace(-3, 3, 20, dtype=torch.float64)
    a = eliminate(weight, c, 12, ridge=1e-12)
    b = eliminate(weight / scale, scale[:, None] * c * scale, 12, ridge=1e-12)
    assert a.tolist() == b.tolist()


def test_as_many_of_every_label() -> None:
    weight, c = normal(4, 5, 24), second(24)
    weight[:, :12] *= 10.0  # the blocks of the first label all say more
    got = eliminate(weight, c, 4, ridge=1e-6, block=3, quota=[0, 0, 0, 0, 1, 1, 1, 1])
    assert (got < 4).sum() == (got >= 4).sum() == 2


def test_singular_moments_and_long_rows() -> None:
    rows = normal(0, 6, 20)  # fewer rows than features
    rows[0] *= 1e5
    kept = eliminate(normal(4, 5, 20), rows.T @ rows, 13, ridge=1e-4)
    assert len(kept) == 7
    weight = normal(4, 5, 20)
    got = reconstruct(weight, kept, Moments.from_rows(rows), ridges=(1e-8,))
    assert got.errors["train"] < 1e-6


def test_leverage_is_the_diagonal_of_the_ridge_projection() -> None:
    c = second(12)
    expected = np.diag(c.numpy() @ np.linalg.inv(c.numpy() + 3.0 * np.eye(12)))
    np.testing.assert_allclose(ridge_leverage(c, 3.0), expected, rtol=1e-10)
    np.testing.assert_allclose(
        precision(c, 3.0), np.linalg.inv(c.numpy() + 3.0 * np.eye(12)), rtol=1e-9, atol=1e-14
    )


def test_leverage_of_planted_features() -> None:
    rows = normal(0, 500, 8)
    rows[:, 0] = 0.0
    rows[:, 2] = rows[:, 1]
    scores = ridge_leverage(rows.T @ rows, 1e-3)
    assert scores[0] == 0
    torch.testing.assert_close(scores[1:3], torch.full((2,), 0.5).double(), rtol=1e-4, atol=0)
    torch.testing.assert_close(scores[3:], torch.ones(5).double(), rtol=1e-4, atol=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"number": 12}, "12 of 12 blocks"),
        ({"number": -1}, "expected 0 to 11"),
        ({"block": 5}, "blocks of 5"),
        ({"weight": torch.ones(5, 9)}, r"expected \(out, 12\)"),
        ({"weight": torch.full((5, 12), torch.inf)}, "weight holds NaN"),
        ({"second": torch.full((12, 12), torch.nan)}, "moments hold NaN"),
        ({"ridge": 0.0}, "above 0"),
        ({"second": -torch.eye(12), "ridge": 1e-3}, "not positive definite"),
        ({"quota": [0, 1] * 6, "number": 3}, "share evenly"),
        ({"quota": [0, 2] * 6}, "labels from 0"),
    ],
)
def test_refusals(change, message: str) -> None:
    given = {"weight": torch.ones(5, 12), "second": second(12), "number": 4, "ridge": 1.0}
    with pytest.raises(GramianError, match=message):
        eliminate(**{**given, **change})
