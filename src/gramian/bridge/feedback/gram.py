"""Item-item Gram matrices of sparse histories, which add over users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from gramian.errors import GramianError

Array = NDArray[np.float64]


def histories(users: Any, items: int | None = None, *, binarise: bool = True) -> Any:
    """Users x items as a CSR matrix of float64, checked; stored zeros are left out.

    Raises
    ------
    GramianError : not two axes, another number of items, values below 0, NaN or infinity.
    """
    try:
        matrix = scipy.sparse.csr_matrix(users, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise GramianError(f"users x items cannot be read as a matrix: {error}") from error
    if matrix is users or np.shares_memory(matrix.data, getattr(users, "data", matrix.data)):
        matrix = matrix.copy()
    if items is not None and matrix.shape[1] != items:
        raise GramianError(f"users with {matrix.shape[1]} items, expected {items}")
    if not np.isfinite(matrix.data).all():
        raise GramianError("users x items holds NaN or infinity; leave those entries out")
    if (matrix.data < 0).any():
        raise GramianError("users x items holds values below 0, expected counts or ones")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if binarise:
        matrix.data[:] = 1.0
    return matrix


@dataclass(frozen=True, eq=False)
class ItemGram:
    """``G = sum_u w_u x_u x_u^T`` over users; Grams add, and users can be taken out again."""

    gram: Array
    """(items, items) float64."""
    users: float
    """``sum w``, the number of users where they carry no weight."""
    counts: Array
    """(items,) ``sum_u w_u x_ui``: how popular an item is."""

    @classmethod
    def from_users(cls, users: Any, weight: Any = None, *, binarise: bool = True) -> ItemGram:
        """The Gram of users x items, a SciPy sparse or a dense matrix.

        weight : (users,) not negative, as `inverse_propensity` gives them. binarise : every
        entry above 0 counts as 1.

        Raises
        ------
        GramianError : see `histories`; weights that are negative or not finite.
        """
        matrix = histories(users, binarise=binarise)
        n = matrix.shape[0]
        w = np.ones(n) if weight is None else np.asarray(weight, np.float64)
        if w.shape != (n,) or not np.isfinite(w).all() or (w < 0).any():
            raise GramianError(f"weight must be {n} finite numbers of at least 0, one per user")
        weighted = scipy.sparse.diags_array(w) @ matrix
        product = (matrix.T @ weighted).toarray()
        return cls(product, float(w.sum()), np.asarray(weighted.sum(axis=0)).reshape(-1))

    @classmethod
    def empty(cls, items: int) -> ItemGram:
        """The Gram of no users."""
        return cls(np.zeros((items, items)), 0.0, np.zeros(items))

    @property
    def items(self) -> int:
        """How many items there are."""
        return len(self.counts)

    def __add__(self, other: ItemGram) -> ItemGram:
        if not isinstance(other, ItemGram):
            return NotImplemented
        self._check(other)
        return ItemGram(
            self.gram + other.gram, self.users + other.users, self.counts + other.counts
        )

    def __radd__(self, other: int) -> ItemGram:
        return self if other == 0 else NotImplemented

    def __sub__(self, other: ItemGram) -> ItemGram:
        """Without users that were added before, with the same weights.

        Raises
        ------
        GramianError : another number of items, or users who were never added.
        """
        if not isinstance(other, ItemGram):
            return NotImplemented
        self._check(other)
        counts = self.counts - other.counts
        diagonal = self.gram.diagonal() - other.gram.diagonal()
        slack = 1e-9 * max(1.0, float(self.gram.diagonal().max(initial=0.0)))
        if min(counts.min(initial=0.0), diagonal.min(initial=0.0)) < -slack:
            raise GramianError("these users were not added before, so they cannot be taken out")
        return ItemGram(self.gram - other.gram, max(self.users - other.users, 0.0), counts)

    def _check(self, other: ItemGram) -> None:
        if self.items != other.items:
            raise GramianError(f"Grams of {self.items} and {other.items} items do not add")


def inverse_propensity(users: Any, counts: Any, *, power: float = 0.5) -> Array:
    """Weights (users,) that count users of rare items more: against popularity bias.

    A user's weight is the mean of ``counts^-power`` over the items of that user, over the same
    mean of all counts, so that weights of users weighed apart by the same counts agree. An item
    of count 0 weighs as one of count 1.

    users : users x items. counts : (items,) popularity, as `ItemGram.counts`. power : 0 weighs
    all alike.

    Raises
    ------
    GramianError : see `histories`; a power outside 0 to 1.
    """
    if not 0.0 <= power <= 1.0:
        raise GramianError(f"the power of propensities is {power}, expected 0 to 1")
    known = np.maximum(np.asarray(counts, np.float64), 1.0)
    matrix = histories(users, len(known))
    rarity = known**-power
    usual = float(known @ rarity / known.sum())
    sizes = np.maximum(np.diff(matrix.indptr), 1)
    weight: Array = np.asarray(matrix @ rarity).reshape(-1) / sizes / usual
    return weight
