"""The estimator of a common space of several models."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from gramian.bridge.mapped_rows import carried
from gramian.bridge.rows import as_matrix
from gramian.bridge.spaces.tables import KeyedTable, as_tables, union_of
from gramian.errors import GramianError
from gramian.moments import JointMoments
from gramian.solvers import generalised_procrustes

BLOCK = 65536


class CommonVectors(BaseEstimator):  # type: ignore[misc]
    """Rotate the vectors of K models into one space (generalised Procrustes).

    Parameters
    ----------
    pivot : name of the model whose coordinates are kept; None takes the widest.
    intercept : shift as well as rotate; False keeps every cosine within a model as it was.
    rounds, tolerance : as for `generalised_procrustes`.

    Attributes
    ----------
    maps_ : name to map. space_ : the `CommonSpace`. common_ : pair of names to the number of keys
    that both have.
    """

    def __init__(
        self,
        pivot: str | None = None,
        *,
        intercept: bool = True,
        rounds: int = 200,
        tolerance: float = 1e-10,
    ) -> None:
        self.pivot = pivot
        self.intercept = intercept
        self.rounds = rounds
        self.tolerance = tolerance

    def fit(self, X: Mapping[str, Any], y: None = None) -> Self:
        """Fit on tables by name: keys and vectors each, of any widths, not all with all keys.

        Raises
        ------
        GramianError : an unknown pivot, tables that cannot be read, or that no chain of common
            keys connects.
        """
        tables = as_tables(X)
        return self.fit_moments(pairs_of_tables(tables))

    def fit_moments(self, pairs: Mapping[tuple[str, str], JointMoments]) -> Self:
        """Fit on joint moments of pairs of models, over the items that both have."""
        names = list(dict.fromkeys(name for pair in pairs for name in pair))
        if self.pivot is not None and self.pivot not in names:
            raise GramianError(f"pivot is {self.pivot!r}, expected one of {', '.join(names)}")
        number = {name: k for k, name in enumerate(names)}
        space = generalised_procrustes(
            {(number[a], number[b]): joint for (a, b), joint in pairs.items()},
            pivot=None if self.pivot is None else number[self.pivot],
            intercept=self.intercept,
            rounds=self.rounds,
            tolerance=self.tolerance,
        )
        self.space_ = space
        self.maps_ = dict(zip(names, space.maps, strict=True))
        self.common_ = {pair: int(joint.count) for pair, joint in pairs.items()}
        return self

    def transform(self, X: Any, name: str) -> NDArray[Any]:
        """Rows (n, d) of a model, by name, to (n, width).

        Raises
        ------
        GramianError : an unknown model, another width, NaN.
        """
        check_is_fitted(self, "maps_")
        if name not in self.maps_:
            raise GramianError(f"model {name!r}, expected one of {', '.join(self.maps_)}")
        map = self.maps_[name]
        return carried(map, as_matrix(X, f"rows of {name}", width=map.in_features))

    def mean(self, X: Mapping[str, Any]) -> KeyedTable:
        """One vector for every key that any of the models has: the mean of what they map it to."""
        check_is_fitted(self, "maps_")
        tables = as_tables(X) if len(X) > 1 else {k: KeyedTable(*v) for k, v in X.items()}
        keys, places = union_of(list(tables.values()))
        total = np.zeros((len(keys), self.space_.width))
        for (name, table), rows in zip(tables.items(), places, strict=True):
            there = rows >= 0
            total[there] += self.transform(table.vectors[rows[there]], name)
        return KeyedTable(keys, total / (places >= 0).sum(0)[:, None])


def pairs_of_tables(tables: Mapping[str, KeyedTable]) -> dict[tuple[str, str], JointMoments]:
    """Joint moments of every two tables over the keys that both have, where there are any."""
    _, places = union_of(list(tables.values()))
    pairs = {}
    for (a, (name, left)), (b, (other, right)) in combinations(enumerate(tables.items()), 2):
        both = (places[a] >= 0) & (places[b] >= 0)
        if both.any():
            pairs[name, other] = joint_of(
                left.vectors, places[a][both], right.vectors, places[b][both]
            )
    named = {name for pair in pairs for name in pair}
    lonely = [name for name in tables if name not in named]
    if lonely:
        raise GramianError(f"table {lonely[0]!r} has no key in common with any other")
    return pairs


def joint_of(left: Any, left_rows: Any, right: Any, right_rows: Any) -> JointMoments:
    """Joint moments of chosen rows of two tables, taken in blocks."""
    parts = []
    for first in range(0, len(left_rows), BLOCK):
        some = slice(first, first + BLOCK)
        rows = left[left_rows[some]], right[right_rows[some]]
        parts.append(JointMoments.from_rows(*rows, quartic=False))
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
