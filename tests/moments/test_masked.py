"""Moments of what was seen, against loops over the entries."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import MaskedMoments, Moments, NonFiniteRows


def rows_and_mask(seed: int, n: int = 40, d: int = 5, offset: float = 3.0) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    rows = torch.randn(n, d, generator=g, dtype=torch.float64) + offset
    return rows, torch.rand(n, d, generator=g) < 0.6


def close(a: MaskedMoments, b: MaskedMoments, tolerance: float = 1e-10) -> None:
    assert a.rows == b.rows
    assert torch.equal(a.pairs, b.pairs)
    for name in ("mean", "totals", "products"):
        torch.testing.assert_close(
            getattr(a, name), getattr(b, name), rtol=tolerance, atol=tolerance
        )


def test_equals_loops_over_the_entries() -> None:
    rows, mask = rows_and_mask(0)
    got = MaskedMoments.from_rows(rows.where(mask, torch.nan), mask)
    mean = [float(rows[mask[:, a], a].mean()) for a in range(5)]
    np.testing.assert_allclose(got.mean, mean, rtol=1e-13)
    for a, b in itertools.product(range(5), repeat=2):
        both = mask[:, a] & mask[:, b]
        u, v = rows[both, a] - mean[a], rows[both, b] - mean[b]
        assert got.pairs[a, b] == int(both.sum())
        assert float(got.totals[a, b]) == pytest.approx(float(u.sum()), abs=1e-12)
        assert float(got.second()[a, b]) == pytest.approx(float((u * v).mean()), abs=1e-12)
        raw = float((rows[both, a] * rows[both, b]).mean())
        assert float(got.second(centred=False)[a, b]) == pytest.approx(raw, rel=1e-12)
    assert repr(got).startswith("MaskedMoments(40 rows, d=5, ")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_full_masks_give_the_plain_moments(dtype: torch.dtype) -> None:
    rows = rows_and_mask(1)[0].to(dtype)
    got, plain = MaskedMoments.from_rows(rows), Moments.from_rows(rows)
    torch.testing.assert_close(got.mean, plain.mean, rtol=1e-13, atol=0)
    torch.testing.assert_close(got.second(), plain.covariance(0), rtol=1e-12, atol=1e-13)
    x = rows.double()
    torch.testing.assert_close(got.second(centred=False), x.T @ x / 40, rtol=1e-12, atol=1e-13)


@settings(max_examples=25)
@given(seed=st.integers(0, 1000), cuts=st.lists(st.integers(0, 40), max_size=4))
def test_parts_add_up_in_any_grouping(seed: int, cuts: list[int]) -> None:
    rows, mask = rows_and_mask(seed)
    edges = [0, *sorted(cuts), 40]
    parts = [MaskedMoments.from_rows(rows[a:b], mask[a:b]) for a, b in itertools.pairwise(edges)]
    whole = MaskedMoments.from_rows(rows, mask)
    close(sum(parts[1:], parts[0]), whole)
    close(sum(reversed(parts)), whole)  # type: ignore[arg-type]
    close(whole + MaskedMoments.empty(5), whole, 0.0)
    close(MaskedMoments.empty(5) + whole, whole, 0.0)


def test_a_mean_far_above_the_spread_costs_no_digits() -> None:
    rows, mask = rows_and_mask(2, n=400, offset=0.0)
    exact = MaskedMoments.from_rows(rows, mask)
    moved = [
        MaskedMoments.from_rows(r + 1e4, m)
        for r, m in zip(rows.split(37), mask.split(37), strict=True)
    ]
    got = sum(moved[1:], moved[0])
    torch.testing.assert_close(got.second(), exact.second(), rtol=0, atol=1e-10)


def test_a_coordinate_that_was_never_seen() -> None:
    rows, mask = rows_and_mask(3)
    mask[:20, 1] = False
    first = MaskedMoments.from_rows(rows[:20], mask[:20])
    assert first.mean[1] == 0
    assert first.second()[1].isnan().all()
    assert not first.second()[0, [0, 2, 3, 4]].isnan().any()
    close(
        first + MaskedMoments.from_rows(rows[20:], mask[20:]), MaskedMoments.from_rows(rows, mask)
    )


def test_refusals() -> None:
    rows, mask = rows_and_mask(4)
    with pytest.raises(
        GramianError, match=r"expected booleans of shape \(40, 5\); of rows with NaN"
    ):
        MaskedMoments.from_rows(rows, mask.double())
    with pytest.raises(GramianError, match=r"mask of shape \(40, 4\)"):
        MaskedMoments.from_rows(rows, mask[:, :4])
    with pytest.raises(GramianError, match=r"expected floating point \(n, d\)"):
        MaskedMoments.from_rows(rows[0])
    rows[7, 0], mask[7, 0] = torch.inf, True
    with pytest.raises(NonFiniteRows, match=r"row 7 .* holds NaN or infinity that was seen"):
        MaskedMoments.from_rows(rows, mask)
    with pytest.raises(GramianError, match="width 5 and 4 do not add"):
        MaskedMoments.empty(5) + MaskedMoments.empty(4)
