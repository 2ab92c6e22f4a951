"""The estimator of paired bridges, with scikit-learn's contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gramian.bridge.map_estimator import MapEstimator, targets_of
from gramian.bridge.paired.assignment import check_ids
from gramian.bridge.paired.families import Asked
from gramian.bridge.paired.fitted import Fitted
from gramian.bridge.paired.fold_moments import folds_of_moments
from gramian.bridge.paired.incoming import pairs_of, weights_of
from gramian.bridge.paired.stream import PairStream
from gramian.bridge.paired.trimming import find_suspects
from gramian.bridge.rows import check_finite
from gramian.errors import GramianError
from gramian.moments import FOLDS, JointMoments, Shares


class Bridge(Fitted, MapEstimator):
    """Map from the vectors of one model to those of another, fitted on pairs.

    Pairs are dealt to the folds ``train``, ``select`` and ``report`` by a hash of their id (of the
    row itself without ids). Family and ridge are chosen on ``select`` by retrieval: whether a
    mapped row finds its own partner, and its partner's neighbours. Figures are of ``report``.
    Moments are all that is kept of the rows, but for ``held_rows`` pairs of each judging fold.

    Parameters
    ----------
    method : ``"ridge"``, ``"procrustes"``, ``"scaled"`` (Procrustes with a scale), ``"shrunk"``
        (ridge towards Procrustes), ``"auto"`` to choose among these four, or one that is only
        taken when it is named: ``"rotation"`` (Procrustes without reflection),
        ``"reduced_rank"``, ``"cca"`` (through canonical correlations, needs
        ``target_moments="full"``) or ``"relaxed"`` (singular values near 1; slow in wide spaces).
    lam : ridge over the mean eigenvalue of the covariance of X; None chooses it.
    rank : of ``reduced_rank`` and ``cca``; None chooses it, or keeps all directions of ``cca``.
    delta : of ``relaxed``, how far singular values may lie from 1; None chooses it.
    intercept : fit a bias.
    normalise : scale mapped rows to length 1. Squared errors are of the rows before that.
    trim : leave out pairs that fit no better than partners drawn at random (`suspects_`), which
        takes four more passes over the rows.
    target_moments : ``"diagonal"`` or ``"full"``; whether the covariance of Y is kept.
    held_rows : pairs of ``select`` and of ``report`` that are kept as rows; 0 for none.
    shares : the `Shares` of the folds.
    random_state : integer, of the deal.

    Float64 rows give float64 products; others are multiplied in float32 and summed in float64.
    """

    def __init__(
        self,
        method: str = "auto",
        *,
        lam: float | None = None,
        rank: int | None = None,
        delta: float | None = None,
        intercept: bool = True,
        normalise: bool = False,
        trim: bool = False,
        target_moments: str = "diagonal",
        held_rows: int = 4096,
        shares: Shares | None = None,
        random_state: int = 0,
    ) -> None:
        self.method = method
        self.lam = lam
        self.rank = rank
        self.delta = delta
        self.intercept = intercept
        self.normalise = normalise
        self.trim = trim
        self.target_moments = target_moments
        self.held_rows = held_rows
        self.shares = shares
        self.random_state = random_state

    def fit(self, X: Any, Y: Any = None, ids: Any = None) -> Self:
        """Fit on pairs: row i of X (n, dx) and row i of Y (n, dy) are of the same item.

        Both may be all that :func:`as_matrix` takes; memory maps are read in pieces.
        ids : (n,), for folds that do not depend on the vectors.

        Raises
        ------
        GramianError : unequal lengths, NaN or infinity (the row is named), ids that are missing
            or come twice, rows of X that are all equal, or settings that do not exist.
        """
        self.asked()
        x, y = pairs_of(self, X, Y)
        listed = None if ids is None else check_ids(ids, len(x))
        stream = self.new_stream(x, y)
        found, keep = None, None
        if self.trim:
            found = find_suspects(stream, x, y, listed, intercept=self.intercept)
            keep = found.keep
        stream.add(x, y, listed, keep)
        self._stream, self._moments, self._suspects = stream, None, found
        self._fit = None
        self._solved()
        return self

    def partial_fit(
        self,
        X: Any,
        Y: Any = None,
        ids: Any = None,
        *,
        sample_weight: Any = None,
        fold: str | None = None,
    ) -> Self:
        """Add pairs to those seen before; maps are solved when they are asked for.

        Pairs are not remembered, so that memory stays the same: what is added twice counts twice.
        An id that comes back is refused when its pair is among the held rows, which tells of a
        batch that is added again, not of every single pair.

        sample_weight : (n,) above zero, of the moments; held rows that judge count alike.
        fold : ``"train"``, ``"select"`` or ``"report"`` for all pairs of the batch, so that a map
            can be judged on pairs of one kind alone; None deals them.

        Raises
        ------
        GramianError : as :meth:`fit`, an unknown fold, weights that are none, or ``trim``, which
            needs all pairs at once; nothing of the batch is added then.
        """
        self.asked()
        if self.trim:
            raise GramianError("trim reads all pairs several times; call fit with all of them")
        stream: PairStream | None = getattr(self, "_stream", None)
        x, y = pairs_of(self, X, Y, width=None if stream is None else self._n_features_out)
        listed = None if ids is None else check_ids(ids, len(x))
        check_finite(x, "X")
        check_finite(y, "Y")
        if stream is None:
            stream = self.new_stream(x, y)
        if fold is not None and fold not in FOLDS:
            raise GramianError(f"fold is {fold!r}, expected {', '.join(FOLDS)}")
        weight = None if sample_weight is None else weights_of(sample_weight, len(x))
        stream.add(x, y, listed, weight=weight, fold=fold)
        self._stream, self._moments, self._suspects, self._fit = stream, None, None, None
        return self

    def remove(self, X: Any, Y: Any, ids: Any = None) -> Self:
        """Take out pairs that were added before, as if they had never been; no pass is needed.

        Suspects were never in and may be among them; pairs with weights or a fold of their own
        cannot be told and must stay. Exact to rounding: 1e-9 of float64 rows,
        1e-6 of others.

        Raises
        ------
        GramianError : nothing was fitted on rows, or a fold does not hold that many pairs.
        """
        check_is_fitted(self)
        if self._stream is None:
            raise GramianError("remove: fitted on moments; subtract there, and fit again")
        x, y = pairs_of(self, X, Y, width=self._n_features_out)
        check_finite(x, "X")
        check_finite(y, "Y")
        never = None if self._suspects is None else self._suspects.keys
        self._stream.remove(x, y, None if ids is None else check_ids(ids, len(x)), never)
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
        self.asked()
        if self.trim:
            raise GramianError("trim needs the pairs themselves; call fit")
        folds, parts = folds_of_moments(train, select, report)
        self._stream = self._suspects = None
        self._moments = (folds, parts)
        self.n_features_in_, self._n_features_out = train.x.d, train.y.d
        self._fit = None
        self._solved()
        return self

    def score(self, X: Any, y: Any) -> float:
        """R2 of mapped rows against their partners, all coordinates together (1 at best)."""
        check_is_fitted(self)
        images = np.asarray(self.transform(X), np.float64)
        target = np.asarray(targets_of(y), np.float64)
        if target.shape != images.shape:
            raise GramianError(f"Y has shape {target.shape}, expected {images.shape}")
        variance = float(np.square(target - target.mean(0)).sum())
        error = float(np.square(images - target).sum())
        return 1.0 - error / variance if variance > 0 else float("nan")

    def asked(self) -> Asked:
        """What the parameters ask for.

        Raises
        ------
        GramianError : settings that do not exist or do not go together.
        """
        asked = Asked(self.method, self.lam, self.rank, self.delta)
        asked.check(full=self.target_moments == "full", intercept=self.intercept)
        return asked

    def new_stream(self, x: NDArray[Any], y: NDArray[Any]) -> PairStream:
        """A stream for pairs like these, without any."""
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
