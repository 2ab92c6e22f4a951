"""Pairs as they are handed to an estimator, as checked arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from gramian.bridge.rows import as_matrix
from gramian.errors import GramianError


def pairs_of(
    estimator: Any, X: Any, Y: Any, *, width: int | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """X (n, dx) and Y (n, dy) as arrays, not searched for NaN.

    width : of Y, as it was fitted; None for the first pairs, which set the widths.

    Raises
    ------
    GramianError : no Y, unequal lengths, another width. ValueError : what scikit-learn checks.
    """
    if Y is None:
        raise GramianError(
            "this Bridge requires y to be passed, but the target y is None: pairs are rows "
            "of X and rows of Y of the same items"
        )
    x = sources_of(estimator, X, reset=width is None)
    y = targets_of(Y)
    if len(x) != len(y):
        raise GramianError(f"{len(x)} rows of X and {len(y)} of Y, expected pairs")
    if width is not None and y.shape[1] != width:
        raise GramianError(f"Y is {y.shape[1]} wide, expected {width}")
    return x, y


def sources_of(estimator: Any, X: Any, *, reset: bool) -> NDArray[Any]:
    """Rows of X as an array; widths and feature names are scikit-learn's to check."""
    package = type(X).__module__.partition(".")[0]
    vectors = package == "pandas" and (X.ndim == 1 or X.shape[1] == 1)
    if package in ("torch", "pyarrow", "polars") or vectors:
        X = as_matrix(X, "X", finite=False)
    checked: NDArray[Any] = validate_data(
        estimator,
        X,
        reset=reset,
        dtype=[np.float64, np.float32, np.float16],
        ensure_all_finite=False,
        ensure_min_samples=1,
    )
    return checked


def targets_of(Y: Any) -> NDArray[Any]:
    """Rows of Y as an array; one number per pair is a target of width 1."""
    y = as_matrix(_tall(Y), "Y", finite=False)
    if y.shape[1] == 0:
        raise GramianError("Y has no columns; expected vectors")
    return y


def weights_of(weight: Any, count: int) -> NDArray[np.float64]:
    """One finite number above zero for each of ``count`` pairs."""
    found = np.asarray(weight, np.float64)
    if found.shape != (count,) or not np.isfinite(found).all() or not (found > 0).all():
        raise GramianError(
            f"sample_weight has shape {found.shape}, expected {count} finite numbers above 0"
        )
    return found


def _tall(Y: Any) -> Any:
    if isinstance(Y, np.ndarray | list | tuple) or hasattr(Y, "__array__"):
        array = np.asarray(Y) if not hasattr(Y, "detach") else Y
        if array.ndim == 1 and (array.dtype != object or not len(array) or not np.ndim(array[0])):
            return array.reshape(-1, 1)
    return Y
