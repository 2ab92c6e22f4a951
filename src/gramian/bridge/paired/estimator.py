"""The estimator of paired bridges, with scikit-learn's contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, validate_data

from gramian.bridge.paired.assignment import check_ids
from gramian.bridge.paired.choosing import mapped
from gramian.bridge.paired.solving import Fit, solve
from gramian.bridge.paired.stream import PairStream, plain
from gramian.bridge.rows import as_matrix, check_finite
from gramian.errors import GramianError
from gramian.maps import LinearMap
from gramian.moments import JointMoments, Shares
from gramian.solvers import Evidence

BLOCK = 8192


class Bridge(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Map from the vectors of one model to those of another, fitted on pairs.

    Pairs are dealt to the folds ``train``, ``select`` and ``report`` by a hash of their id (of the
    row itself without ids). Family and ridge are chosen on ``select`` by retrieval: whether a
    mapped row finds its own partner, and its partner's neighbours. Figures are of ``report``.
    Moments are all that is kept of the rows, but for ``held_rows`` pairs of each judging fold.

    Parameters
    ----------
    method : ``"auto"``, ``"ridge"``, ``"procrustes"``, ``"scaled"`` (Procrustes with a scale) or
        ``"shrunk"`` (ridge towards Procrustes).
    lam : ridge over the mean eigenvalue of the covariance of X; None chooses it.
    intercept : fit a bias.
    normalise : scale mapped rows to length 1. Squared errors are of the rows before that.
    target_moments : ``"diagonal"`` or ``"full"``; whether the covariance of Y is kept.
    held_rows : pairs of ``select`` and of ``report`` that are kept as rows; 0 for none.
    shares : the `Shares` of the folds.
    random_state : integer, of the deal.

    Float64 rows give float64 products; others are multiplied in float32 and summed in float64.
    """

    _stream: PairStream | None
    _moments: tuple[dict[str, JointMoments], list[JointMoments]] | None
    _fit: Fit | None

    def __init__(
        self,
        method: str = "auto",
        *,
        lam: float | None = None,
        intercept: bool = True,
        normalise: bool = False,
        target_moments: str = "diagonal",
        held_rows: int = 4096,
        shares: Shares | None = None,
        random_state: int = 0,
    ) -> None:
        self.method = method
        self.lam = lam
        self.intercept = intercept
        self.normalise = normalise
        self.target_moments = target_moments
        self.held_rows = held_rows
        self.shares = shares
        self.random_state = random_state

    def fit(self, X: Any, Y: Any = None, ids: Any = None) -> Self:
        """Fit on pairs: row i of X (n, dx) and row i of Y (n, dy) are of the same item.

        Everything :func:`as_matrix` takes: arrays and memory maps, which are read in pieces,
        tensors, frames, Arrow. ids : (n,), for folds that do not depend on the vectors.

        Raises
        ------
        GramianError : unequal lengths, NaN or infinity (the row is named), ids that are missing
            or come twice, rows of X that are all equal, or settings that do not exist.
        """
        x, y = self._pairs(X, Y, reset=True)
        stream = self._new_stream(x, y)
        stream.add(x, y, None if ids is None else check_ids(ids, len(x)))
        self._stream, self._moments = stream, None
        self._fit = None
        self._solved()
        return self

    def partial_fit(self, X: Any, Y: Any = None, ids: Any = None) -> Self:
        """Add pairs to those seen before; maps are solved when they are asked for.

        Raises
        ------
        GramianError : as :meth:`fit`; nothing of the batch is added then.
        """
        stream: PairStream | None = getattr(self, "_stream", None)
        first = stream is None
        x, y = self._pairs(X, Y, reset=first)
        listed = None if ids is None else check_ids(ids, len(x))
        check_finite(x, "X")
        check_finite(y, "Y")
        if stream is None:
            stream = self._new_stream(x, y)
        stream.add(x, y, listed)
        self._stream, self._moments = stream, None
        self._fit = None
        return self

    def remove(self, X: Any, Y: Any, ids: Any = None) -> Self:
        """Take out pairs that were added before, as if they had never been; no pass is needed.

        Exact to rounding: 1e-9 of float64 rows, 1e-6 of others.

        Raises
        ------
        GramianError : nothing was fitted on rows, or a fold does not hold that many pairs.
        """
        check_is_fitted(self)
        if self._stream is None:
            raise GramianError("remove: fitted on moments; subtract there, and fit again")
        x, y = self._pairs(X, Y, reset=False)
        check_finite(x, "X")
        check_finite(y, "Y")
        self._stream.remove(x, y, None if ids is None else check_ids(ids, len(x)))
        self._fit = None
        return self

    def fit_moments(
        self,
        train: JointMoments,
        select: JointMoments | None = None,
        report: JointMoments | Sequence[JointMoments] | None = None,
    ) -> Self:
        """Fit on statistics of rows that are not here; settings are chosen by squared error.

        report : one fold, or disjoint parts of it, whose jackknife is the spread of R2.

        Raises
        ------
        GramianError : moments of unequal widths, or diagonal ones of x.
        """
        parts = [report] if isinstance(report, JointMoments) else list(report or [])
        folds = {"train": plain(train)}
        if select is not None:
            folds["select"] = plain(select)
        if parts:
            folds["report"] = plain(sum(parts[1:], parts[0]))
        if len({(joint.x.d, joint.y.d) for joint in folds.values()}) > 1:
            raise GramianError("the folds have moments of different widths; expected one pair")
        if train.x.is_diagonal:
            raise GramianError("train has diagonal moments of x; collect them with order='full'")
        self._stream = None
        self._moments = (folds, parts)
        self.n_features_in_, self._n_features_out = train.x.d, train.y.d
        self._fit = None
        self._solved()
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Map rows (n, dx) to (n, dy): float64 stays, everything else becomes float32.

        Raises
        ------
        GramianError : another width, or NaN or infinity in a row.
        """
        check_is_fitted(self)
        x = self._rows(X, "X", reset=False)
        check_finite(x, "X")
        result = self._through(self.map_, x)
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
        y = as_matrix(X, "Y", width=self._n_features_out)
        return self._through(self.map_.pinv(), y)

    def score(self, X: Any, y: Any) -> float:
        """R2 of mapped rows against their partners, all coordinates together (1 at best)."""
        check_is_fitted(self)
        images = np.asarray(self.transform(X), np.float64)
        target = np.asarray(_columns(as_matrix(_tall(y), "Y")), np.float64)
        if target.shape != images.shape:
            raise GramianError(f"Y has shape {target.shape}, expected {images.shape}")
        variance = float(np.square(target - target.mean(0)).sum())
        error = float(np.square(images - target).sum())
        return 1.0 - error / variance if variance > 0 else float("nan")

    # What was fitted, solved when it is first asked for.

    @property
    def map_(self) -> LinearMap:
        """The map."""
        return self._solved().map

    @property
    def evidence_(self) -> Evidence:
        """Errors and R2 by fold, conditioning, and what a person should know."""
        return self._solved().evidence

    @property
    def method_(self) -> str:
        """The family that was chosen."""
        return self._solved().setting.method

    @property
    def lam_(self) -> float | None:
        """Its ridge; None when it has none."""
        return self._solved().setting.lam

    @property
    def candidates_(self) -> list[dict[str, Any]]:
        """Everything that was tried, with its error and retrieval on ``select``."""
        return [candidate.to_json() for candidate in self._solved().candidates]

    @property
    def r2_report_(self) -> float:
        """R2 on ``report``; nan when no pairs were set aside."""
        return self._solved().r2

    @property
    def r2_spread_(self) -> float:
        """Standard error of ``r2_report_``."""
        return self._solved().r2_spread

    @property
    def cosine_report_(self) -> float:
        """Mean cosine with the partner on the held rows of ``report``."""
        return self._solved().cosine

    @property
    def retrieval_report_(self) -> dict[str, float]:
        """recall@1, recall@10, mrr and overlap@10 among the held rows of ``report``."""
        return dict(self._solved().retrieval)

    @property
    def folds_(self) -> dict[str, JointMoments]:
        """Moments of every fold."""
        self._solved()
        return self._folds()[0]

    @property
    def n_features_out_(self) -> int:
        """Width of a mapped row."""
        self._solved()
        return int(self._n_features_out)

    # Inside.

    def _solved(self) -> Fit:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this Bridge is not fitted yet; call fit with pairs first")
        if self._fit is None:
            folds, reports = self._folds()
            if not folds:
                raise GramianError("no pairs are left; add some")
            self._fit = solve(
                folds,
                {} if self._stream is None else self._stream.held,
                method=self.method,
                lam=self.lam,
                intercept=self.intercept,
                reports=reports,
            )
        return self._fit

    def _folds(self) -> tuple[dict[str, JointMoments], list[JointMoments]]:
        if self._stream is not None:
            return self._stream.folds(), []
        assert self._moments is not None
        return self._moments

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fit")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.transformer_tags.preserves_dtype = ["float32", "float64"]
        return tags

    def _new_stream(self, x: NDArray[Any], y: NDArray[Any]) -> PairStream:
        wide = np.float64 in (x.dtype, y.dtype)
        self._n_features_out = y.shape[1]
        return PairStream(
            x.shape[1],
            y.shape[1],
            shares=self.shares or Shares(),
            seed=self.random_state,
            limit=self.held_rows,
            target=self.target_moments,
            precision="float64" if wide else "float32",
        )

    def _pairs(self, X: Any, Y: Any, *, reset: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        if Y is None:
            raise GramianError(
                "this Bridge requires y to be passed, but the target y is None: pairs are rows "
                "of X and rows of Y of the same items"
            )
        x = self._rows(X, "X", reset=reset)
        y = _columns(as_matrix(_tall(Y), "Y", finite=False))
        if len(x) != len(y):
            raise GramianError(f"{len(x)} rows of X and {len(y)} of Y, expected pairs")
        if not reset and y.shape[1] != self._n_features_out:
            raise GramianError(f"Y is {y.shape[1]} wide, expected {self._n_features_out}")
        return x, y

    def _rows(self, X: Any, name: str, *, reset: bool) -> NDArray[Any]:
        """Rows as an array; widths and feature names are scikit-learn's to check."""
        package = type(X).__module__.partition(".")[0]
        vectors = package == "pandas" and (X.ndim == 1 or X.shape[1] == 1)
        if package in ("torch", "pyarrow", "polars") or vectors:
            X = as_matrix(X, name, finite=False)
        checked: NDArray[Any] = validate_data(
            self,
            X,
            reset=reset,
            dtype=[np.float64, np.float32, np.float16],
            ensure_all_finite=False,
            ensure_min_samples=1,
        )
        return checked

    def _through(self, map: LinearMap, x: NDArray[Any]) -> NDArray[Any]:
        dtype = np.float64 if x.dtype == np.float64 else np.float32
        result = np.empty((len(x), map.out_features), dtype)
        for start in range(0, len(x), BLOCK):
            result[start : start + BLOCK] = mapped(map, x[start : start + BLOCK])
        return result


def _tall(Y: Any) -> Any:
    """One number per pair is a target of width 1."""
    if isinstance(Y, np.ndarray | list | tuple) or hasattr(Y, "__array__"):
        array = np.asarray(Y) if not hasattr(Y, "detach") else Y
        if array.ndim == 1 and (array.dtype != object or not len(array) or not np.ndim(array[0])):
            return array.reshape(-1, 1)
    return Y


def _columns(y: NDArray[Any]) -> NDArray[Any]:
    if y.shape[1] == 0:
        raise GramianError("Y has no columns; expected vectors")
    return y
