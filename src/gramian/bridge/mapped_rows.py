"""Rows through a map."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gramian.maps import LinearMap

BLOCK = 2048
"""Rows that are mapped together."""


def mapped(map: LinearMap, rows: NDArray[Any]) -> NDArray[Any]:
    """Rows through a map, in the dtype of the rows (float32 of half precision)."""
    return _applied(map.to(dtype=_dtype(rows)), rows)


def carried(map: LinearMap, rows: NDArray[Any]) -> NDArray[Any]:
    """The same for any number of rows, block by block: (n, dx) to (n, dy)."""
    ready = map.to(dtype=_dtype(rows))
    dtype = np.float64 if rows.dtype == np.float64 else np.float32
    result = np.empty((len(rows), map.out_features), dtype)
    for start in range(0, len(rows), BLOCK):
        result[start : start + BLOCK] = _applied(ready, rows[start : start + BLOCK])
    return result


def _dtype(rows: NDArray[Any]) -> torch.dtype:
    return torch.float64 if rows.dtype == np.float64 else torch.float32


def _applied(map: LinearMap, rows: NDArray[Any]) -> NDArray[Any]:
    plain = np.ascontiguousarray(rows)
    tensor = torch.from_numpy(plain if plain.flags.writeable else plain.copy())
    result: NDArray[Any] = map(tensor.to(_dtype(rows))).numpy()
    return result
