"""The same rows are kept whatever the order in which they come."""

from __future__ import annotations

import hashlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gramian.errors import GramianError
from gramian.moments import Reservoir
from gramian.moments.digests import row_rank

KEYS = [(hashlib.sha256(bytes([i // 20])).hexdigest(), i % 20) for i in range(100)]
ROWS = torch.arange(300.0).reshape(100, 3)


def same(a: Reservoir, b: Reservoir) -> None:
    assert a.keys == b.keys
    assert torch.equal(a.rows, b.rows)


@given(order=st.permutations(range(100)), cut=st.integers(0, 100), k=st.sampled_from([1, 7, 200]))
def test_any_order_and_any_split(order: list[int], cut: int, k: int) -> None:
    whole = Reservoir(k, 3)
    whole.update(KEYS, ROWS)
    parts = []
    for some in (order[:cut], order[cut:]):
        part = Reservoir(k, 3)
        for i in range(0, len(some), 13):
            chosen = some[i : i + 13]
            part.update([KEYS[j] for j in chosen], ROWS[chosen])
        parts.append(part)
    same(parts[0] + parts[1], whole)
    same(parts[1] + parts[0], whole)


def test_the_lowest_ranks_with_their_rows() -> None:
    kept = Reservoir(9, 3)
    kept.update(KEYS, ROWS)
    assert kept.keys == sorted(KEYS, key=lambda key: row_rank(*key))[:9]
    assert len(kept) == 9
    for key, row in zip(kept.keys, kept.rows, strict=True):
        assert torch.equal(row, ROWS[KEYS.index(key)])


def test_a_key_counts_once() -> None:
    kept = Reservoir(9, 3)
    kept.update(KEYS, ROWS)
    again = Reservoir.restore(kept.state())
    again.update(KEYS + KEYS, torch.cat([ROWS, ROWS]) + 1)
    same(again, kept)


def test_resume() -> None:
    whole, part = Reservoir(9, 3), Reservoir(9, 3)
    for i in range(0, 100, 10):
        whole.update(KEYS[i : i + 10], ROWS[i : i + 10])
        part = Reservoir.restore(part.state())
        part.update(KEYS[i : i + 10], ROWS[i : i + 10])
    same(part, whole)
    with pytest.raises(GramianError, match="not the state of a reservoir"):
        Reservoir.restore({})


def test_refusals() -> None:
    with pytest.raises(GramianError, match="at least 1"):
        Reservoir(0, 3)
    with pytest.raises(GramianError, match=r"expected \(2, 3\)"):
        Reservoir(5, 3).update(KEYS[:2], ROWS[:3])
    with pytest.raises(GramianError, match="do not add"):
        Reservoir(5, 3) + Reservoir(5, 2)
