"""The recommender of one matrix inverse, with scikit-learn's contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gramian.bridge.feedback.baselines import Recommender
from gramian.bridge.feedback.gram import ItemGram, histories, inverse_propensity
from gramian.bridge.feedback.ranking import batches, best_items, hidden_part, list_quality
from gramian.errors import GramianError
from gramian.solvers import ItemWeights, ease

Array = NDArray[np.float64]
LAMS = (1.0, 10.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0)


class Ease(Recommender):
    """Recommend items from the items a user has, by the weights of `gramian.solvers.ease`.

    Only the item Gram is kept of the users, so that users add (:meth:`partial_fit`) and are taken
    out again (:meth:`forget`) without the others.

    Parameters
    ----------
    lam : ridge, in users; None chooses it from ``lams`` on held-out users in :meth:`fit`.
    lams : the grid.
    metric : ``"ndcg"`` or ``"recall"``, what lam is chosen by.
    k : length of the lists that are judged (all items where there are fewer).
    held : share of the users held out to choose lam; the weights are of all users after that.
    propensity : power of `inverse_propensity`, above 0 against popularity bias; fixed by
        :meth:`fit`, whose counts later users are weighed by.
    random_state : integer, of the deal of users and of the items hidden.

    After fitting: ``gram_``, ``lam_``, ``weights_`` (an `ItemWeights`), ``candidates_`` (lam to
    the figures on held-out users) and ``n_features_in_``, the number of items.
    """

    def __init__(
        self,
        lam: float | None = None,
        *,
        lams: Sequence[float] = LAMS,
        metric: str = "ndcg",
        k: int = 20,
        held: float = 0.1,
        propensity: float = 0.0,
        random_state: int = 0,
    ) -> None:
        self.lam = lam
        self.lams = lams
        self.metric = metric
        self.k = k
        self.held = held
        self.propensity = propensity
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit on users x items, a SciPy sparse or a dense matrix; what is above 0 counts as 1.

        Raises
        ------
        GramianError : see `histories`; too few users to hold some out; settings that do not exist.
        """
        if self.metric not in ("ndcg", "recall"):
            raise GramianError(f"metric is {self.metric!r}, expected 'ndcg' or 'recall'")
        matrix = histories(X)
        if matrix.nnz == 0:
            raise GramianError("no user has any item; there is nothing to learn from")
        self.counts_ = np.asarray(matrix.sum(axis=0)).reshape(-1)
        self.n_features_in_ = matrix.shape[1]
        self.candidates_: dict[float, dict[str, float]] = {}
        self.lam_ = self._chosen(matrix) if self.lam is None else float(self.lam)
        self.gram_ = self._gram(matrix)
        self._weights: ItemWeights | None = ease(self.gram_.gram, self.lam_)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add users; lam stays as it is. The first call fits. Weights are solved when needed."""
        if not hasattr(self, "gram_"):
            return self.fit(X)
        self.gram_ = self.gram_ + self._gram(self._read(X))
        self._weights = None
        return self

    def forget(self, X: Any) -> Self:
        """Take out users who were added before, exactly as if they had never been.

        Raises
        ------
        GramianError : users who cannot have been added.
        """
        self.gram_ = self.gram_ - self._gram(self._read(X))
        self._weights = None
        return self

    @property
    def weights_(self) -> ItemWeights:
        """The item weights of all users so far."""
        check_is_fitted(self, "gram_")
        if self._weights is None:
            self._weights = ease(self.gram_.gram, self.lam_)
        return self._weights

    def _scores(self, matrix: Any) -> Array:
        scores: Array = matrix @ self.weights_.weights.numpy()
        return scores

    def _gram(self, matrix: Any) -> ItemGram:
        if self.propensity == 0:
            return ItemGram.from_users(matrix)
        weight = inverse_propensity(matrix, self.counts_, power=self.propensity)
        return ItemGram.from_users(matrix, weight)

    def _chosen(self, matrix: Any) -> float:
        """The lam of the best lists for users that were held out."""
        grid = [float(value) for value in self.lams]
        if not grid:
            raise GramianError("lams is empty, expected at least one ridge to try")
        generator = np.random.default_rng(self.random_state)
        order = generator.permutation(matrix.shape[0])
        held = round(self.held * len(order))
        if not 1 <= held < len(order):
            raise GramianError(
                f"{len(order)} users and held = {self.held} leave {held} users to choose lam on; "
                "give more users, or a lam"
            )
        shown, sought = hidden_part(matrix[np.sort(order[:held])], 0.2, generator)
        gram = self._gram(matrix[np.sort(order[held:])]).gram
        k = min(self.k, matrix.shape[1])
        for lam in grid:
            weights = ease(gram, lam).weights.numpy()
            found = [best_items(part @ weights, part, k)[0] for part in batches(shown)]
            lists = np.concatenate(found) if found else np.empty((0, k), np.int64)
            self.candidates_[lam] = list_quality(lists, sought, k)
        return max(grid, key=lambda lam: self.candidates_[lam][self.metric])
