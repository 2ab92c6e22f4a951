"""Pairs as they are handed to an estimator, as checked arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.map_estimator import sources_of, targets_of
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


def weights_of(weight: Any, count: int) -> NDArray[np.float64]:
    """One finite number above zero for each of ``count`` pairs."""
    found = np.asarray(weight, np.float64)
    if found.shape != (count,) or not np.isfinite(found).all() or not (found > 0).all():
        raise GramianError(
            f"sample_weight has shape {found.shape}, expected {count} finite numbers above 0"
        )
    return found
