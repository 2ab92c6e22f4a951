"""Where large matrices lie: in memory, or in memory maps of files that have no name."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gramian.errors import GramianError

LEAST = 1 << 16
"""Bytes below which a tensor stays in memory whatever the place."""

_folder: ContextVar[Path | None] = ContextVar("folder", default=None)
_NUMPY = {torch.float32: np.float32, torch.float64: np.float64}


@contextmanager
def on_disk(folder: str | Path) -> Iterator[None]:
    """While open, matrices of sums and of their products are made as memory maps in ``folder``.

    The operating system keeps as much of them in memory as it can spare. A map's file loses its
    name as soon as it is made, so nothing is left behind however the process ends.
    """
    token = _folder.set(Path(folder))
    try:
        yield
    finally:
        _folder.reset(token)


def zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A tensor of zeros at the place that is in force.

    Raises
    ------
    GramianError : the disk has no room for it.
    """
    folder = _folder.get()
    count = int(np.prod(shape, dtype=np.int64))
    size = count * dtype.itemsize
    if folder is None or device.type != "cpu" or size < LEAST or dtype not in _NUMPY:
        return torch.zeros(shape, dtype=dtype, device=device)
    try:
        handle, name = tempfile.mkstemp(prefix="sums-", suffix=".tmp", dir=folder)
        try:
            os.unlink(name)
            # Blocks are taken now: a write into a hole of a full disk would end the process.
            _reserve(handle, size)
            with os.fdopen(os.dup(handle), "r+b") as file:
                mapped = np.memmap(file, dtype=_NUMPY[dtype], mode="r+", shape=(count,))
        finally:
            os.close(handle)
    except OSError as error:
        raise GramianError(
            f"no room for {size:,} bytes of sums in {folder} ({error.strerror or error}); make "
            "room, or give a larger memory budget"
        ) from error
    return torch.from_numpy(mapped).view(shape)


def like(tensor: Tensor, shape: tuple[int, ...] | None = None) -> Tensor:
    """A tensor of the same dtype and device as another, at the place that is in force."""
    wanted = tuple(tensor.shape) if shape is None else shape
    if _folder.get() is None:
        return torch.empty(wanted, dtype=tensor.dtype, device=tensor.device)
    return zeros(wanted, tensor.dtype, tensor.device)


def _reserve(handle: int, size: int) -> None:
    os.truncate(handle, size)
    if not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(handle, 0, size)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
