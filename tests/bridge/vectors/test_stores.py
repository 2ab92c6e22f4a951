"""FAISS files, Qdrant in a folder, and a real PostgreSQL with pgvector, by one protocol."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.bridge.vectors import VectorBatch, VectorSource, open_sink, open_vectors
from gramian.errors import GramianError

N, D = 25, 6
TEXTS = [f"text number {i}" for i in range(N)]


@pytest.fixture
def rows():
    found = np.random.default_rng(0).standard_normal((N, D)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.fixture(params=["faiss", "qdrant", "qdrant#name", "postgresql"])
def place(request, tmp_path):
    match request.param:
        case "faiss":
            return f"{tmp_path}/out.faiss", [str(3 * i) for i in range(N)]
        case "qdrant":
            return f"qdrant:{tmp_path}/store/docs", [f"doc {i}'s" for i in range(N)]
        case "qdrant#name":
            return f"qdrant:{tmp_path}/store/docs#title", [str(i) for i in range(N)]
    _, uri = request.getfixturevalue("server")
    name = f'odd "{tmp_path.name}'
    return f"{uri}#{name}.vec tor", [f"doc {i}'s" for i in range(N)]


def write(place, rows, *, start=0, upto=N, size=10, **options):
    address, ids = place
    sink = open_sink(address, dim=D, **options)
    for first in range(start, upto, size):
        part = slice(first, min(first + size, upto))
        sink.write(VectorBatch(ids[part], rows[part], TEXTS[part], first))
    return sink


def close(sink):
    for name in ("_client", "_connection"):
        if hasattr(sink, name):
            getattr(sink, name).close()


def test_what_is_written_is_read(place, rows):
    address, ids = place
    write(place, rows).finish({"model": "m", "prefix": "query: "})
    source = open_vectors(address)
    assert isinstance(source, VectorSource)
    assert (source.dim, source.count, source.dtype) == (D, N, "float32")
    assert source.stamp == {"model": "m", "prefix": "query: "}
    batches = list(source.batches(7))
    assert [batch.start for batch in batches] == [0, 7, 14, 21]
    found = {id: v for batch in batches for id, v in zip(batch.ids, batch.vectors, strict=True)}
    assert set(found) == set(ids)
    np.testing.assert_allclose(np.stack([found[id] for id in ids]), rows, atol=1e-6)
    if "faiss" not in address:
        said = {id: t for batch in batches for id, t in zip(batch.ids, batch.texts, strict=True)}
        assert [said[id] for id in ids] == TEXTS
    for start in (9, 10, 24, 25):
        left = [id for batch in source.batches(4, start) for id in batch.ids]
        assert left == [id for batch in batches for id in batch.ids][start:]
    taken = source.take([ids[20], ids[3]])
    np.testing.assert_allclose(taken.vectors, rows[[20, 3]], atol=1e-6)
    with pytest.raises(GramianError, match="1 of 2 ids are not in"):
        source.take([ids[0], "77777"])
    near, scores = source.search(rows[:3], 2)
    assert [found[0] for found in near] == ids[:3]
    np.testing.assert_allclose(scores[:, 0], 1.0, atol=1e-5)
    close(source)


def test_a_killed_run_goes_on(place, rows):
    address, ids = place
    close(write(place, rows, upto=20, purpose={"bridge": "b"}))
    sink = open_sink(address, dim=D, purpose={"bridge": "b"})
    assert sink.done == 20
    sink.write(VectorBatch(ids[20:], rows[20:], TEXTS[20:], 20))
    sink.finish({"model": "m"})
    source = open_vectors(address)
    assert source.count == N
    np.testing.assert_allclose(source.take(ids).vectors, rows, atol=1e-6)
    close(source)


def test_part_of_something_else_is_refused(place, rows):
    address, _ = place
    close(write(place, rows, upto=20, purpose={"bridge": "b"}))
    with pytest.raises(GramianError, match="--force"):
        open_sink(address, dim=D, purpose={"bridge": "another"})


def test_nothing_is_overwritten(place, rows):
    address, ids = place
    write(place, rows).finish({"model": "m"})
    with pytest.raises(GramianError, match="exists"):
        open_sink(address, dim=D)
    sink = write(place, -rows, force=True)
    sink.finish({})
    source = open_vectors(address)
    np.testing.assert_allclose(source.take(ids[:1]).vectors, -rows[:1], atol=1e-6)
    close(source)


def test_faiss_indexes_of_other_kinds(tmp_path, rows):
    faiss = pytest.importorskip("faiss")
    many = np.random.default_rng(1).standard_normal((600, 8)).astype(np.float32)
    for name in ("IVF4,Flat", "HNSW8", "IVF4,PQ4x4"):
        index = faiss.index_factory(8, name)
        index.train(many)
        index.add(many)
        faiss.write_index(index, str(tmp_path / "x.faiss"))
        source = open_vectors(str(tmp_path / "x.faiss"))
        read = next(source.batches(600)).vectors
        exact = np.allclose(read, many, atol=1e-6)
        assert exact == (not source.lossy or name == "HNSW8")
    index = faiss.index_factory(8, "IVF4,Flat")
    index.train(many)
    index.add_with_ids(many, np.arange(600)[::-1] * 5 + 2)
    faiss.write_index(index, str(tmp_path / "x.faiss"))
    source = open_vectors(str(tmp_path / "x.faiss"))
    first = next(source.batches(3))
    assert first.ids == ["2", "7", "12"]
    np.testing.assert_array_equal(first.vectors, many[[599, 598, 597]])
    np.testing.assert_array_equal(source.take(["2997", "2"]).vectors, many[[0, 599]])
    (tmp_path / "x.faiss").write_bytes(b"no index")
    with pytest.raises(GramianError, match="no FAISS index"):
        open_vectors(str(tmp_path / "x.faiss"))
    sink = open_sink(str(tmp_path / "y.faiss"), dim=D)
    with pytest.raises(GramianError, match="integers as ids"):
        sink.write(VectorBatch([f"d{i}" for i in range(N)], rows))
    with pytest.raises(GramianError, match="id -1 is negative"):
        sink.write(VectorBatch(["-1"], rows[:1]))
    sink.write(VectorBatch(["3", "3"], rows[:2]))
    with pytest.raises(GramianError, match="ids come twice"):
        sink.finish({})


def test_stores_that_are_away(tmp_path):
    with pytest.raises(GramianError, match="does not answer"):
        open_vectors("qdrant:http://127.0.0.1:9/docs")
    with pytest.raises(GramianError, match="does not answer"):
        open_vectors("postgresql://postgres@127.0.0.1:9/none#docs")
    with pytest.raises(GramianError, match="no collection 'docs'"):
        open_vectors(f"qdrant:{tmp_path}/store/docs")


def test_a_store_that_goes_away_half_way(tmp_path, rows, monkeypatch):
    ids = [f"d{i}" for i in range(N)]
    place = f"qdrant:{tmp_path}/store/docs", ids
    sink = write(place, rows, upto=10, purpose={"bridge": "b"})

    def away(*_, **__):
        raise ConnectionError("connection reset by peer")

    monkeypatch.setattr(sink._client, "upsert", away)
    with pytest.raises(GramianError, match=r"does not answer.*the same command goes on"):
        sink.write(VectorBatch(ids[10:], rows[10:], None, 10))
    assert sink.done == 10
    monkeypatch.undo()
    close(sink)
    assert open_sink(place[0], dim=D, purpose={"bridge": "b"}).done == 10


def test_postgres_that_stops_half_way(server, rows):
    _, uri = server
    ids = [f"d{i}" for i in range(N)]
    sink = write((f"{uri}#stops.v", ids), rows, upto=10, purpose={"bridge": "b"})
    with pytest.raises(GramianError, match="refuses"):
        sink.write(VectorBatch([*ids[10:20], ids[0]], rows[:11], None, 10))  # an id comes twice
    assert sink.done == 10
    import psycopg

    with psycopg.connect(uri, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND datname = current_database()"
        )
    with pytest.raises(GramianError, match="the same command goes on"):
        sink.write(VectorBatch(ids[10:], rows[10:], None, 10))
    again = open_sink(f"{uri}#stops.v", dim=D, purpose={"bridge": "b"})
    assert again.done == 10
    again.write(VectorBatch(ids[10:], rows[10:], None, 10))
    again.finish({})
    source = open_vectors(f"{uri}#stops.v")
    np.testing.assert_allclose(source.take(ids).vectors, rows, atol=1e-6)
    with pytest.raises(GramianError, match="no table 'nothing'"):
        open_vectors(f"{uri}#nothing")
    with pytest.raises(GramianError, match="no column 'w'; the columns are"):
        open_vectors(f"{uri}#stops.w")
    close(source)


def test_limits_are_checked_before_anything_is_written(server):
    _, uri = server
    with pytest.raises(GramianError, match="at most 16,000 dimensions"):
        open_sink(f"{uri}#wide.v", dim=20_000)
    with pytest.raises(GramianError, match="no table"):
        open_vectors(f"{uri}#wide.v")


def test_half_precision(server, rows):
    _, uri = server
    ids = [f"d{i}" for i in range(N)]
    import psycopg

    with psycopg.connect(uri) as connection:
        known = connection.execute("SELECT to_regtype('halfvec')").fetchone()[0]
    if known is None:
        with pytest.raises(GramianError, match="no halfvec"):
            open_sink(f"{uri}#half.v", dim=D, dtype="float16")
        return
    write((f"{uri}#half.v", ids), rows, dtype="float16").finish({})
    source = open_vectors(f"{uri}#half.v")
    assert source.dtype == "float16"
    np.testing.assert_array_equal(source.take(ids).vectors, rows.astype(np.float16))
    close(source)


def test_no_password_in_messages():
    with pytest.raises(GramianError) as failure:
        open_vectors("postgresql://me:secret@127.0.0.1:9/db#")
    assert "secret" not in str(failure.value)
