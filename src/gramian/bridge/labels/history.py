"""Identities seen so far, and the projection that tells them apart."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from gramian.bridge.rows import as_matrix
from gramian.errors import GramianError
from gramian.moments import Moments
from gramian.registry import method
from gramian.solvers import Directions, discriminant_within

Array = NDArray[np.float64]


class HistoryAware(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Project features so that the identities of the recent past lie apart (HAT, 2503.12562).

    Every identity keeps its latest features; one that is ``age`` updates old weighs
    ``decay^age``. Compare projected features by their cosine.

    Parameters
    ----------
    decay : weight of a feature per update of age, above 0 and at most 1.
    keep : latest features kept of an identity.
    least : features are projected only once there are more than ``least`` per identity on
        average; before that :meth:`transform` returns them as they are.
    shrinkage : of the scatter within identities, see `gramian.solvers.discriminant`.

    After an update: ``directions_`` (`Directions`, or None while the history is too short),
    ``classes_`` and ``n_features_in_``.
    """

    def __init__(
        self,
        *,
        decay: float = 0.9,
        keep: int = 60,
        least: float = 4.0,
        shrinkage: float | str | None = "ledoit_wolf",
    ) -> None:
        self.decay = decay
        self.keep = keep
        self.least = least
        self.shrinkage = shrinkage

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything and learn from rows (n, d) of one time with identities (n,)."""
        for name in ("n_features_in_", "_history"):
            if hasattr(self, name):
                delattr(self, name)
        return self.update(X, y)

    def update(self, X: Any, y: Any) -> Self:
        """The next features (n, d) and their identities (n,); all earlier ones age by one.

        Raises
        ------
        GramianError : another width or number of identities, NaN or infinity, bad settings.
        """
        if not 0.0 < self.decay <= 1.0 or self.keep < 1 or self.least < 0:
            raise GramianError(
                f"decay = {self.decay}, keep = {self.keep}, least = {self.least}; expected decay "
                "above 0 and at most 1, keep of at least 1 and least of at least 0"
            )
        rows = as_matrix(X, "X", width=getattr(self, "n_features_in_", None)).astype(np.float64)
        names = np.asarray(y)
        if names.shape != (len(rows),):
            raise GramianError(f"identities of shape {names.shape}, expected ({len(rows)},)")
        if not hasattr(self, "_history"):
            self._history: dict[Any, list[tuple[int, Array]]] = {}
            self._time = 0
        self._time += 1
        for name, row in zip(names.tolist(), rows, strict=True):
            kept = self._history.setdefault(name, [])
            kept.append((self._time, row))
            del kept[: -self.keep]
        self.n_features_in_ = rows.shape[1]
        self.classes_ = np.array(sorted(self._history, key=str), dtype=names.dtype)
        self.directions_ = self._solve()
        return self

    def forget(self, identity: Any) -> Self:
        """Drop an identity that has gone.

        Raises
        ------
        GramianError : it was never seen.
        """
        if identity not in getattr(self, "_history", {}):
            raise GramianError(f"identity {identity!r} is not in the history")
        del self._history[identity]
        self.classes_ = np.array([c for c in self.classes_.tolist() if c != identity])
        self.directions_ = self._solve()
        return self

    def transform(self, X: Any) -> Array:
        """Rows (n, d) to (n, r), r < identities; as they are while the history is too short."""
        if not hasattr(self, "directions_"):
            raise GramianError("this HistoryAware has seen nothing; call update(X, y) first")
        rows = as_matrix(X, "X", width=self.n_features_in_).astype(np.float64)
        if self.directions_ is None:
            return rows
        projected: Array = rows @ self.directions_.projection.numpy()
        return projected

    def _solve(self) -> Directions | None:
        history = self._history
        size = sum(len(kept) for kept in history.values())
        if len(history) < 2 or size <= self.least * len(history):
            return None
        times = [torch.tensor([time for time, _ in kept]) for kept in history.values()]
        rows = [torch.from_numpy(np.stack([row for _, row in kept])) for kept in history.values()]
        weights = [self.decay ** (self._time - t).to(torch.float64) for t in times]
        return history_discriminant(rows, weights, shrinkage=self.shrinkage)


@method("history_discriminant", job="bridge", paper="2503.12562")
def history_discriminant(
    rows: list[torch.Tensor],
    weights: list[torch.Tensor],
    *,
    shrinkage: float | str | None = "ledoit_wolf",
) -> Directions:
    """Directions that tell identities apart, of rows that weigh less the older they are.

    rows : one (n_k, d) per identity. weights : one (n_k,) per identity, above 0. The scatter
    within is pooled over rows about their own weighted means, then shrunk.

    Raises
    ------
    GramianError : see `gramian.solvers.discriminant`.
    """
    parts = [Moments.from_rows(r, w, quartic=False) for r, w in zip(rows, weights, strict=True)]
    counts = torch.tensor([part.count for part in parts], dtype=torch.float64)
    means = torch.stack([part.mean for part in parts])
    centred = [r.to(torch.float64) - m for r, m in zip(rows, means, strict=True)]
    within = Moments.from_rows(torch.cat(centred), torch.cat(weights))
    return discriminant_within(within, counts, means, shrinkage=shrinkage)
