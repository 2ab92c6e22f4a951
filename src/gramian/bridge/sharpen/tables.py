"""A static table of token vectors, whitened as often as its tokens occur."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.rows import as_matrix
from gramian.bridge.sharpen.sums import BLOCK, moments_of
from gramian.errors import GramianError
from gramian.maps import Affine
from gramian.registry import method
from gramian.solvers import whitening

Counts = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WhitenedTable:
    """A table in which tokens, as often as they occur, have mean zero and vary alike."""

    table: NDArray[np.float32]
    """(V, d), the row of a token in the place that it had; rows of special tokens are zero."""
    map: Affine
    """What took the old rows there."""
    frequencies: Counts
    """(V,), sum 1: what the rows were weighed by; zero for special tokens."""


def token_counts(documents: Iterable[Any], vocabulary: int) -> Counts:
    """How often every token occurs, (vocabulary,), in one pass over documents of token ids.

    documents : arrays or sequences of integers from 0 to ``vocabulary - 1``; empty ones are fine.

    Raises
    ------
    GramianError : an id that is no integer or lies outside the vocabulary.
    """
    total = np.zeros(vocabulary, np.int64)
    for number, document in enumerate(documents):
        ids = np.asarray(document)
        if not ids.size:
            continue
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise GramianError(
                f"document {number}: {ids.dtype} of shape {ids.shape}, expected token ids (n,)"
            )
        if int(ids.min()) < 0 or int(ids.max()) >= vocabulary:
            raise GramianError(
                f"document {number}: ids {int(ids.min())} to {int(ids.max())}, expected 0 to "
                f"{vocabulary - 1}; count with the tokenizer of the table"
            )
        total += np.bincount(ids, minlength=vocabulary)
    return total.astype(np.float64)


@method("zipfian_whitening", job="bridge", paper="2411.00680")
def whiten_table(
    table: Any,
    counts: Any = None,
    *,
    special: Sequence[int] = (),
    floor: float = 0.5,
    kind: str = "zca",
    rank: int | None = None,
    ridge: float = 0.0,
) -> WhitenedTable:
    """Whiten a static table, every token weighed by how often it occurs.

    ``mu = sum p_i e_i``, ``C = sum p_i (e_i - mu)(e_i - mu)^T``, ``e'_i = (e_i - mu) C^(-1/2)``.
    A text is the mean of the new rows of its tokens, compared by cosine: the length of a row then
    grows with how rare and telling its token is, and no other weighting is needed.

    Parameters
    ----------
    table : (V, d).
    counts : (V,) occurrences over the tokenizer of the table, see `token_counts`; None weighs all
        tokens alike, which is plain whitening of the vocabulary.
    special : ids of special and unused tokens: they weigh nothing and their rows become zero.
    floor : the least count that a token is given, so that those never seen are not ignored.
    kind, rank, ridge : of `gramian.solvers.whitening`. ``"zca"`` keeps the width, ``"pca"`` gives
        ``rank`` columns, by falling variance; cosines are the same.

    Raises
    ------
    GramianError : counts of another length, negative or not finite or all zero, a special id
        outside the table, NaN in a row, or what `gramian.solvers.whitening` raises.
    """
    rows = as_matrix(table, "table")
    weight = _frequencies(counts, len(rows), special, floor)
    map = whitening(moments_of(rows, weight), kind=kind, rank=rank, ridge=ridge)
    new = np.empty((len(rows), map.out_features), np.float32)
    for first in range(0, len(rows), BLOCK):
        part = slice(first, first + BLOCK)
        new[part] = map(rows[part].astype(np.float64)).numpy()
    new[list(special)] = 0.0
    return WhitenedTable(new, map, weight)


def _frequencies(counts: Any, size: int, special: Sequence[int], floor: float) -> Counts:
    """Shares (V,) of tokens that are not special."""
    if not 0 <= floor < float("inf"):
        raise GramianError(f"floor is {floor}, expected a finite count of at least 0")
    outside = [token for token in special if not 0 <= token < size]
    if outside:
        raise GramianError(f"special token {outside[0]} is outside a table of {size} rows")
    if counts is None:
        weight = np.ones(size)
    else:
        weight = np.array(counts, np.float64)
        if weight.shape != (size,):
            raise GramianError(f"counts of shape {weight.shape}, expected ({size},), one a row")
        if not np.isfinite(weight).all() or bool((weight < 0).any()):
            raise GramianError("counts hold a negative or non-finite number")
        if not weight.any():
            raise GramianError("counts are all zero: no token of the table occurs")
        weight = np.maximum(weight, floor)
    weight[list(special)] = 0.0
    total = float(weight.sum())
    if total <= 0:
        raise GramianError("all tokens that occur are special; nothing is left to weigh")
    return weight / total
