"""Products of rows added into float64 sums at the speed of BLAS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from scipy.linalg import blas
from torch import Tensor

_SYRK: dict[torch.dtype, Any] = {torch.float32: blas.ssyrk, torch.float64: blas.dsyrk}


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
            held = torch.zeros(rows, columns, dtype=dtype, device=device)
            self._buffers[key] = held
        return held

    @property
    def nbytes(self) -> int:
        return sum(held.numel() * held.element_size() for held in self._buffers.values())


def add_gram(total: Tensor, rows: Tensor, scratch: Scratch) -> None:
    """Add ``rows^T rows`` into the lower triangle of ``total``; the upper one is unspecified.

    total : (d, d) float64, contiguous. rows : (n, d) contiguous float32 or float64.
    """
    d = total.shape[0]
    if rows.device.type != "cpu":
        product = scratch.product(d, d, rows.dtype, rows.device)
        total.add_(torch.mm(rows.T, rows, out=product))
        return
    # A row-major (n, d) array is a column-major (d, n) one, so BLAS reads it without a copy; its
    # upper triangle in column-major order is the lower triangle of the row-major result.
    syrk, view = _SYRK[rows.dtype], rows.numpy().T
    if rows.dtype == torch.float64:
        syrk(1.0, view, beta=1.0, c=total.numpy().T, overwrite_c=1)
        return
    product = scratch.product(d, d, rows.dtype, rows.device)
    syrk(1.0, view, beta=0.0, c=product.numpy().T, overwrite_c=1)
    total.add_(product)


def add_cross(total: Tensor, left: Tensor, right: Tensor, scratch: Scratch) -> None:
    """Add ``left^T right`` into ``total`` (dx, dy) float64; rows (n, dx) and (n, dy) contiguous."""
    if left.dtype == torch.float64:
        total.addmm_(left.T, right)
        return
    product = scratch.product(left.shape[1], right.shape[1], left.dtype, left.device)
    total.add_(torch.mm(left.T, right, out=product))


def symmetric(lower: Tensor) -> Tensor:
    """The full symmetric matrix whose lower triangle is given, as a new tensor."""
    full = torch.tril(lower)
    return full + torch.tril(full, -1).T


def as_rows(rows: Any) -> Tensor:
    """Rows as a tensor; NumPy arrays are accepted."""
    if isinstance(rows, Tensor):
        return rows.detach()
    return torch.from_numpy(np.ascontiguousarray(rows))
