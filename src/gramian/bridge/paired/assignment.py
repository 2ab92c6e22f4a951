"""Which fold a pair belongs to: decided by a hash of its id, or of the source row itself."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.errors import GramianError
from gramian.moments import FOLDS, Shares

Keys = NDArray[np.uint64]
HASHED = 4096
"""Rows that are hashed together."""


def keys_of(rows: NDArray[Any], ids: Sequence[Any] | None, seed: int) -> Keys:
    """One number per row, uniform over 64 bits: equal ids, or equal rows, have equal numbers.

    ids : (n,) of any kind that has a text; without them the float32 bits of the row are hashed.
    """
    if ids is not None:
        texts = (str(value).encode() for value in ids)
        salt = int(seed % 2**64).to_bytes(8, "little")
        hashed = (blake2b(text, digest_size=8, key=salt).digest() for text in texts)
        return np.frombuffer(b"".join(hashed), dtype="<u8").astype(np.uint64)
    # multiplications by odd numbers, summed modulo 2^32: exact, so the order of sums is nothing
    places = np.arange(rows.shape[1], dtype=np.uint64) + np.uint64(seed % 2**32)
    odd = (_mixed(places) | np.uint64(1)).astype(np.uint32)
    sums = np.empty(len(rows), np.uint32)
    for start in range(0, len(rows), HASHED):
        part = slice(start, start + HASHED)
        words = np.ascontiguousarray(rows[part], dtype=np.float32).view(np.uint32)
        np.einsum("ij,j->i", words, odd, out=sums[part])
    return _mixed(sums.astype(np.uint64))


def folds_of(keys: Keys, shares: Shares) -> NDArray[np.int8]:
    """The fold of every key: 0 train, 1 select, 2 report."""
    place = places_of(keys)
    edges = np.cumsum([getattr(shares, fold) for fold in FOLDS])[:-1]
    return np.searchsorted(edges, place, side="right").astype(np.int8)


def places_of(keys: Keys) -> NDArray[np.float64]:
    """A number in [0, 1) per key, from its upper 53 bits."""
    return np.asarray((keys >> np.uint64(11)) * 2.0**-53, np.float64)


def second_places_of(keys: Keys) -> NDArray[np.float64]:
    """Another number in [0, 1) per key, which says nothing of the first."""
    return places_of(_mixed(keys))


def check_ids(ids: Any, count: int) -> list[Any]:
    """The ids as a list.

    Raises
    ------
    GramianError : not one per row, an id that is missing (None or nan), or one that comes twice.
    """
    listed = list(ids)
    if len(listed) != count:
        raise GramianError(f"{len(listed)} ids for {count} pairs, expected one for each")
    seen: dict[str, int] = {}
    for row, value in enumerate(listed):
        text = str(value)
        if value is None or value != value or not text:
            raise GramianError(f"row {row} has no id ({value!r}); give every pair one")
        if text in seen:
            raise GramianError(
                f"id {text!r} comes twice, in rows {seen[text]} and {row}; keep one of them"
            )
        seen[text] = row
    return listed


def _mixed(values: Keys) -> Keys:
    """SplitMix64's finaliser: every bit of the result depends on every bit of the value."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
