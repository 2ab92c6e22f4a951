"""Rows of one batch about their shift, ready for products."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gramian.moments.moments import NonFiniteRows
from gramian.moments.products import Scratch

STRIPE = 256
"""Rows staged at a time; their float32 sums are added in float64."""
SMALL = 1 << 18
"""Numbers below which one thread stages all stripes."""


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


class Source(NamedTuple):
    """Where the rows of a stream come from: ``x``, or ``y - x`` formed before the shift."""

    x: Tensor
    y: Tensor | None = None
    squares: bool = False

    def ready(self, dtype: torch.dtype) -> bool:
        """Whether the rows may go into a product as they are."""
        return self.y is None and self.x.dtype == dtype and self.x.is_contiguous()

    def part(self, stripe: slice) -> Source:
        """Some of the rows."""
        return Source(self.x[stripe], None if self.y is None else self.y[stripe], self.squares)


def stage(
    source: Source,
    shift: Tensor,
    root: Tensor | None,
    scratch: Scratch,
    buffer: str,
    dtype: torch.dtype,
) -> Batch:
    """Cast, shift, weigh and measure the rows in one go; ``root`` is ``sqrt(w)``, (n,).

    Rows that need none of that are used in place.
    """
    n, d = source.x.shape
    shifted = bool(shift.any())
    ready = not shifted and root is None and source.ready(dtype)
    rows = source.x if ready else scratch.rows(buffer, n, d, dtype, source.x.device)
    moved = shift.to(dtype) if shifted else None
    norms = torch.empty(n, dtype=dtype, device=rows.device)
    work = _on_cpu if rows.device.type == "cpu" else _on_device
    count = (n + STRIPE - 1) // STRIPE if rows.device.type == "cpu" else 1
    totals = torch.zeros(2, max(count, 1), d, dtype=dtype, device=rows.device)

    def one(index: int) -> None:
        stripe = slice(index * STRIPE, (index + 1) * STRIPE) if count > 1 else slice(0, n)
        weight = None if root is None else root[stripe]
        part = source.part(stripe)
        work(part, None if ready else moved, weight, rows[stripe], norms[stripe], totals[:, index])

    if n * d < SMALL or count < 2:
        for index in range(count):
            one(index)
    else:
        for _ in _pool(torch.get_num_threads()).map(one, range(count)):
            pass
    total, squares = totals.sum(1, dtype=torch.float64)
    return Batch(rows, norms, total, squares if source.squares else None)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="gramian-stage")


# On CPU the staging runs in NumPy on plain threads: the thread pool of torch keeps spinning after
# each call and takes the cores from the BLAS that multiplies next.


def _on_cpu(
    source: Source,
    shift: Tensor | None,
    root: Tensor | None,
    rows: Tensor,
    norms: Tensor,
    sums: Tensor,
) -> None:
    u = rows.numpy()
    if source.y is not None:
        x, y = _arrays((source.x, source.y))
        if np.promote_types(x.dtype, y.dtype).itemsize >= u.itemsize:
            np.subtract(y, x, out=u, casting="same_kind")
        else:
            np.copyto(u, y)
            u -= x
        if shift is not None:
            u -= shift.numpy()
    elif shift is not None:
        np.subtract(next(_arrays((source.x,))), shift.numpy(), out=u, casting="same_kind")
    elif rows is not source.x and rows.data_ptr() != source.x.data_ptr():
        np.copyto(u, next(_arrays((source.x,))), casting="same_kind")
    np.einsum("nd,nd->n", u, u, out=norms.numpy())
    if root is not None:
        u *= root.numpy()[:, None]
        norms.numpy()[...] *= root.numpy()
        sums[0].numpy()[...] = root.numpy() @ u
    else:
        u.sum(0, out=sums[0].numpy())
    if source.squares:
        np.einsum("nd,nd->d", u, u, out=sums[1].numpy())


def _arrays(tensors: tuple[Tensor, ...]) -> Iterator[np.ndarray]:
    for tensor in tensors:
        yield (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _on_device(
    source: Source,
    shift: Tensor | None,
    root: Tensor | None,
    rows: Tensor,
    norms: Tensor,
    sums: Tensor,
) -> None:
    if source.y is None:
        torch.sub(source.x, 0 if shift is None else shift, out=rows)
    elif torch.promote_types(source.x.dtype, source.y.dtype).itemsize >= rows.element_size():
        torch.sub(source.y, source.x, out=rows)
    else:
        rows.copy_(source.y).sub_(source.x)
    if source.y is not None and shift is not None:
        rows.sub_(shift)
    norms.copy_(torch.linalg.vector_norm(rows, dim=1).square_())
    if root is not None:
        rows.mul_(root[:, None])
        norms.mul_(root)
    sums[0] = rows.sum(0) if root is None else root @ rows
    if source.squares:
        sums[1] = torch.linalg.vector_norm(rows, dim=0).square_()


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
