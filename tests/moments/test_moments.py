"""Moments against their definition, and the laws that adding them obeys."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, Diagonal, Permutation, Tag
from gramian.moments import Moments

few = settings(derandomize=True, max_examples=25, deadline=None)


def close(got: Tensor | float, want: Tensor | float, rtol: float = 1e-12) -> None:
    """Equal relative to the largest number of the whole."""
    got, want = torch.as_tensor(got), torch.as_tensor(want)
    assert got.shape == want.shape
    assert float((got - want).abs().max()) <= rtol * max(float(want.abs().max()), 1e-300)


def same(got: Moments, want: Moments, rtol: float = 1e-12) -> None:
    close(got.count, want.count)
    close(got.count2, want.count2)
    close(got.mean, want.mean, rtol)
    close(got.scatter, want.scatter, rtol)
    assert (got.quartic is None) == (want.quartic is None)
    if got.quartic is not None and want.quartic is not None:
        close(got.quartic.vector, want.quartic.vector, rtol)
        close(got.quartic.square, want.quartic.square, rtol)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_by_definition(weighted: bool) -> None:
    x = normal(40, 5).numpy() * 3 + 2
    w = np.random.default_rng(0).uniform(0, 2, 40) if weighted else np.ones(40)
    m = Moments.from_rows(x, w if weighted else None)
    mean = (w @ x) / w.sum()
    u = x - mean
    r = (u * u).sum(1)
    assert m.count == pytest.approx(w.sum())
    assert m.count2 == pytest.approx((w * w).sum())
    np.testing.assert_allclose(m.mean, mean, rtol=1e-13)
    np.testing.assert_allclose(m.scatter, np.einsum("n,ni,nj->ij", w, u, u), rtol=1e-11)
    np.testing.assert_allclose(m.raw(), np.einsum("n,ni,nj->ij", w, x, x), rtol=1e-12)
    assert m.quartic is not None
    np.testing.assert_allclose(m.quartic.vector, (w * r) @ u, rtol=1e-10)
    assert m.quartic.square == pytest.approx((w * r * r).sum(), rel=1e-12)
    if not weighted:
        np.testing.assert_allclose(m.covariance(), np.cov(x.T), rtol=1e-12)
    diagonal = Moments.from_rows(x, w if weighted else None, order="diagonal")
    np.testing.assert_allclose(diagonal.scatter, np.diag(m.scatter), rtol=1e-12)
    np.testing.assert_allclose(diagonal.raw(), np.diag(m.raw()), rtol=1e-12)
    assert diagonal.trace == pytest.approx(m.trace)


@few
@given(
    cuts=st.lists(st.integers(0, 60), max_size=4),
    d=st.integers(1, 5),
    offset=st.sampled_from([0.0, 1.0, 100.0]),
    order=st.sampled_from(["full", "diagonal"]),
    seed=st.integers(0, 1000),
)
def test_any_split_in_any_order(
    cuts: list[int], d: int, offset: float, order: str, seed: int
) -> None:
    x = normal(60, d, seed=seed) + offset
    whole = Moments.from_rows(x, order=order)
    edges = [0, *sorted(cuts), 60]
    parts = [Moments.from_rows(x[a:b], order=order) for a, b in itertools.pairwise(edges)]
    same(sum(parts[1:], parts[0]), whole, 1e-12 * (1 + offset))
    same(sum(reversed(parts)), whole, 1e-12 * (1 + offset))  # type: ignore[arg-type]
    nested = parts[0] + sum(parts[1:], Moments.empty(d, order=order))
    same(nested, whole, 1e-12 * (1 + offset))


def test_empty_changes_nothing() -> None:
    m = Moments.from_rows(normal(7, 3))
    same(m + Moments.empty(3), m, 0.0)
    same(Moments.empty(3) + m, m, 0.0)
    same(Moments.empty(3) + Moments.empty(3), Moments.empty(3))


@pytest.mark.parametrize("n", [1, 2])
def test_few_rows(n: int) -> None:
    x = normal(n, 6)
    m = Moments.from_rows(x)
    close(m.mean, x.mean(0))
    assert m.trace == pytest.approx(float((x - x.mean(0)).square().sum()), rel=1e-12, abs=1e-30)
    if n == 1:
        with pytest.raises(GramianError, match="needs more rows than ddof"):
            m.covariance()


def test_constant_and_duplicated_columns() -> None:
    x = normal(30, 3)
    x = torch.cat([x, x[:, :1], torch.full((30, 1), 7.0, dtype=torch.float64)], 1)
    a, b = Moments.from_rows(x[:11]), Moments.from_rows(x[11:])
    total = a + b
    assert float(total.scatter[4].abs().max()) == 0.0
    close(total.scatter[0], total.scatter[3])


def test_mean_of_a_million_deviations() -> None:
    x = normal(500, 4)
    parts = [Moments.from_rows(x[i : i + 50] + 1e6) for i in range(0, 500, 50)]
    shifted = Moments.from_rows((x + 1e6) - 1e6)
    close(sum(parts[1:], parts[0]).scatter, shifted.scatter, 1e-9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_narrow_and_strided_rows(dtype: torch.dtype) -> None:
    x = normal(20, 12).to(dtype)[::2, 1::3]
    same(Moments.from_rows(x), Moments.from_rows(x.double().contiguous()), 0.0)


def test_zero_one_weights_select() -> None:
    x = normal(20, 3)
    keep = torch.arange(20) % 3 == 0
    same(Moments.from_rows(x, keep.double()), Moments.from_rows(x[keep]), 1e-13)


def test_through_maps() -> None:
    x = normal(50, 4) + 3
    m = Moments.from_rows(x)
    weight, bias = normal(3, 4, seed=1), normal(3, seed=2)
    affine = Affine(Dense(weight), bias)
    got, want = m.through(affine), Moments.from_rows(affine(x), quartic=False)
    same(got, want, 1e-12)
    q = torch.linalg.qr(normal(4, 4, seed=3))[0]
    turned = Dense(q, tags={Tag.ORTHOGONAL})
    same(m.through(turned), Moments.from_rows(turned(x)), 1e-12)
    assert m.through(Dense(q)).quartic is None
    diagonal = Moments.from_rows(x, order="diagonal")
    for thin in (Diagonal(normal(4, seed=4)), Permutation(torch.tensor([2, 0, 3, 1]))):
        same(diagonal.through(thin), Moments.from_rows(thin(x), order="diagonal"), 1e-12)
    with pytest.raises(GramianError, match="mixes coordinates"):
        diagonal.through(turned)
    with pytest.raises(GramianError, match="width 4"):
        m.through(Dense(normal(2, 5)))


def test_select() -> None:
    x = normal(20, 5)
    for order in ("full", "diagonal"):
        got = Moments.from_rows(x, order=order).select([3, 1])
        same(got, Moments.from_rows(x[:, [3, 1]], order=order, quartic=False), 1e-12)
    with pytest.raises(GramianError, match=r"\[0, 5\)"):
        got = Moments.from_rows(x).select([5])


def test_refusals() -> None:
    x = normal(5, 3)
    x[3, 1] = float("nan")
    with pytest.raises(GramianError, match="row 3 of site 'rows' holds NaN"):
        Moments.from_rows(x)
    with pytest.raises(GramianError, match="full and diagonal"):
        Moments.from_rows(x[:3]) + Moments.from_rows(x[:3], order="diagonal")
    with pytest.raises(GramianError, match="width 3 and 2"):
        Moments.from_rows(x[:3]) + Moments.from_rows(x[:3, :2])
    with pytest.raises(GramianError, match="not negative"):
        Moments.from_rows(x[:2], torch.tensor([1.0, -1.0]))
    with pytest.raises(GramianError, match=r"expected \(n, d\)"):
        Moments.from_rows(x[0])
    with pytest.raises(GramianError, match="'full' or 'diagonal'"):
        Moments.from_rows(x[:2], order="half")
