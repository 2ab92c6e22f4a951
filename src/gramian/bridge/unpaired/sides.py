"""Two sets of vectors as they are handed to an estimator."""

from __future__ import annotations

from typing import Any

from gramian.bridge.map_estimator import MapEstimator, sources_of
from gramian.bridge.rows import Array, as_matrix
from gramian.errors import GramianError


def both_sides(estimator: MapEstimator, X: Any, Y: Any) -> tuple[Array, Array]:
    """X (n, dx) and Y (m, dy) as arrays, not searched for NaN.

    Raises
    ------
    GramianError : no Y, or something that is no vectors.
    """
    if Y is None:
        raise GramianError(
            f"this {type(estimator).__name__} requires y to be passed, but the target y is None: "
            "Y holds vectors of the other model, of other items"
        )
    return sources_of(estimator, X, reset=True), as_matrix(Y, "Y", finite=False)
