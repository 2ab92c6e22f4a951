"""A map as SciPy sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from gramian.maps.linear_map import LinearMap


def linear_operator(map: LinearMap) -> LinearOperator:
    """A ``LinearOperator`` of shape (out, in) in float64, or float32 for narrower maps."""
    wide = map.dtype in (None, torch.float64)
    dtype = np.dtype(np.float64 if wide else np.float32)

    def action(one: LinearMap) -> Callable[[NDArray[Any]], NDArray[Any]]:
        def rows(x: NDArray[Any]) -> NDArray[Any]:
            real: NDArray[Any] = one(np.ascontiguousarray(x.T, dtype=dtype)).detach().cpu().numpy()
            return real.T

        def columns(x: NDArray[Any]) -> NDArray[Any]:
            return rows(x.real) + 1j * rows(x.imag) if np.iscomplexobj(x) else rows(x)

        return columns

    forward, backward = action(map), action(map.T)
    return LinearOperator(
        shape=map.shape,
        dtype=dtype,
        matvec=forward,
        rmatvec=backward,
        matmat=forward,
        rmatmat=backward,
    )
