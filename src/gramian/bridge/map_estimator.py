"""What every estimator with one map shares: rows of any kind in, mapped rows out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from gramian.bridge.mapped_rows import carried
from gramian.bridge.rows import as_matrix, check_finite
from gramian.errors import GramianError
from gramian.maps import LinearMap


class MapEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator with a ``map_`` from rows of X to rows of Y."""

    normalise: bool
    _map: LinearMap
    _n_features_out: int

    @property
    def map_(self) -> LinearMap:
        """The map."""
        return self._map

    def transform(self, X: Any) -> NDArray[Any]:
        """Map rows (n, dx) to (n, dy): float64 stays, everything else becomes float32.

        Raises
        ------
        GramianError : NaN or infinity in a row. ValueError : another width.
        """
        check_is_fitted(self)
        x = sources_of(self, X, reset=False)
        check_finite(x, "X")
        result = carried(self.map_, x)
        if self.normalise:
            norms = np.linalg.norm(result, axis=1, keepdims=True)
            result /= np.where(norms > 0, norms, 1)
        return result

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Rows (n, dy) back to (n, dx) by the pseudo-inverse: least norm, least squares.

        What the map took away does not come back, nor does a length that was normalised.

        Raises
        ------
        GramianError : another width, or NaN or infinity in a row.
        """
        check_is_fitted(self)
        return carried(self.map_.pinv(), as_matrix(X, "Y", width=self._n_features_out))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.transformer_tags.preserves_dtype = ["float32", "float64"]
        return tags


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


def _tall(Y: Any) -> Any:
    if isinstance(Y, np.ndarray | list | tuple) or hasattr(Y, "__array__"):
        array = np.asarray(Y) if not hasattr(Y, "detach") else Y
        if array.ndim == 1 and (array.dtype != object or not len(array) or not np.ndim(array[0])):
            return array.reshape(-1, 1)
    return Y
