"""Several tables made one: the union of their keys, at the width of the widest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.retrieval import top_k
from gramian.bridge.spaces.common import joint_of
from gramian.bridge.spaces.tables import Floats, KeyedTable, Places, as_tables, union_of
from gramian.errors import GramianError
from gramian.registry import method
from gramian.solvers import generalised_procrustes

TOWARDS = ("pivot", "mean")
MISSING = ("neighbours", "leave")
BLOCK = 4096


@dataclass(frozen=True, eq=False)
class MetaTable:
    """One table made of several."""

    table: KeyedTable
    """Unit rows for the union of all keys, in order of first appearance."""
    supplied: Mapping[str, int]
    """Table to the number of keys that it lacked and that were made up from neighbours."""
    lacking: Mapping[str, int]
    """Table to the number of keys that it lacked and that its vectors have no part in."""
    pivot: str
    rounds: int
    """Of generalised Procrustes; 0 with ``towards="pivot"``."""


@method("meta_embeddings", job="bridge", paper="2001.06381")
def meta_embeddings(
    tables: Mapping[str, Any],
    *,
    pivot: str | None = None,
    towards: str = "mean",
    missing: str = "neighbours",
    neighbours: int = 50,
) -> MetaTable:
    """Merge embedding tables into one that knows every key, with no more dimensions.

    Every table is scaled to unit rows, centred, and scaled again; rotated into one space over the
    keys it shares with others; averaged, and scaled once more, so that no table outweighs another.
    A key that a table lacks gets a vector from its neighbours in a table that knows it: the first
    k of the ``neighbours`` nearest common keys, weighed by cosine + 1, with the k (from 2) whose
    mean lies closest to the vector itself; the same keys and weights are then used in the table
    that lacks it. Of several tables that know the key, the one where the mean lies closest.

    Parameters
    ----------
    tables : name to (keys, vectors), to a `KeyedTable`, or to a mapping of key to vector.
    pivot : the table whose coordinates the result has; None takes the widest.
    towards : ``"pivot"``: every table is rotated to the pivot; ``"mean"``: all are rotated
        together (`generalised_procrustes`), which also joins tables that share keys with others
        but not with the pivot. Of two tables both are the same.
    missing : ``"neighbours"`` as above, or ``"leave"``: a key is the mean of the tables that have
        it.

    Raises
    ------
    GramianError : tables without common keys, rows of zeros, a key that comes twice, an unknown
        pivot or option.
    """
    read = as_tables(tables)
    names = list(read)
    if towards not in TOWARDS or missing not in MISSING:
        raise GramianError(
            f"towards is {towards!r} and missing is {missing!r}, expected one of "
            f"{', '.join(TOWARDS)} and of {', '.join(MISSING)}"
        )
    if pivot is not None and pivot not in read:
        raise GramianError(f"pivot is {pivot!r}, expected one of {', '.join(names)}")
    if neighbours < 2:
        raise GramianError(f"neighbours is {neighbours}, expected at least 2")
    widest = max(names, key=lambda name: read[name].dim)
    chosen = names.index(pivot or widest)
    units = [_prepared(table.vectors, name) for name, table in read.items()]
    keys, places = union_of(list(read.values()))
    turned, rounds = _rotated(units, places, names, chosen, towards)
    total = np.zeros((len(keys), turned[0].shape[1]))
    parts = np.zeros(len(keys), np.int64)
    supplied, lacking = {}, {}
    for i, name in enumerate(names):
        has = places[i] >= 0
        total[has] += turned[i][places[i][has]]
        parts[has] += 1
        gap = np.flatnonzero(~has)
        found = np.zeros(len(gap), bool)
        if missing == "neighbours" and len(gap):
            rows, found = _from_neighbours(turned, places, i, gap, neighbours)
            total[gap[found]] += rows[found]
            parts[gap[found]] += 1
        supplied[name], lacking[name] = int(found.sum()), int((~found).sum())
    mean = total / parts[:, None]
    return MetaTable(KeyedTable(keys, _unit(mean)), supplied, lacking, names[chosen], rounds)


def _prepared(vectors: Any, name: str) -> Floats:
    """Unit rows, about their mean, unit rows again."""
    rows = np.asarray(vectors, np.float64)
    zero = np.flatnonzero(~rows.any(1))
    if len(zero):
        raise GramianError(f"table {name!r}: row {zero[0]} is all zero; leave it out")
    rows = _unit(rows)
    rows = rows - rows.mean(0)
    rows = rows - rows.mean(0)
    if np.linalg.norm(rows, axis=1).max() < 1e-12:
        raise GramianError(f"table {name!r}: the rows are all equal up to their length")
    return _unit(rows)


def _unit(rows: Floats) -> Floats:
    """Rows of length 1; rows of zeros stay zero."""
    top = np.abs(rows).max(axis=1, keepdims=True)
    rows = rows / np.where(top > 0, top, 1.0)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1.0)


def _rotated(
    units: list[Floats], places: Places, names: list[str], pivot: int, towards: str
) -> tuple[list[Floats], int]:
    """All tables in one space of the width of the widest, and the rounds that it took."""
    pairs = {}
    for a in range(len(units)):
        for b in range(a):
            if towards == "pivot" and pivot not in (a, b):
                continue
            both = (places[a] >= 0) & (places[b] >= 0)
            if both.any():
                pairs[b, a] = joint_of(units[b], places[b][both], units[a], places[a][both])
    joined = {table for pair in pairs for table in pair}
    for number, name in enumerate(names):
        if number not in joined:
            whom = f"the pivot {names[pivot]!r}" if towards == "pivot" else "any other"
            raise GramianError(f"table {name!r} has no key in common with {whom}")
    space = generalised_procrustes(pairs, pivot=pivot, intercept=False)
    weights = [map.to_dense().numpy() for map in space.maps]
    turned = [rows @ weight.T for rows, weight in zip(units, weights, strict=True)]
    return turned, 0 if towards == "pivot" else space.rounds


def _from_neighbours(
    turned: list[Floats], places: Places, lacking: int, gap: Places, most: int
) -> tuple[Floats, NDArray[np.bool_]]:
    """Vectors in table ``lacking`` for the keys ``gap``, and which of them could be made."""
    own = turned[lacking]
    made = np.zeros((len(gap), own.shape[1]))
    best = np.full(len(gap), -np.inf)
    for j, other in enumerate(turned):
        if j == lacking:
            continue
        common = np.flatnonzero((places[j] >= 0) & (places[lacking] >= 0))
        known = np.flatnonzero(places[j][gap] >= 0)
        if len(common) < 2 or not len(known):
            continue
        theirs, ours = other[places[j][common]], own[places[lacking][common]]
        for first in range(0, len(known), BLOCK):
            some = known[first : first + BLOCK]
            words = other[places[j][gap[some]]]
            rows, cosine = _carried_over(words, theirs, ours, min(most, len(common)))
            better = cosine > best[some]
            made[some[better]], best[some[better]] = rows[better], cosine[better]
    return made, np.isfinite(best)


def _carried_over(words: Floats, theirs: Floats, ours: Floats, most: int) -> tuple[Floats, Floats]:
    """For every word (n, d), the row in our table and the cosine that its recipe reaches."""
    near, score = top_k(words, theirs, most)
    weight = score.astype(np.float64) + 1.0
    n, d = words.shape
    total, running = np.zeros((n, d)), np.zeros((n, ours.shape[1]))
    best, rows = np.full(n, -np.inf), np.zeros((n, ours.shape[1]))
    for place in range(most):
        share = weight[:, place, None]
        total += share * theirs[near[:, place]]
        running += share * ours[near[:, place]]
        if place == 0:
            continue
        # the length of a mean is of no matter to its cosine
        cosine = (_unit(total) * words).sum(1)
        better = cosine > best
        best[better], rows[better] = cosine[better], running[better]
    return _unit(rows), best
