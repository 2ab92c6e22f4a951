"""Sink rows: few or many, the same moments."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import JointMoments, Moments, NonFiniteRows, Pair, SinkRows

SITES = {"a": 4, "b": 4}
PAIRS = (Pair("a", "b"), Pair("a", "b", True))


def rows(n: int, seed: int) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(seed)
    a = torch.randn(n, 4, generator=g) * 1e3
    return {"a": a, "b": a + torch.randn(n, 4, generator=g)}


def check(sinks: SinkRows, whole: dict[str, Tensor], rtol: float) -> None:
    def close(got: Tensor, want: Tensor) -> None:
        assert float((got - want).abs().max()) <= rtol * float(want.abs().max())

    for site, x in whole.items():
        got, want = sinks.moments(site), Moments.from_rows(x)
        assert got.count == want.count == sinks.count
        close(got.mean, want.mean)
        close(got.scatter, want.scatter)
    a, b = whole["a"].double(), whole["b"].double()
    for pair, y in zip(PAIRS, (b, b - a), strict=True):
        joint, exact = sinks.joint(pair), JointMoments.from_rows(a, y)
        close(joint.cross, exact.cross)
        close(joint.y.variances, exact.y.variances)


def test_below_and_above_capacity() -> None:
    sinks = SinkRows(SITES, PAIRS, capacity=20)
    parts: list[dict[str, Tensor]] = []
    for i in range(5):
        parts.append(rows(8, i))
        sinks.update(parts[-1])
        whole = {site: torch.cat([part[site] for part in parts]) for site in SITES}
        thin = sinks.thin("a")
        assert sinks.is_thin == (i < 2)
        assert (thin is None) == (i >= 2)
        if thin is not None:
            assert torch.equal(thin, whole["a"])
        check(sinks, whole, 1e-12 if i < 2 else 1e-6)
        moments, held = sinks.block("a")
        assert (moments is None, held is None) == (i < 2, i >= 2)
        assert (sinks.dense_joint(PAIRS[0]) is None) == (i < 2)


def test_no_capacity_is_dense_from_the_start() -> None:
    sinks = SinkRows(SITES, PAIRS, capacity=0)
    sinks.update(rows(3, 0))
    assert sinks.thin("a") is None
    check(sinks, rows(3, 0), 1e-6)


@pytest.mark.parametrize("capacity", [4, 25, 100])
def test_resume_gives_the_same_bits(capacity: int) -> None:
    whole, part = (SinkRows(SITES, PAIRS, capacity=capacity) for _ in range(2))
    for i in range(4):
        whole.update(rows(9, i))
        part = SinkRows.restore(part.state())
        part.update(rows(9, i))
    assert part.capacity == whole.capacity
    state = part.state()
    assert all(torch.equal(t, state[name]) for name, t in whole.state().items())
    with pytest.raises(GramianError, match="not the state of sink rows"):
        SinkRows.restore({})


@pytest.mark.parametrize("sizes", [(3, 4), (9, 9), (3, 30), (30, 3), (30, 30), (0, 5)])
def test_they_add(sizes: tuple[int, int]) -> None:
    parts = []
    for n in sizes:
        sinks = SinkRows(SITES, PAIRS, capacity=10)
        sinks.update(rows(n, n))
        parts.append(sinks)
    whole = {site: torch.cat([rows(n, n)[site] for n in sizes]) for site in SITES}
    check(parts[0] + parts[1], whole, 1e-6)
    check(parts[1] + parts[0], whole, 1e-6)


def test_diagonal_sites_and_refusals() -> None:
    sinks = SinkRows(SITES, PAIRS, orders={"b": "diagonal"})
    sinks.update(rows(5, 0))
    assert sinks.moments("b").is_diagonal
    assert sinks.joint(PAIRS[0]).y.is_diagonal
    bad = rows(5, 1)
    bad["b"][3, 0] = float("nan")
    with pytest.raises(NonFiniteRows, match="row 3 of site 'b'"):
        sinks.update(bad)
    assert sinks.count == 5
    with pytest.raises(GramianError, match="unknown site 'z'"):
        sinks.moments("z")
    with pytest.raises(GramianError, match="unknown pair b -> a"):
        sinks.joint(Pair("b", "a"))
    with pytest.raises(GramianError, match="at least 0"):
        SinkRows(SITES, capacity=-1)
    with pytest.raises(GramianError, match="do not add"):
        sinks + SinkRows({"a": 4})
