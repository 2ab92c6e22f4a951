"""Vectors by key, from several models that do not know the same keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.rows import as_matrix
from gramian.errors import GramianError

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class KeyedTable:
    """One vector for every key.

    Raises
    ------
    GramianError : as many keys as vectors are not there, a key comes twice, or NaN in a row.
    """

    keys: tuple[Hashable, ...]
    """Words, ids or whatever else tells items apart."""
    vectors: NDArray[Any]
    """(n, d)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", tuple(self.keys))
        object.__setattr__(self, "vectors", as_matrix(self.vectors, "vectors"))
        if len(self.keys) != len(self.vectors):
            raise GramianError(f"{len(self.keys)} keys for {len(self.vectors)} vectors")
        if len(self.places) != len(self.keys):
            twice = next(key for key, n in Counter(self.keys).items() if n > 1)
            raise GramianError(f"key {twice!r} comes twice; keep one vector of it")

    @property
    def dim(self) -> int:
        """Width of a vector."""
        return int(self.vectors.shape[1])

    @cached_property
    def places(self) -> dict[Hashable, int]:
        """The row of every key."""
        return {key: place for place, key in enumerate(self.keys)}

    def __len__(self) -> int:
        return len(self.keys)


def as_tables(tables: Mapping[str, Any]) -> dict[str, KeyedTable]:
    """Named tables from `KeyedTable`, from pairs (keys, vectors), or from mappings of key to row.

    Raises
    ------
    GramianError : fewer than two tables, one without rows, or what `KeyedTable` raises.
    """
    found = {}
    for name, given in tables.items():
        try:
            if isinstance(given, Mapping):
                given = (list(given), list(given.values()))
            table = given if isinstance(given, KeyedTable) else KeyedTable(*given)
        except GramianError as error:
            raise GramianError(f"table {name!r}: {error}") from error
        except TypeError as error:
            raise GramianError(
                f"table {name!r} is a {type(given).__name__}, expected keys and vectors"
            ) from error
        if not len(table):
            raise GramianError(f"table {name!r} is empty")
        found[name] = table
    if len(found) < 2:
        raise GramianError(f"{len(found)} tables, expected at least two")
    return found


def union_of(tables: Sequence[KeyedTable]) -> tuple[tuple[Hashable, ...], Places]:
    """All keys in order of first appearance, and per table the row of each; -1 where missing.

    Returns keys and (tables, keys) int64.
    """
    keys = tuple(dict.fromkeys(key for table in tables for key in table.keys))
    rows = np.full((len(tables), len(keys)), -1, np.int64)
    for number, table in enumerate(tables):
        rows[number] = [table.places.get(key, -1) for key in keys]
    return keys, rows
