"""Two parties who never meet: what their sketches estimate, and that nothing else changes them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import (
    CoordinatedSketch,
    JointMoments,
    NonFiniteRows,
    cross_estimate,
    load_sketch,
    paired_rows,
    save_sketch,
    sketch_size,
)
from gramian.moments.coordinated import make_entry


def heavy(n: int, d: int, seed: int) -> Tensor:
    """Rows of very different length."""
    g = torch.Generator().manual_seed(seed)
    scale = torch.rand(n, 1, generator=g, dtype=torch.float64).pow(-0.7)
    return torch.randn(n, d, generator=g, dtype=torch.float64) * scale


A, B = heavy(400, 3, 0), heavy(400, 4, 1)
B += 2 * A @ torch.ones(3, 4).double()
NAMES = [f"row {i}" for i in range(400)]


def sketch(rows: Tensor, keys: Any = NAMES, k: int = 50, seed: int = 7) -> CoordinatedSketch:
    result = CoordinatedSketch(k, rows.shape[1], seed=seed, dtype=torch.float64)
    result.update(keys, rows)
    return result


def same(a: CoordinatedSketch, b: CoordinatedSketch) -> None:
    assert a.keys == b.keys
    assert a.threshold == b.threshold
    assert torch.equal(a.rows, b.rows)


def test_estimate_is_unbiased_and_within_its_bound() -> None:
    truth, scale = A.T @ B, float(A.norm() * B.norm())
    found = torch.stack([cross_estimate(sketch(A, seed=s), sketch(B, seed=s)) for s in range(200)])
    spread = found.std(0) / math.sqrt(len(found))
    assert bool(((found.mean(0) - truth).abs() < 4.5 * spread).all())
    error = (found - truth).flatten(1).norm(dim=1) / scale
    failure = 0.1
    bound = math.sqrt(2 / (failure * (50 - 1)))
    assert sketch_size(bound, failure) in (50, 51)
    assert float((error > bound).double().mean()) <= failure
    assert float(error.mean()) < bound / 2


def test_the_product_of_a_party_with_itself() -> None:
    found = torch.stack([cross_estimate(s := sketch(A, seed=i), s) for i in range(200)])
    spread = found.std(0) / math.sqrt(len(found))
    assert bool(((found.mean(0) - A.T @ A).abs() < 4.5 * spread).all())


def test_exact_while_every_row_is_kept() -> None:
    a, b = sketch(A, k=400), sketch(B, k=1000)
    assert a.threshold == b.threshold == math.inf
    assert a.probabilities.tolist() == [1.0] * 400
    torch.testing.assert_close(cross_estimate(a, b), A.T @ B, rtol=1e-12, atol=1e-9)
    half = sketch(B[100:300], NAMES[100:300], k=400)  # the parties share half of their keys
    expected = A[100:300].T @ B[100:300]
    torch.testing.assert_close(cross_estimate(a, half), expected, rtol=1e-12, atol=1e-9)


def test_keeps_the_least_ranks_and_the_next_as_threshold() -> None:
    got = sketch(A)
    squares = np.square(A.numpy()).sum(1)
    order = sorted(make_entry(7, name, s) for name, s in zip(NAMES, squares, strict=True))
    assert got.keys == [entry.key for entry in order[:50]]
    assert got.threshold == order[50].rank
    assert len(got) == 50
    for key, row, p in zip(got.keys, got.rows, got.probabilities, strict=True):
        i = NAMES.index(str(key))
        assert torch.equal(row, A[i])
        assert float(p) == pytest.approx(min(1.0, got.threshold * float(A[i] @ A[i])), rel=1e-12)


@given(order=st.permutations(range(60)), cut=st.integers(0, 60), size=st.sampled_from([1, 7, 60]))
def test_any_order_split_and_batch(order: list[int], cut: int, size: int) -> None:
    whole = sketch(A[:60], NAMES[:60], k=9)
    parts = []
    for some in (order[:cut], order[cut:]):
        part = CoordinatedSketch(9, 3, seed=7, dtype=torch.float64)
        for i in range(0, len(some), size):
            chosen = some[i : i + size]
            part.update([NAMES[j] for j in chosen], A[chosen])
        parts.append(part)
    same(parts[0] + parts[1], whole)
    same(parts[1] + parts[0], whole)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_resumed_streams_are_identical(tmp_path: Path, dtype: torch.dtype) -> None:
    rows = A.to(dtype)
    whole, part = (CoordinatedSketch(20, 3, seed=1) for _ in range(2))
    whole.update(NAMES, rows)
    for i in range(0, 400, 50):
        part.update(NAMES[i : i + 50], rows[i : i + 50])
        part = load_sketch(save_sketch(part, tmp_path / f"{i}"))
    part.update(NAMES[300:], rows[300:])  # rows that were counted before the restart
    same(part, whole)
    assert part.rows.dtype == torch.float32


def test_zero_rows_ties_and_kinds_of_keys() -> None:
    rows = torch.ones(12, 2).double()
    rows[5:] = 0.0
    assert sorted(sketch(rows, range(12)).keys) == [0, 1, 2, 3, 4]  # type: ignore[type-var]
    text, number = make_entry(0, "12", 1.0), make_entry(0, 12, 1.0)
    assert text.digest != number.digest
    assert make_entry(0, np.int64(12), 1.0) == number  # type: ignore[arg-type]
    tied = [type(text)(0.5, bytes([i]), f"{i}") for i in (3, 1, 2)]
    assert [entry.key for entry in sorted(tied)] == ["1", "2", "3"]
    empty = CoordinatedSketch(3, 2, seed=7, dtype=torch.float64)
    assert cross_estimate(empty, sketch(rows, range(12))).tolist() == [[0.0, 0.0]] * 2


def test_pairs_of_rows_fit_a_map() -> None:
    a, b = sketch(A, k=150), sketch(B, k=150)
    left, right, weight = paired_rows(a, b)
    torch.testing.assert_close((left * weight[:, None]).T @ right, cross_estimate(a, b))
    joint = JointMoments.from_rows(left, right, weight)
    top = torch.cat([joint.x.scatter, joint.cross], 1)
    whole = torch.cat([top, torch.cat([joint.cross.T, joint.y.scatter], 1)])
    assert float(torch.linalg.eigvalsh(whole)[0]) > -1e-8 * float(whole.trace())
    assert joint.count == pytest.approx(400, rel=0.5)


def test_refusals() -> None:
    a = sketch(A)
    with pytest.raises(GramianError, match="seeds 7 and 8 do not match"):
        cross_estimate(a, sketch(B, seed=8))
    with pytest.raises(GramianError, match="none of the 50 and 50 keys kept is in both"):
        cross_estimate(a, sketch(B, range(400)))
    with pytest.raises(GramianError, match="comes twice with different rows"):
        a.update([a.keys[0]], a.rows[1:2])
    with pytest.raises(GramianError, match="expected a text or an integer"):
        a.update([1.5], A[:1])  # type: ignore[list-item]
    with pytest.raises(GramianError, match=r"2 keys and torch.float64 rows of shape \(1, 3\)"):
        a.update(["a", "b"], A[:1])
    with pytest.raises(NonFiniteRows, match="row 1 of site 'sketch'"):
        a.update(["a", "b"], torch.stack([A[0], A[1] * torch.nan]))
    with pytest.raises(GramianError, match="do not add"):
        a + sketch(A, k=51)
    with pytest.raises(GramianError, match="a sketch of 0 rows"):
        CoordinatedSketch(0, 3, seed=1)
    with pytest.raises(GramianError, match=r"seed is 1\.0"):
        CoordinatedSketch(1, 3, seed=1.0)  # type: ignore[arg-type]
    with pytest.raises(GramianError, match="error 0"):
        sketch_size(0.0)
    before = list(a.keys)
    assert a.keys == before


def test_files(tmp_path: Path) -> None:
    keys: list[str | int] = ["köy", 10**30, -4, "\ud800", *range(20)]
    a = sketch(A[:24], keys, k=24)
    path = save_sketch(a, tmp_path / "a.sketch")
    same(load_sketch(path), a)
    with pytest.raises(GramianError, match="exists; choose another name"):
        save_sketch(a, path)
    save_sketch(sketch(A, k=3), path, force=True)
    same(load_sketch(path), sketch(A, k=3))
    assert [p.name for p in tmp_path.iterdir()] == ["a.sketch"]
    with pytest.raises(GramianError, match="its folder does not exist"):
        save_sketch(a, tmp_path / "no" / "a")
    with pytest.raises(GramianError, match="is no file"):
        load_sketch(tmp_path / "b")
    empty = CoordinatedSketch(3, 2, seed=0)
    same(load_sketch(save_sketch(empty, tmp_path / "empty")), empty)


def test_files_that_were_touched(tmp_path: Path) -> None:
    path = save_sketch(sketch(A, k=5), tmp_path / "a")
    data = path.read_bytes()
    for i in range(0, len(data), 7):
        path.write_bytes(data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :])
        with pytest.raises(GramianError):
            load_sketch(path)
    for i in (0, 4, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:i])
        with pytest.raises(GramianError):
            load_sketch(path)
    save_file({"rows": torch.ones(2, 2)}, path)
    with pytest.raises(GramianError, match="holds no sketch"):
        load_sketch(path)


def test_a_file_with_rows_that_no_stream_leaves(tmp_path: Path) -> None:
    """The hashes fit, the rows do not: one more than k + 1, and one that is zero."""
    whole = sketch(A, k=5)
    for k, rows in ((3, whole._rows), (5, whole._rows * torch.tensor([1, 1, 0, 1, 1, 1])[:, None])):
        forged = sketch(A, k=5)
        forged.k, forged._rows = k, rows
        path = save_sketch(forged, tmp_path / f"{k}")
        with pytest.raises(GramianError, match="not those that its seed and its k keep"):
            load_sketch(path)
    header = json.dumps({"version": 2})
    save_file(
        {"rows": A, "keys": torch.zeros(1).byte()}, tmp_path / "v", {"gramian.sketch": header}
    )
    with pytest.raises(GramianError, match=r"version 2 of gramian\.sketch, this reads 1"):
        load_sketch(tmp_path / "v")
