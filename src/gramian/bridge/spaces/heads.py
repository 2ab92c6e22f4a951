"""The estimator of a compatible head."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gramian.bridge.map_estimator import sources_of, targets_of
from gramian.bridge.mapped_rows import carried
from gramian.bridge.paired.incoming import pairs_of
from gramian.bridge.rows import as_matrix, check_finite
from gramian.errors import GramianError
from gramian.moments import JointMoments
from gramian.solvers import backward_map, compatible_head

BLOCK = 65536


class CompatibleVectors(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn a new model's vectors so that their first coordinates compare with an old index.

    Nothing is written to the old index: a query, cut to the old width, searches it as it is. New
    vectors keep all of their own quality among themselves, and both may stand in one index of the
    new width while items are embedded anew one after the other.

    Parameters
    ----------
    way : ``"predicting"`` or ``"procrustes"``, see `compatible_head`.
    extra : coordinates added for what the new model does not tell of the old one.
    ridge_share : as for `compatible_head`.

    Attributes
    ----------
    head_ : the `CompatibleHead`. backward_ : the map for old vectors that stay.
    """

    def __init__(
        self, way: str = "predicting", *, extra: int = 0, ridge_share: float = 1e-6
    ) -> None:
        self.way = way
        self.extra = extra
        self.ridge_share = ridge_share

    def fit(self, X: Any, Y: Any = None) -> Self:
        """Fit on pairs: row i of X (n, d_new) and row i of Y (n, d_old) are of the same item.

        Raises
        ------
        GramianError : unequal lengths, NaN or infinity (the row is named), no more than one row,
            or settings that do not exist.
        """
        x, y = pairs_of(self, X, Y)
        check_finite(x, "X")
        check_finite(y, "Y")
        total = None
        for first in range(0, len(x), BLOCK):
            part = slice(first, first + BLOCK)
            sides = (side[part].astype(np.float64) for side in (x, y))
            joint = JointMoments.from_rows(*sides, quartic=False)
            total = joint if total is None else total + joint
        assert total is not None
        return self.fit_moments(total)

    def fit_moments(
        self,
        train: JointMoments,
        select: JointMoments | None = None,
        report: JointMoments | None = None,
    ) -> Self:
        """Fit on moments with the new space as ``x`` and the old one as ``y``.

        select : chooses the ridge of the backward map. report : a fold to state errors on.
        """
        if train.count < 2:
            raise GramianError(f"{train.count:g} rows (1 sample is too few); give at least 2 pairs")
        self.head_ = compatible_head(
            train, report, way=self.way, extra=self.extra, ridge_share=self.ridge_share
        )
        self.backward_ = backward_map(self.head_, train, select)
        self.n_features_in_ = self.head_.d_new
        self._n_features_out = self.head_.width
        return self

    def transform(self, X: Any, old: Any = None) -> NDArray[Any]:
        """New rows (n, d_new) to (n, width); of items whose old rows are at hand, with them.

        Without ``old``, extra coordinates are predicted. Float64 stays, all else becomes float32.

        Raises
        ------
        GramianError : other widths or lengths, NaN or infinity in a row.
        """
        check_is_fitted(self)
        x = sources_of(self, X, reset=False)
        check_finite(x, "X")
        if old is None:
            return carried(self.head_.forward, x)
        there = as_matrix(old, "old", width=self.head_.d_old)
        if len(there) != len(x):
            raise GramianError(f"{len(x)} new rows and {len(there)} old ones, expected pairs")
        wide = np.float64 in (x.dtype, there.dtype)
        dtype = np.float64 if wide else np.float32
        out = np.empty((len(x), self.head_.width), dtype)
        for first in range(0, len(x), BLOCK):
            part = slice(first, first + BLOCK)
            new_rows, old_rows = (torch.from_numpy(side[part].astype(dtype)) for side in (x, there))
            out[part] = self.head_.both(new_rows, old_rows).numpy()
        return out

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Rows (n, width) back to (n, d_new)."""
        check_is_fitted(self)
        rows = as_matrix(X, "X", width=self.head_.width)
        return carried(self.head_.forward.pinv(), rows)

    def queries(self, X: Any) -> NDArray[Any]:
        """New rows (n, d_new) as queries (n, d_old) for the old index as it is."""
        return np.ascontiguousarray(self.transform(X)[:, : self.head_.d_old])

    def transform_old(self, Y: Any, *, expected: bool = False) -> NDArray[Any]:
        """Old rows (n, d_old) to (n, width): padded with zeros, which changes no cosine among them.

        expected : put what is to be expected where the old model does not tell, by the backward
        map; only to be mixed with new rows.

        Raises
        ------
        GramianError : another width, NaN or infinity in a row.
        """
        check_is_fitted(self)
        rows = as_matrix(Y, "Y", width=self.head_.d_old)
        return carried(self.backward_ if expected else self.head_.padded, rows)

    def score(self, X: Any, y: Any) -> float:
        """Mean cosine of new rows, cut to the old width, with their old partners (1 at best)."""
        mine = np.asarray(self.queries(X), np.float64)
        theirs = as_matrix(targets_of(y), "Y", width=self.head_.d_old).astype(np.float64)
        if len(mine) != len(theirs):
            raise GramianError(f"{len(mine)} rows of X and {len(theirs)} of Y, expected pairs")
        norms = np.linalg.norm(mine, axis=1) * np.linalg.norm(theirs, axis=1)
        return float(((mine * theirs).sum(1) / np.where(norms > 0, norms, 1.0)).mean())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.transformer_tags.preserves_dtype = ["float32", "float64"]
        return tags
