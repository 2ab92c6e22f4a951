"""The estimator that gives one cloud the mean and covariance of another."""

from __future__ import annotations

from typing import Any, Self

from gramian.bridge.map_estimator import MapEstimator
from gramian.bridge.rows import Array, check_finite
from gramian.bridge.unpaired.sides import both_sides
from gramian.errors import GramianError
from gramian.moments import Moments
from gramian.solvers import optimal_transport

BLOCK = 8192


class GaussianBridge(MapEstimator):
    """Move rows onto another cloud of the same model, by optimal transport between Gaussians.

    For a shift between domains, languages or modalities in the space of **one** model: the cheapest
    affine map that gives rows the mean and covariance of the target (arXiv 2306.02342). Its matrix
    is symmetric and positive, so that it stretches and never rotates: between two models, whose
    axes have nothing to do with each other, it cannot work, though mean and covariance then agree
    to the last digit. Nothing in the two clouds tells the cases apart. For two models take
    :class:`UnpairedBridge`.

    Parameters
    ----------
    alpha : 0 all the way, 1 stay.
    ridge : added to the covariances, over the mean variance of the source; steadies directions in
        which rows hardly vary.
    normalise : scale mapped rows to length 1.

    Attributes
    ----------
    map_ : the map, affine. source_, target_ : the moments of both sides.
    """

    def __init__(self, *, alpha: float = 0.0, ridge: float = 1e-6, normalise: bool = False) -> None:
        self.alpha = alpha
        self.ridge = ridge
        self.normalise = normalise

    def fit(self, X: Any, Y: Any = None) -> Self:
        """Fit on rows X (n, d) and Y (m, d) of different items; both may be memory maps.

        Raises
        ------
        GramianError : unequal widths, no rows, NaN or infinity, an alpha or ridge out of range.
        """
        x, y = both_sides(self, X, Y)
        if x.shape[1] != y.shape[1]:
            raise GramianError(
                f"X is {x.shape[1]} wide and Y {y.shape[1]}; both must come from one model. "
                "Between two models use UnpairedBridge"
            )
        return self._solve(_moments(x, "X"), _moments(y, "Y"))

    def fit_moments(self, source: Moments, target: Moments) -> Self:
        """Fit on the moments of both sides.

        Raises
        ------
        GramianError : unequal widths, diagonal moments, no rows.
        """
        self.__dict__.pop("feature_names_in_", None)
        self._solve(source, target)
        self.n_features_in_ = source.d
        return self

    def _solve(self, source: Moments, target: Moments) -> Self:
        self._map = optimal_transport(source, target, alpha=self.alpha, ridge=self.ridge)
        self.source_, self.target_ = source, target
        self._n_features_out = target.d
        return self


def _moments(rows: Array, name: str) -> Moments:
    total = Moments.empty(rows.shape[1], quartic=False)
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        check_finite(block, name, start)
        total = total + Moments.from_rows(block, quartic=False)
    return total
