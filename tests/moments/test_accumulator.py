"""Streaming sums against brute force on the rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import Accumulator, JointMoments, Moments, NonFiniteRows, Pair
from gramian.moments import accumulator as module

SITES = {"a": 5, "b": 5, "c": 7}
PAIRS = (Pair("a", "b"), Pair("a", "b", True), Pair("a", "c"), Pair("c", "a"), Pair("b", "a", True))


def close(
    got: Tensor | float, want: Tensor | float, rtol: float, scale: float | None = None
) -> None:
    got, want = torch.as_tensor(got), torch.as_tensor(want)
    assert got.shape == want.shape
    scale = float(want.abs().max()) if scale is None else scale
    assert float((got - want).abs().max()) <= rtol * max(scale, 1e-300)


def batch(n: int, seed: int, offset: float = 0.0) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(seed)
    a = torch.randn(n, 5, generator=g, dtype=torch.float64) + offset
    b = a + torch.randn(n, 5, generator=g, dtype=torch.float64) * 0.1
    c = torch.randn(n, 7, generator=g, dtype=torch.float64) * 3 - offset
    return {"a": a, "b": b, "c": c}


def stacked(batches: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {site: torch.cat([rows[site] for rows in batches]) for site in SITES}


def check(
    sums: Accumulator, rows: Mapping[str, Tensor], weight: Tensor | None = None, rtol: float = 1e-11
) -> None:
    for site in SITES:
        got = sums.moments(site)
        want = Moments.from_rows(rows[site], weight, order=sums.orders[site])
        close(got.count, want.count, rtol)
        close(got.count2, want.count2, rtol)
        close(got.mean, want.mean, rtol)
        close(got.scatter, want.scatter, rtol)
        assert (got.quartic is None) == (want.quartic is None)
        if got.quartic is not None and want.quartic is not None:
            # |sum r u|^2 <= sum r^2 sum |u|^2: what a sum that may cancel is measured by.
            size = math.sqrt(want.quartic.square * want.trace)
            close(got.quartic.vector, want.quartic.vector, rtol * 10, size)
            close(got.quartic.square, want.quartic.square, rtol * 10)
    for pair in sums.pairs:
        x, y = rows[pair.x], rows[pair.y]
        y = y - x if pair.increment else y
        order = "diagonal" if pair.increment else sums.orders[pair.y]
        found, true = sums.joint(pair), JointMoments.from_rows(x, y, weight, target=order)
        close(found.cross, true.cross, rtol)
        close(found.y.mean, true.y.mean, rtol)
        close(found.y.scatter, true.y.scatter, rtol)
        assert found.quartic is not None
        assert true.quartic is not None
        assert true.x.quartic is not None
        size = math.sqrt(true.x.quartic.square * true.y.trace)
        close(found.quartic.xy, true.quartic.xy, rtol * 10, size)
        size = math.sqrt(Moments.from_rows(y, weight).quartic.square * true.x.trace)
        close(found.quartic.yx, true.quartic.yx, rtol * 10, size)
        close(found.quartic.product, true.quartic.product, rtol * 10)


@settings(derandomize=True, max_examples=15, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=6),
    offsets=st.sampled_from([(0.0,), (50.0,), (0.0, 1e4), (1e4, 0.0), (-3.0, 3.0)]),
    weighted=st.booleans(),
    order=st.sampled_from(["full", "diagonal"]),
)
def test_any_batches(
    sizes: list[int], offsets: tuple[float, ...], weighted: bool, order: str
) -> None:
    sums = Accumulator(SITES, PAIRS, precision="float64", orders={"b": order})
    batches = [batch(n, i, offsets[i % len(offsets)]) for i, n in enumerate(sizes)]
    weights = [torch.rand(n, generator=torch.Generator().manual_seed(n)).double() for n in sizes]
    for rows, weight in zip(batches, weights, strict=True):
        sums.update(rows, weight if weighted else None)
    if sum(sizes):
        check(sums, stacked(batches), torch.cat(weights) if weighted else None)


@pytest.mark.parametrize("first", ["typical", "one row far away", "many rows far away", "constant"])
def test_mean_of_a_million_deviations(first: str) -> None:
    """Float64 rows about 1e6 lose nothing beyond 1e-9, whatever came first."""
    start = {
        "typical": batch(50, 9, 1e6),
        "one row far away": batch(1, 9, 0.0),
        "many rows far away": batch(400, 9, 0.0),
        "constant": {site: torch.full((20, d), 3.0).double() for site, d in SITES.items()},
    }[first]
    batches = [batch(50, i, 1e6) for i in range(8)]
    sums = Accumulator(SITES, PAIRS, precision="float64")
    sums.update(start)
    for rows in batches:
        sums.update(rows)
    check(sums, stacked([start, *batches]), rtol=1e-9)
    if first == "typical":
        exact = stacked([start, *batches])["a"] - 1e6
        close(sums.moments("a").scatter, Moments.from_rows(exact).scatter, 1e-9)


def test_late_shift_keeps_the_spread_within() -> None:
    """After an untypical first row the shift moves, so float32 products keep their digits."""
    sums = Accumulator({"a": 5}, precision="float32")
    sums.update({"a": torch.zeros(1, 5)})
    rows = batch(2000, 1)["a"].float() + 3000.0
    for i in range(0, 2000, 100):
        sums.update({"a": rows[i : i + 100]})
    want = Moments.from_rows(torch.cat([torch.zeros(1, 5), rows]))
    spread = want.scatter - 3000.0**2 * 2000 / 2001
    assert float((sums.moments("a").scatter - want.scatter).abs().max()) < 1e-3 * float(
        spread.abs().max()
    )


def test_one_row_at_a_time() -> None:
    rows = batch(60, 3, 1e3)
    sums = Accumulator(SITES, PAIRS, precision="float64")
    for i in range(60):
        sums.update({site: x[i : i + 1] for site, x in rows.items()})
    check(sums, rows)


def test_more_dimensions_than_rows() -> None:
    x = torch.randn(6, 40, generator=torch.Generator().manual_seed(0)).double()
    sums = Accumulator({"a": 40}, precision="float64")
    sums.update({"a": x})
    close(sums.moments("a").scatter, Moments.from_rows(x).scatter, 1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_dtypes_and_strides(dtype: torch.dtype, precision: str) -> None:
    rows = {site: x.to(dtype) for site, x in batch(90, 4, 2.0).items()}
    strided = {site: x.T.contiguous().T[::2] for site, x in rows.items()}
    sums = Accumulator(SITES, PAIRS, precision=precision)
    sums.update(strided)
    exact = {site: x.double() for site, x in strided.items()}
    check(sums, exact, rtol=1e-11 if precision == "float64" else 3e-6)


def test_input_is_left_alone() -> None:
    rows = {site: x.float() for site, x in batch(20, 1).items()}
    before = {site: x.clone() for site, x in rows.items()}
    sums = Accumulator(SITES, PAIRS)
    sums.update(rows, torch.rand(20))
    sums.update(rows)
    assert all(torch.equal(rows[site], before[site]) for site in SITES)


def test_zero_weights_select_and_hide_what_they_hold() -> None:
    rows = batch(30, 1, 5.0)
    keep = torch.arange(30) % 4 != 0
    rows["b"][0] = float("nan")
    sums, plain = (Accumulator(SITES, PAIRS, precision="float64") for _ in range(2))
    sums.update(rows, keep.double())
    plain.update({site: x[keep] for site, x in rows.items()})
    assert all(torch.equal(t, plain.state()[name]) for name, t in sums.state().items())


def test_many_rows_go_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 16)
    rows = batch(50, 2, 1.0)
    sums = Accumulator(SITES, PAIRS, precision="float64")
    sums.update(rows)
    check(sums, rows)
    rows["c"][37, 2] = float("inf")
    before = sums.state()
    with pytest.raises(NonFiniteRows) as caught:
        sums.update(rows)
    assert (caught.value.site, caught.value.row) == ("c", 37)
    assert all(torch.equal(t, before[name]) for name, t in sums.state().items())


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_non_finite_rows_are_named_and_nothing_is_added(bad: float) -> None:
    sums = Accumulator(SITES, PAIRS)
    sums.update(batch(10, 0))
    before, rows = sums.state(), batch(10, 1)
    rows["b"][7, 2] = bad
    with pytest.raises(GramianError, match="row 7 of site 'b' holds NaN or infinity") as caught:
        sums.update(rows)
    assert isinstance(caught.value, NonFiniteRows)
    assert (caught.value.site, caught.value.row) == ("b", 7)
    weight = torch.ones(10, dtype=torch.float64)
    weight[2] = 0
    with pytest.raises(GramianError, match="row 7 of site 'b'"):
        sums.update(rows, weight)
    assert all(torch.equal(t, before[name]) for name, t in sums.state().items())
    with pytest.raises(GramianError, match="too large for float32 products"):
        Accumulator({"a": 2}).update({"a": torch.full((3, 2), 1e30)})


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_resume_gives_the_same_bits(precision: str) -> None:
    batches = [batch(40, i, 1e3 * (i > 0)) for i in range(5)]
    whole = Accumulator(SITES, PAIRS, precision=precision, orders={"b": "diagonal"})
    for rows in batches:
        whole.update(rows)
    part = Accumulator(SITES, PAIRS, precision=precision, orders={"b": "diagonal"})
    for rows in batches:
        part = Accumulator.restore(part.state())
        part.update(rows)
    assert (part.sites, part.pairs, part.orders) == (whole.sites, whole.pairs, whole.orders)
    state = part.state()
    assert state.keys() == whole.state().keys()
    assert all(torch.equal(t, state[name]) for name, t in whole.state().items())
    for pair in PAIRS:
        assert torch.equal(part.joint(pair).cross, whole.joint(pair).cross)


def test_state_is_a_snapshot() -> None:
    sums = Accumulator(SITES, PAIRS)
    sums.update(batch(10, 0))
    state = sums.state()
    kept = {name: t.clone() for name, t in state.items()}
    sums.update(batch(10, 1))
    assert all(torch.equal(t, kept[name]) for name, t in state.items())
    with pytest.raises(GramianError, match="not the state of an accumulator"):
        Accumulator.restore({})
    del state["stream a: total"]
    with pytest.raises(GramianError, match="'stream a: total' is missing"):
        Accumulator.restore(state)


def test_accumulators_add() -> None:
    batches = [batch(n, n, offset) for n, offset in ((1, 0.0), (30, 1e3), (20, -5.0), (9, 1e3))]
    parts = []
    for rows in batches:
        sums = Accumulator(SITES, PAIRS, precision="float64")
        sums.update(rows)
        parts.append(sums)
    left = ((parts[0] + parts[1]) + parts[2]) + parts[3]
    right = parts[3] + (parts[2] + (parts[1] + parts[0]))
    for total in (left, right, Accumulator(SITES, PAIRS, precision="float64") + left):
        check(total, stacked(batches))
    check(parts[1], batches[1])
    with pytest.raises(GramianError, match="do not add"):
        parts[0] + Accumulator(SITES, PAIRS)


def test_increment_of_nearly_equal_streams() -> None:
    """Formed before the product, the increment keeps the digits that a difference of sums loses."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(4000, 6, generator=g) * 10
    y = x + 1e-4 * (x @ torch.randn(6, 6, generator=g) + torch.randn(4000, 6, generator=g))
    sums = Accumulator({"x": 6, "y": 6}, [Pair("x", "y", True), Pair("x", "y")])
    for i in range(0, 4000, 500):
        sums.update({"x": x[i : i + 500], "y": y[i : i + 500]})

    def unexplained(joint: JointMoments) -> float:
        weight = torch.linalg.solve(joint.x.scatter, joint.cross)
        return (joint.y.trace - float((weight * joint.cross).sum())) / joint.y.trace

    exact = unexplained(JointMoments.from_rows(x.double(), y.double() - x.double()))
    kept = unexplained(sums.joint(Pair("x", "y", True)))
    lost = unexplained(sums.joint(Pair("x", "y")).increment())
    assert kept == pytest.approx(exact, rel=1e-4)
    assert abs((1 - kept) / (1 - exact) - 1) < 1e-5
    assert abs((1 - lost) / (1 - exact) - 1) > 1e-4


