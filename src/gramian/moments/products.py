"""Products of rows added into float64 sums at the speed of BLAS."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.linalg import blas
from torch import Tensor

from gramian.moments.place import like, zeros

SMALL = 1 << 17
"""Numbers that one thread handles at a time."""
TILE = 128
"""Side of the tiles in which a triangle is mirrored."""


class _Routines(NamedTuple):
    syrk: Any
    gemm: Any
    gemv: Any


_BLAS = {
    torch.float32: _Routines(blas.ssyrk, blas.sgemm, blas.sgemv),
    torch.float64: _Routines(blas.dsyrk, blas.dgemm, blas.dgemv),
}


@contextmanager
def full_precision() -> Iterator[None]:
    """Products in the full precision of their dtype: no TF32, no reduced-precision sums."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class Scratch:
    """Buffers that are reused from one batch to the next, by name or by shape."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[object, ...], Tensor] = {}

    def rows(self, name: str, n: int, d: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """A contiguous (n, d) buffer that belongs to ``name`` until the next call for it."""
        key = ("rows", name, d, dtype, device)
        held = self._buffers.get(key)
        if held is None or held.shape[0] < n:
            held = torch.empty(n, d, dtype=dtype, device=device)
            self._buffers[key] = held
        return held[:n]

    def product(self, rows: int, columns: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """A (rows, columns) buffer for one product, shared by all products of that shape."""
        key = ("product", rows, columns, dtype, device)
        held = self._buffers.get(key)
        if held is None:
            held = zeros((rows, columns), dtype, device)
            self._buffers[key] = held
        return held

    @property
    def nbytes(self) -> int:
        return sum(held.numel() * held.element_size() for held in self._buffers.values())


# On CPU everything goes through one BLAS and single-threaded NumPy loops: waking the thread pool of
# torch between products makes two pools fight for the same cores, which costs a third of the rate.
# A row-major (n, d) array is a column-major (d, n) one, so BLAS reads rows without a copy, and a
# row-major result is the transpose of the column-major one it writes.


def add_into(total: Tensor, product: Tensor) -> None:
    """Add a float32 or float64 product into a float64 sum, in place."""
    if total.device.type != "cpu":
        total.add_(product)
        return
    left, right = total.numpy(), product.numpy()
    step = max(1, SMALL // max(1, left.shape[1]))

    def one(index: int) -> None:
        stripe = slice(index * step, (index + 1) * step)
        np.add(left[stripe], right[stripe], out=left[stripe])

    parallel(one, (len(left) + step - 1) // step)


def parallel(work: Callable[[int], None], count: int) -> None:
    """Call ``work(0)`` to ``work(count - 1)`` on as many threads as torch would take."""
    threads = min(torch.get_num_threads(), count)

    def some(first: int) -> None:
        for index in range(first, count, threads):
            work(index)

    futures = [_pool(threads).submit(some, first) for first in range(1, threads)]
    if count:
        some(0)
    for future in futures:
        future.result()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="gramian")


if hasattr(os, "register_at_fork"):  # a forked child has none of the threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def add_gram(total: Tensor, rows: Tensor, scratch: Scratch) -> None:
    """Add ``rows^T rows`` into the lower triangle of ``total``; the upper one is unspecified.

    total : (d, d) float64, contiguous. rows : (n, d) contiguous float32 or float64.
    """
    d = total.shape[0]
    if rows.device.type != "cpu":
        product = scratch.product(d, d, rows.dtype, rows.device)
        total.add_(torch.mm(rows.T, rows, out=product))
        return
    syrk, view = _BLAS[rows.dtype].syrk, rows.numpy().T
    if rows.dtype == torch.float64:
        syrk(1.0, view, beta=1.0, c=total.numpy().T, overwrite_c=1)
        return
    product = scratch.product(d, d, rows.dtype, rows.device)
    syrk(1.0, view, beta=0.0, c=product.numpy().T, overwrite_c=1)
    add_into(total, product)


def add_cross(total: Tensor, left: Tensor, right: Tensor, scratch: Scratch) -> None:
    """Add ``left^T right`` into ``total`` (dx, dy) float64; rows (n, dx) and (n, dy) contiguous."""
    product = scratch.product(left.shape[1], right.shape[1], left.dtype, left.device)
    if left.device.type != "cpu":
        total.add_(torch.mm(left.T, right, out=product))
        return
    gemm, views = _BLAS[left.dtype].gemm, (right.numpy().T, left.numpy().T)
    if left.dtype == torch.float64:
        gemm(1.0, *views, trans_b=1, beta=1.0, c=total.numpy().T, overwrite_c=1)
        return
    gemm(1.0, *views, trans_b=1, beta=0.0, c=product.numpy().T, overwrite_c=1)
    add_into(total, product)


def combine(coefficients: Tensor, rows: Tensor) -> Tensor:
    """``coefficients @ rows`` in float64: (k, n) and (n, d), both contiguous, to (k, d)."""
    if rows.device.type != "cpu":
        return torch.mm(coefficients, rows).to(torch.float64)
    routines, view = _BLAS[rows.dtype], rows.numpy().T
    if len(coefficients) <= 4:
        product = np.stack([routines.gemv(1.0, view, c) for c in coefficients.numpy()])
    else:
        product = routines.gemm(1.0, view, coefficients.numpy().T).T
    return torch.from_numpy(product.astype(np.float64))


def symmetric(lower: Tensor) -> Tensor:
    """The full symmetric matrix whose lower triangle is given, as a new tensor."""
    if lower.device.type != "cpu":
        full = torch.tril(lower)
        return full + torch.tril(full, -1).T
    full = like(lower)
    source, out = lower.numpy(), full.numpy()
    edges = [slice(start, start + TILE) for start in range(0, len(source), TILE)]
    tiles = [(i, j) for i in range(len(edges)) for j in range(i + 1)]

    def one(index: int) -> None:
        i, j = tiles[index]
        rows, columns = edges[i], edges[j]
        tile = source[rows, columns]
        if i == j:
            tile = np.tril(tile)
            tile = tile + np.tril(tile, -1).T
        out[rows, columns] = tile
        out[columns, rows] = tile.T

    parallel(one, len(tiles))
    return full


def as_rows(rows: Any) -> Tensor:
    """Rows as a tensor; NumPy arrays are accepted."""
    if isinstance(rows, Tensor):
        return rows.detach()
    return torch.from_numpy(np.ascontiguousarray(rows))
