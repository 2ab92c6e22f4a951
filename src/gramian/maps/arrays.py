"""What a map accepts as numbers: floating point tensors, or arrays that become one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gramian.errors import GramianError

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _tensor(value: Any, name: str, device: torch.device | None) -> Tensor:
    if isinstance(value, Tensor):
        return value
    try:
        array = np.asarray(value)
        native = array.astype(array.dtype.newbyteorder("="), copy=not array.flags.writeable)
        return torch.from_numpy(np.ascontiguousarray(native).reshape(native.shape)).to(device)
    except (TypeError, ValueError):
        raise GramianError(
            f"{name} is a {type(value).__name__} that is no array of numbers; "
            "give a torch tensor or a NumPy array"
        ) from None


def as_floats(
    value: Any, name: str, ndim: int | None = None, device: torch.device | None = None
) -> Tensor:
    """A floating point tensor from a tensor or an array; shares memory where it can.

    Raises
    ------
    GramianError : integers, booleans, complex numbers, or another number of dimensions.
    """
    tensor = _tensor(value, name, device)
    if tensor.dtype not in FLOATS:
        raise GramianError(
            f"{name} has dtype {str(tensor.dtype).removeprefix('torch.')}, expected float16, "
            "bfloat16, float32 or float64; convert it first, for example with .float()"
        )
    if ndim is not None and tensor.ndim != ndim:
        raise GramianError(
            f"{name} has shape {tuple(tensor.shape)}, expected {ndim} dimension{'s' * (ndim > 1)}"
        )
    return tensor


def as_index(value: Any, name: str) -> Tensor:
    """A 1-d int64 tensor from a tensor or an array of integers.

    Raises
    ------
    GramianError : numbers that are no integers, or another number of dimensions.
    """
    tensor = _tensor(value, name, None)
    if tensor.dtype not in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        raise GramianError(f"{name} has dtype {tensor.dtype}, expected integers")
    if tensor.ndim != 1:
        raise GramianError(f"{name} has shape {tuple(tensor.shape)}, expected 1 dimension")
    return tensor.to(torch.int64)


def promoted(dtypes: Iterable[torch.dtype | None]) -> torch.dtype | None:
    """The dtype that holds all of these; None when none of them is set."""
    result: torch.dtype | None = None
    for dtype in dtypes:
        if dtype is not None:
            result = dtype if result is None else torch.promote_types(result, dtype)
    return result


def together(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The same tensors in the dtype that holds all of them."""
    dtype = promoted(tensor.dtype for tensor in tensors)
    return tuple(tensor.to(dtype) for tensor in tensors)


def epsilon(dtype: torch.dtype | None) -> float:
    """Rounding unit of a dtype; of float64 for maps without one."""
    return torch.finfo(dtype or torch.float64).eps


def noise(dtype: torch.dtype | None, *sizes: int) -> float:
    """Relative size below which a singular value is rounding: the largest size, at least 16,
    times the rounding unit.
    """
    return max(16, *sizes) * epsilon(dtype)


def spectral(matrix: Tensor) -> float:
    """The largest singular value; 0 for an empty matrix."""
    return float(torch.linalg.matrix_norm(matrix, 2)) if matrix.numel() else 0.0
