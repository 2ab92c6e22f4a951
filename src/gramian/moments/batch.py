"""Rows of one batch about their shift, ready for products."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gramian.moments.moments import NonFiniteRows
from gramian.moments.products import SMALL, Scratch, parallel


class Batch(NamedTuple):
    """Rows of one stream about its shift; ``w`` are the weights of the rows, one by default."""

    rows: Tensor
    """``sqrt(w) u``, (n, d) contiguous."""
    norms: Tensor
    """``sqrt(w) |u|^2``, (n,)."""
    total: Tensor
    """``sum w u``, (d,) float64."""
    squares: Tensor | None
    """``sum w u^2``, (d,) float64, when it was asked for."""


@dataclass(frozen=True, eq=False)
class Source:
    """Where the rows of a stream come from: ``x``, or ``y - x`` formed before the shift."""

    x: Tensor
    y: Tensor | None = None
    index: Tensor | None = None
    """Which rows, when not all."""
    squares: bool = False

    def __len__(self) -> int:
        return len(self.x) if self.index is None else len(self.index)

    def head(self, rows: int) -> Source:
        """The first rows, with their squares wanted."""
        if self.index is not None:
            return replace(self, index=self.index[:rows], squares=True)
        y = None if self.y is None else self.y[:rows]
        return Source(self.x[:rows], y, None, squares=True)

    def ready(self, dtype: torch.dtype) -> bool:
        """Whether the rows may go into a product as they are."""
        plain = self.y is None and self.index is None
        return plain and self.x.dtype == dtype and self.x.is_contiguous()

    def fill(self, stripe: slice, out: NDArray[Any], centre: NDArray[Any] | None) -> None:
        """Write ``x - centre`` or ``(y - x) - centre`` of some rows, in the dtype of ``out`` or
        wider."""
        if self.y is None and centre is not None and self.x.element_size() > out.itemsize:
            np.subtract(_some(self.x, self.index, stripe), centre, out=out, casting="same_kind")
            return
        if self.y is None:
            _take(self.x, self.index, stripe, out)
        else:
            x, y = (_some(tensor, self.index, stripe) for tensor in (self.x, self.y))
            if np.promote_types(x.dtype, y.dtype).itemsize >= out.itemsize:
                np.subtract(y, x, out=out, casting="same_kind")
            else:
                np.copyto(out, y)
                out -= x
        if centre is not None:
            out -= centre


def _some(tensor: Tensor, index: Tensor | None, stripe: slice) -> NDArray[Any]:
    """Some rows as an array, a view where nothing has to be chosen or widened."""
    chosen = stripe if index is None else index[stripe].numpy()
    if tensor.dtype == torch.bfloat16:
        # The upper half of a float32; torch would wake its thread pool for a cast.
        bits = tensor.view(torch.int16).numpy()[chosen]
        widened: NDArray[Any] = (bits.astype(np.uint32) << 16).view(np.float32)
        return widened
    array: NDArray[Any] = tensor.numpy()[chosen]
    return array


def _take(tensor: Tensor, index: Tensor | None, stripe: slice, out: NDArray[Any]) -> None:
    """Copy some rows."""
    if index is not None and tensor.dtype != torch.bfloat16:
        array = tensor.numpy()
        if array.dtype == out.dtype:
            # mode: with the default NumPy would go through a buffer of its own.
            np.take(array, index[stripe].numpy(), axis=0, out=out, mode="clip")
            return
    np.copyto(out, _some(tensor, index, stripe), casting="same_kind")


def stage(
    source: Source,
    shift: Tensor,
    root: Tensor | None,
    scratch: Scratch,
    buffer: str,
    dtype: torch.dtype,
) -> Batch:
    """Cast, shift, weigh and measure rows in one go; ``root`` is ``sqrt(w)``, (n,).

    Rows that need none of that are used in place.
    """
    n, d = len(source), source.x.shape[1]
    moved = shift.to(dtype) if bool(shift.any()) else None
    ready = moved is None and root is None and source.ready(dtype)
    rows = source.x if ready else scratch.rows(buffer, n, d, dtype, source.x.device)
    if rows.device.type != "cpu":
        return _on_device(source, moved, root, rows)
    step = max(1, SMALL // d)
    count = (n + step - 1) // step
    norms = np.empty(n, dtype=rows.numpy().dtype)
    # One partial sum per stripe, added in float64: the same whatever the number of threads.
    sums = np.zeros((2, count, d), dtype=norms.dtype)
    weight = None if root is None else root.numpy()
    centre = None if moved is None else moved.numpy()

    def one(index: int) -> None:
        stripe = slice(index * step, (index + 1) * step)
        u, r = rows.numpy()[stripe], norms[stripe]
        if not ready:
            source.fill(stripe, u, centre)
        np.einsum("nd,nd->n", u, u, out=r)
        if weight is not None:
            u *= weight[stripe, None]
            r *= weight[stripe]
            np.einsum("n,nd->d", weight[stripe], u, out=sums[0, index])
        else:
            u.sum(0, out=sums[0, index])
        if source.squares:
            np.einsum("nd,nd->d", u, u, out=sums[1, index])

    # On plain threads: the pool of torch would keep spinning and take the cores from BLAS.
    parallel(one, count)
    total, squares = torch.from_numpy(sums.sum(1, dtype=np.float64))
    return Batch(rows, torch.from_numpy(norms), total, squares if source.squares else None)


def _on_device(source: Source, shift: Tensor | None, root: Tensor | None, rows: Tensor) -> Batch:
    def chosen(tensor: Tensor) -> Tensor:
        return tensor if source.index is None else tensor[source.index.to(tensor.device)]

    x = chosen(source.x)
    if source.y is not None:
        y = chosen(source.y)
        wide = torch.promote_types(torch.promote_types(x.dtype, y.dtype), rows.dtype)
        x = y.to(wide) - x.to(wide)
    if rows is not source.x:
        torch.sub(x, 0 if shift is None else shift, out=rows)
    norms = torch.linalg.vector_norm(rows, dim=1).square_()
    if root is not None:
        rows.mul_(root[:, None])
        norms.mul_(root)
    total = rows.sum(0) if root is None else root @ rows
    squares = torch.linalg.vector_norm(rows, dim=0).square_() if source.squares else None
    wide_squares = None if squares is None else squares.to(torch.float64)
    return Batch(rows, norms, total.to(torch.float64), wide_squares)


def check_finite(batch: Batch, name: str) -> Batch:
    """The batch itself.

    Raises
    ------
    NonFiniteRows : the first row whose norm is NaN or infinite.
    """
    if bool(torch.isfinite(batch.norms).all()):
        return batch
    row = int((~torch.isfinite(batch.norms)).nonzero()[0])
    held = bool(torch.isfinite(batch.rows[row]).all())
    precision = str(batch.rows.dtype).removeprefix("torch.")
    raise NonFiniteRows(name, row, f"is too large for {precision} products" if held else None)


def dot(a: Tensor, b: Tensor) -> Tensor:
    """``a . b`` in float64."""
    return a.to(torch.float64) @ b.to(torch.float64)


def pilot(batch: Batch, count: float, squares: Tensor) -> Tensor:
    """The shift that the first batch asks for, (d,) float64.

    Zero when no coordinate has a mean above two standard deviations: rounding then costs no
    more than five times the unit, and rows need not be copied.
    """
    mean = batch.total / count
    deviation = squares / count - mean * mean
    if bool((mean * mean <= 4.0 * deviation).all()):
        return torch.zeros_like(mean)
    return mean.to(batch.rows.dtype).to(torch.float64)
