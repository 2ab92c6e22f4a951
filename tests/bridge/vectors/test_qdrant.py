"""Qdrant in a folder: batches kept in part, ids of other writers, what is never replaced."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.bridge.vectors import VectorBatch, open_sink, open_vectors
from gramian.errors import GramianError

pytest.importorskip("qdrant_client")
from qdrant_client import QdrantClient, models

N, D = 30, 4
ROWS = np.random.default_rng(0).standard_normal((N, D)).astype(np.float32)
UNIT = ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)
IDS = [f"d{i}" for i in range(N)]


@pytest.fixture
def docs(tmp_path):
    """A collection that something else wrote."""
    client = QdrantClient(path=str(tmp_path / "store"))
    params = models.VectorParams(size=D, distance=models.Distance.DOT)
    client.create_collection("docs", {"old": params})
    points = [
        models.PointStruct(
            id=100 + i, vector={"old": ROWS[i].tolist()}, payload={"id": IDS[i], "body": f"t{i}"}
        )
        for i in range(N)
    ]
    client.upsert("docs", points)
    client.close()
    return f"qdrant:{tmp_path}/store/docs"


def test_ids_and_texts_of_other_writers(docs):
    source = open_vectors(docs, text_field="body")
    assert (source.count, source.metric, source.stamp) == (N, "dot", {})
    batches = list(source.batches(7, 5))
    assert [id for batch in batches for id in batch.ids] == IDS[5:]
    found = source.take([IDS[20], IDS[3]])
    np.testing.assert_array_equal(found.vectors, ROWS[[20, 3]])
    assert found.texts == ["t20", "t3"]
    ids, scores = source.search(ROWS[:2], 3)
    order = np.argsort(-(ROWS[:2] @ ROWS.T), 1)[:, :3]
    assert ids == [[IDS[i] for i in row] for row in order]
    np.testing.assert_allclose(scores[:, 0], (ROWS[:2] @ ROWS.T).max(1), rtol=1e-5)
    source._client.close()
    points = open_vectors(docs, id_field="nothing")
    assert next(points.batches(2)).ids == ["100", "101"]


def test_only_what_was_written_is_replaced(docs):
    for force in (False, True):
        with pytest.raises(GramianError, match="not written by Gramian"):
            open_sink(docs, dim=D, force=force)
        source = open_vectors(docs)
        with pytest.raises(GramianError, match="never written to"):
            open_sink(f"{docs}#new", dim=D, like=source, force=force)
        source._client.close()
    source = open_vectors(docs)
    assert source.count == N
    # a server that goes by two names cannot be told but by what it says of itself
    assert source.is_collection("docs", {})
    assert not source.is_collection("docs", {"bridge": "b"})


@pytest.mark.parametrize("lost", [[12], [5, 9, 19], [0], []])
def test_points_that_a_store_lost(tmp_path, lost):
    address = f"qdrant:{tmp_path}/store/out"
    sink = open_sink(address, dim=D, purpose={"bridge": "b"})
    for first in (0, 10):
        sink.write(VectorBatch(IDS[first : first + 10], ROWS[first : first + 10], None, first))
    if lost:
        keep = models.FieldCondition(key="gramian_row", match=models.MatchAny(any=lost))
        sink._client.delete("out", models.Filter(must=[keep]))
    sink._client.close()
    if 0 in lost:  # with its first point a part has lost its mark
        with pytest.raises(GramianError, match="not written by Gramian"):
            open_sink(address, dim=D, purpose={"bridge": "b"})
        return
    again = open_sink(address, dim=D, purpose={"bridge": "b"})
    assert again.done == min(lost, default=20)
    again.write(VectorBatch(IDS[again.done :], ROWS[again.done :], None, again.done))
    again.finish({"model": "m"})
    source = open_vectors(address)
    assert (source.count, source.stamp) == (N, {"model": "m"})
    found = source.take(IDS).vectors  # which a server normalises and a folder does not
    np.testing.assert_allclose(
        found / np.linalg.norm(found, axis=1, keepdims=True), UNIT, atol=1e-6
    )


def test_a_run_that_was_killed_before_its_first_point(tmp_path):
    address = f"qdrant:{tmp_path}/store/out"
    sink = open_sink(address, dim=D)
    sink._client.create_collection("out", sink._params())
    sink._client.close()
    with pytest.raises(GramianError, match="not written by Gramian"):
        open_sink(address, dim=D + 1)
    again = open_sink(address, dim=D)
    again.write(VectorBatch(IDS, ROWS))
    again.finish({})
    assert open_vectors(address).count == N


def test_large_batches_are_sent_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("gramian.bridge.vectors.qdrant_sink.REQUEST", 2000)
    sink = open_sink(f"qdrant:{tmp_path}/store/out", dim=D)
    sizes = []
    upsert = sink._client.upsert

    def counted(name, points, **options):
        sizes.append(len(points))
        return upsert(name, points, **options)

    monkeypatch.setattr(sink._client, "upsert", counted)
    sink.write(VectorBatch(IDS, ROWS, ["word"] * N))
    assert len(sizes) > 3
    assert sum(sizes) == N
    sink.finish({})


def test_ids_that_come_twice(tmp_path):
    sink = open_sink(f"qdrant:{tmp_path}/store/out", dim=D)
    sink.write(VectorBatch(["a", "b"], ROWS[:2]))
    sink.write(VectorBatch(["a"], ROWS[:1], None, 2))
    with pytest.raises(GramianError, match="3 rows were written and 2 points"):
        sink.finish({})


def test_lengths_are_kept_where_the_source_keeps_them(docs, tmp_path):
    source = open_vectors(docs)
    address = f"qdrant:{tmp_path}/other/out"
    sink = open_sink(address, dim=D, like=source)
    for batch in source.batches():
        sink.write(batch)
    sink.finish({})
    found = open_vectors(address)
    assert found.metric == "dot"
    np.testing.assert_array_equal(found.take(IDS[:3]).vectors, ROWS[:3])


def test_many_vectors_for_one_point(tmp_path):
    client = QdrantClient(path=str(tmp_path / "store"))
    many = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    params = models.VectorParams(size=D, distance=models.Distance.DOT, multivector_config=many)
    client.create_collection("docs", params)
    client.close()
    with pytest.raises(GramianError, match="many vectors for one point"):
        open_vectors(f"qdrant:{tmp_path}/store/docs")


def test_distances_are_negative_scores(tmp_path):
    client = QdrantClient(path=str(tmp_path / "store"))
    params = models.VectorParams(size=D, distance=models.Distance.EUCLID)
    client.create_collection("docs", params)
    client.upsert("docs", [models.PointStruct(id=i, vector=ROWS[i].tolist()) for i in range(N)])
    client.close()
    source = open_vectors(f"qdrant:{tmp_path}/store/docs")
    assert source.metric == "l2"
    ids, scores = source.search(ROWS[:2], 3)
    far = np.linalg.norm(ROWS[:2, None] - ROWS, axis=2)
    assert ids == [[str(i) for i in row] for row in np.argsort(far, 1)[:, :3]]
    np.testing.assert_allclose(scores, -np.sort(far, 1)[:, :3], atol=1e-5)
