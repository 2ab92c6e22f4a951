"""Ids of a stream that must not come twice."""

from __future__ import annotations

import builtins

import numpy as np
import pytest

from gramian.bridge.vectors import VectorBatch
from gramian.bridge.vectors import ids as room
from gramian.errors import GramianError


def reader(ids):
    def read(size, start):
        for first in range(start, len(ids), size):
            part = list(ids[first : first + size])
            yield VectorBatch(part, np.zeros((len(part), 1), np.float32), None, first)

    return read


def test_every_pair_of_rows_in_batches_of_every_size():
    names = [f"d{i}" for i in range(12)]
    for size in (1, 2, 5, 12):
        for first in range(12):
            for second in range(first + 1, 12):
                ids = list(names)
                ids[second] = ids[first]
                with pytest.raises(GramianError, match=f"in rows {first} and {second};"):
                    list(room.distinct(reader(ids), "x", size, 0))
        assert sum(map(len, room.distinct(reader(names), "x", size, 3))) == 9


def test_ids_whose_bits_are_alike(monkeypatch):
    monkeypatch.setattr(room, "hash", lambda id: builtins.hash(id) % 5, raising=False)
    names = [f"d{i}" for i in range(40)]
    assert sum(map(len, room.distinct(reader(names), "x", 7, 0))) == 40
    with pytest.raises(GramianError, match="in rows 3 and 39;"):
        list(room.distinct(reader([*names[:-1], "d3"]), "x", 7, 0))
