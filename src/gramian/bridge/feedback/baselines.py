"""Recommenders that any other has to beat, and what all of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from gramian.bridge.feedback.gram import histories
from gramian.bridge.feedback.ranking import batches, best_items, hidden_part, list_quality
from gramian.errors import GramianError

Array = NDArray[np.float64]


class Recommender(BaseEstimator, ABC):  # type: ignore[misc]
    """What every recommender does once it scores items; ``X`` is users x items, sparse."""

    n_features_in_: int

    @abstractmethod
    def _scores(self, matrix: Any) -> Array:
        """Scores (users, items)."""

    def scores(self, X: Any) -> Array:
        """Scores of all items (users, items), seen or not; dense."""
        return self._scores(self._read(X))

    def recommend(
        self, X: Any, k: int = 10, *, filter_seen: bool = True
    ) -> tuple[NDArray[np.int64], Array]:
        """The k best items of every user and their scores, (users, k) each, best first.

        Items the user has are left out with ``filter_seen``; -1 where there are no more.

        Raises
        ------
        GramianError : another number of items, values below 0 or not finite, k outside 1 to items.
        """
        matrix = self._read(X)
        if not 1 <= k <= self.n_features_in_:
            raise GramianError(f"k is {k}, expected 1 to {self.n_features_in_}, the items")
        parts = [
            best_items(self._scores(part), part, k, filter_seen=filter_seen)
            for part in batches(matrix)
        ]
        if not parts:
            return np.empty((0, k), np.int64), np.empty((0, k))
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    def judge(
        self, X: Any, k: int = 20, *, hidden: float = 0.2, random_state: int = 0
    ) -> dict[str, float]:
        """nDCG@k and recall@k over users not fitted on: part of their items is hidden and sought.

        Raises
        ------
        GramianError : see :meth:`recommend`; a share outside 0 to 1; no user with two items.
        """
        if not 0.0 < hidden < 1.0:
            raise GramianError(f"hidden is {hidden}, expected above 0 and below 1")
        shown, sought = hidden_part(self._read(X), hidden, np.random.default_rng(random_state))
        return list_quality(self.recommend(shown, k)[0], sought, k)

    def score(self, X: Any, y: Any = None) -> float:
        """nDCG@20 (of all items where there are fewer) as :meth:`judge` takes it."""
        check_is_fitted(self)
        return self.judge(X, min(20, self.n_features_in_))["ndcg"]

    def _read(self, X: Any) -> Any:
        check_is_fitted(self)
        return histories(X, self.n_features_in_)


class Popularity(Recommender):
    """Everybody gets what most users have."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Count the users of every item."""
        matrix = histories(X)
        self.counts_ = np.asarray(matrix.sum(axis=0)).reshape(-1)
        self.n_features_in_ = matrix.shape[1]
        return self

    def _scores(self, matrix: Any) -> Array:
        return np.repeat(self.counts_[None], matrix.shape[0], axis=0)


class Random(Recommender):
    """Everybody gets a random order of the items; random_state : integer."""

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn how many items there are."""
        self.n_features_in_ = histories(X).shape[1]
        self.generator_ = np.random.default_rng(self.random_state)
        return self

    def _scores(self, matrix: Any) -> Array:
        return np.asarray(self.generator_.random(matrix.shape))
