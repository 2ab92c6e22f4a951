"""Whole sources, and what is known of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gramian.bridge.vectors import VectorBatch, describe, open_sink, open_vectors, read_all
from gramian.errors import GramianError

ROWS = np.random.default_rng(0).standard_normal((4100, 2)).astype(np.float16)
IDS = [str(i) for i in range(len(ROWS))]


@pytest.fixture(params=["npy", "jsonl", "parquet"])
def source(request, tmp_path):
    address = str(tmp_path / f"x.{request.param}")
    sink = open_sink(address, dim=2, dtype="float16")
    sink.write(VectorBatch(IDS, ROWS.astype(np.float32), [f"t{id}" for id in IDS]))
    sink.finish({"model": "m"})
    return open_vectors(address)


def test_all_and_the_first(source):
    for limit, rows in ((None, 4100), (1, 1), (4097, 4097), (9999, 4100)):
        found = read_all(source, limit)
        np.testing.assert_array_equal(found.vectors, ROWS[:rows])
        assert found.ids == IDS[:rows]
        if not source.address.endswith("npy"):
            assert found.texts == [f"t{id}" for id in IDS[:rows]]
    with pytest.raises(GramianError, match="at least 1"):
        read_all(source, 0)


def test_what_is_known(source):
    found = json.loads(json.dumps(describe(source)))
    assert found["address"] == source.address
    assert found["stamp"] == {"model": "m"}
    assert (found["dim"], found["metric"], found["lossy"]) == (2, None, False)
    lines = source.address.endswith("jsonl")
    assert found["dtype"] == ("float32" if lines else "float16")
    assert found["rows"] == (None if lines else 4100)


def test_an_index_of_approximations_says_so(tmp_path):
    faiss = pytest.importorskip("faiss")
    rows = np.random.default_rng(1).standard_normal((300, 8)).astype(np.float32)
    for kind, lossy in (("Flat", False), ("PQ4x4", True)):
        index = faiss.index_factory(8, kind)
        index.train(rows)
        index.add(rows)
        faiss.write_index(index, str(tmp_path / "x.faiss"))
        found = describe(open_vectors(str(tmp_path / "x.faiss")))
        assert (found["lossy"], found["metric"]) == (lossy, "l2")