def test_full_precision_is_restored() -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        Accumulator({"a": 2}).update({"a": torch.ones(3, 2)})
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


def test_inference_mode_inside_and_outside() -> None:
    with torch.inference_mode():
        sums = Accumulator({"a": 2})
        sums.update({"a": torch.ones(3, 2)})
        rows = torch.zeros(3, 2)
    sums.update({"a": rows})
    assert sums.moments("a").mean.tolist() == [0.5, 0.5]


def test_refusals() -> None:
    with pytest.raises(GramianError, match="unknown site 'z'; the sites are a"):
        Accumulator({"a": 2}, [Pair("a", "z")])
    with pytest.raises(GramianError, match="unknown site 'z'"):
        Accumulator({"a": 2}, orders={"z": "full"})
    with pytest.raises(GramianError, match="'full' or 'diagonal'"):
        Accumulator({"a": 2}, orders={"a": "lower"})
    with pytest.raises(GramianError, match="widths 2 and 3 differ"):
        Accumulator({"a": 2, "b": 3}, [Pair("a", "b", True)])
    with pytest.raises(GramianError, match="'float32' or 'float64'"):
        Accumulator({"a": 2}, precision="bfloat16")
    sums = Accumulator({"a": 2, "b": 3}, [Pair("a", "b")])
    with pytest.raises(GramianError, match="no rows for site 'b'"):
        sums.update({"a": torch.ones(2, 2)})
    with pytest.raises(GramianError, match=r"site 'b'.*\(2, 2\), expected floating point \(2, 3\)"):
        sums.update({"a": torch.ones(2, 2), "b": torch.ones(2, 2)})
    with pytest.raises(GramianError, match="int64 rows"):
        sums.update({"a": torch.ones(2, 2, dtype=torch.long), "b": torch.ones(2, 3)})
    with pytest.raises(GramianError, match="unknown pair b -> a; the pairs are a -> b"):
        sums.joint(Pair("b", "a"))
    with pytest.raises(GramianError, match="unknown site 'z'"):
        sums.moments("z")
    assert str(Pair("a", "b", True)) == "a -> b - a"
    assert sums.nbytes == 8 * (2 * 2 + 3 * 3 + 2 * 3 + 4 * (2 + 3) + 3)


def test_clearing_keeps_nothing_of_the_rows_before():
    generator = torch.Generator().manual_seed(4)
    first, second = (
        {s: torch.randn(50, 3, generator=generator, dtype=torch.float64) + far for s in "xy"}
        for far in (1e6, 0.0)
    )
    used = Accumulator({"x": 3, "y": 3}, [Pair("x", "y")], precision="float64")
    used.update(first)
    used.clear()
    assert used.count == 0
    used.update(second)
    fresh = Accumulator({"x": 3, "y": 3}, [Pair("x", "y")], precision="float64")
    fresh.update(second)
    a, b = (one.joint(Pair("x", "y")) for one in (used, fresh))
    assert torch.equal(a.cross, b.cross)
    assert torch.equal(a.x.scatter, b.x.scatter)
    assert torch.equal(a.x.mean, b.x.mean)
