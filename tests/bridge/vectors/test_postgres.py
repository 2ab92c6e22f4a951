"""PostgreSQL: new columns, what is never replaced, hostile names, lost connections."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.bridge.vectors import VectorBatch, open_sink, open_vectors
from gramian.bridge.vectors.address import Address
from gramian.bridge.vectors.postgres_server import shown
from gramian.errors import GramianError

psycopg = pytest.importorskip("psycopg")

N, D = 30, 4
ROWS = np.random.default_rng(0).standard_normal((N, D)).astype(np.float32)
TWO = np.ones((D, 2), "f4")


@pytest.fixture
def connection(server):
    from pgvector.psycopg import register_vector

    with psycopg.connect(server[1], autocommit=True) as found:
        register_vector(found)
        yield found


@pytest.fixture
def docs(server, connection):
    """A table that something else wrote, with integers as ids."""
    connection.execute("DROP TABLE IF EXISTS docs")
    connection.execute(f"CREATE TABLE docs (key bigint PRIMARY KEY, emb vector({D}))")
    with connection.cursor() as cursor:
        # in no order of ids
        values = [(7 * i % N, ROWS[7 * i % N]) for i in range(N)]
        cursor.executemany("INSERT INTO docs VALUES (%s, %s)", values)
    return f"{server[1]}#docs"


def source_of(docs, column="emb"):
    return open_vectors(f"{docs}.{column}", id_field="key")


def carry(source, sink, *, upto=None):
    for batch in source.batches(7, sink.done):
        if upto is not None and batch.start >= upto:
            return
        sink.write(VectorBatch(batch.ids, batch.vectors @ TWO, None, batch.start))
    sink.finish({"model": "m"})


class TestNewColumn:
    def test_of_the_table_the_rows_come_from(self, docs, connection):
        source = source_of(docs)
        carry(source, open_sink(f"{docs}.new", dim=2, like=source))
        found = source_of(docs, "new")
        assert found.stamp == {"model": "m"}
        ids = [id for batch in found.batches(11) for id in batch.ids]
        assert ids == [str(i) for i in range(N)]
        np.testing.assert_allclose(found.take(ids).vectors, ROWS @ TWO, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(source_of(docs).take(ids).vectors, ROWS)
        names = connection.execute("SELECT * FROM docs LIMIT 0").description
        assert [column.name for column in names] == ["key", "emb", "new"]

    def test_a_lost_connection_goes_on(self, docs, connection):
        source = source_of(docs)
        options = {"dim": 2, "like": source, "purpose": {"bridge": "b"}}
        sink = open_sink(f"{docs}.new", **options)
        carry(source, sink, upto=14)
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND datname = current_database()"
        )
        with pytest.raises(GramianError, match="the same command goes on"):
            sink.write(VectorBatch(["14"], ROWS[:1, :2], None, 14))
        with pytest.raises(GramianError, match="the same command goes on"):
            _ = source.stamp
        written = connection.execute("SELECT count(new) FROM docs").fetchone()[0]
        source = options["like"] = source_of(docs)
        with pytest.raises(GramianError, match="another result"):
            open_sink(f"{docs}.new", dim=2, like=source, purpose={"bridge": "c"})
        again = open_sink(f"{docs}.new", **options)
        assert again.done == written == 14
        carry(source, again)
        ids = [str(i) for i in range(N)]
        np.testing.assert_allclose(
            source_of(docs, "new").take(ids).vectors, ROWS @ TWO, rtol=1e-5, atol=1e-6
        )

    def test_only_what_was_written_is_replaced(self, docs, server):
        source = source_of(docs)
        carry(source, open_sink(f"{docs}.new", dim=2, like=source))
        # the same server by another name, which only the server can tell
        other = server[1] + "&application_name=x" if "?" in server[1] else server[1] + "?"
        for force in (False, True):
            for base in (docs, f"{other}#docs", docs.replace("postgresql:", "postgres:")):
                with pytest.raises(GramianError, match="never written to"):
                    open_sink(f"{base}.emb", dim=2, like=source, force=force)
            for address in (f"{docs}.emb", f"{docs}.key"):
                with pytest.raises(GramianError, match="not written by Gramian"):
                    open_sink(address, dim=2, force=force)
        with pytest.raises(GramianError, match="the column exists"):
            open_sink(f"{docs}.new", dim=2, like=source)
        carry(source, open_sink(f"{docs}.new", dim=2, like=source, force=True))
        assert source_of(docs, "new").count == N
        np.testing.assert_array_equal(source_of(docs).take(["3"]).vectors, ROWS[[3]])

    def test_a_table_with_the_source_in_it_is_kept(self, server, connection):
        connection.execute("DROP TABLE IF EXISTS made")
        made = f"{server[1]}#made"
        sink = open_sink(f"{made}.v", dim=D)
        sink.write(VectorBatch([str(i) for i in range(N)], ROWS))
        sink.finish({})
        carry(open_vectors(f"{made}.v"), open_sink(f"{made}.new", dim=2))
        source = open_vectors(f"{made}.new")
        with pytest.raises(GramianError, match="also holds the source"):
            open_sink(f"{made}.v", dim=D, like=source, force=True)
        assert open_vectors(f"{made}.v").count == N

    def test_rows_of_another_table(self, docs, connection, tmp_path):
        np.save(tmp_path / "x.npy", ROWS[:9])
        other = open_vectors(str(tmp_path / "x.npy"))
        with pytest.raises(GramianError, match="no column 'id' of ids"):
            open_sink(f"{docs}.new", dim=2, like=other)
        connection.execute("ALTER TABLE docs RENAME COLUMN key TO id")
        with pytest.raises(GramianError, match=r"30 rows and .* 9"):
            open_sink(f"{docs}.new", dim=2, like=other)
        assert "new" not in str(connection.execute("SELECT * FROM docs LIMIT 0").description)
        sink = open_sink(f"{docs}.new", dim=2)
        with pytest.raises(GramianError, match="1 rows of the table have the 2 ids"):
            sink.write(VectorBatch(["1", "77"], ROWS[:2, :2]))
        with pytest.raises(GramianError, match="refuses"):
            sink.write(VectorBatch(["a"], ROWS[:1, :2]))
        sink.write(VectorBatch(["1", "2"], ROWS[:2, :2]))
        with pytest.raises(GramianError, match="28 rows of the table"):
            sink.finish({})

    def test_a_locked_table_is_not_waited_for(self, docs, server, monkeypatch):
        monkeypatch.setattr("gramian.bridge.vectors.postgres_sink.WAIT", "50ms")
        with psycopg.connect(server[1]) as other:
            other.execute("SELECT 1 FROM docs")
            with pytest.raises(GramianError, match="lock timeout"):
                open_sink(f"{docs}.new", dim=2, like=source_of(docs))


def test_hostile_names(server, connection):
    connection.execute('DROP SCHEMA IF EXISTS "Odd ""schema" CASCADE')
    connection.execute('CREATE SCHEMA "Odd ""schema"')
    for name in ('x"; DROP TABLE docs; --', "{table}", "%s", "SELECT"):
        address = f'{server[1]}#Odd "schema.{name}.{name} v'
        sink = open_sink(address, dim=D)
        sink.write(VectorBatch(["'; --", "%s"], ROWS[:2]))
        sink.finish({"model": "'; --"})
        source = open_vectors(address)
        assert source.stamp == {"model": "'; --"}
        np.testing.assert_array_equal(source.take(["%s", "'; --"]).vectors, ROWS[[1, 0]])
        assert source.search(ROWS[:1], 1)[0] == [["'; --"]]


def test_search_takes_the_metric_of_the_index(docs, connection):
    for name, metric, far in (
        ("l2", "l2", -((ROWS[:2, None] - ROWS) ** 2).sum(2)),
        ("ip", "dot", ROWS[:2] @ ROWS.T),
    ):
        connection.execute(f"CREATE INDEX by_{name} ON docs USING hnsw (emb vector_{name}_ops)")
        source = source_of(docs)
        assert source.metric == metric
        ids, scores = source.search(ROWS[:2], 3)
        assert ids == [[str(i) for i in row] for row in np.argsort(-far, 1)[:, :3]]
        np.testing.assert_allclose(scores, np.sort(far, 1)[:, ::-1][:, :3], rtol=1e-5, atol=1e-6)
        connection.execute(f"DROP INDEX by_{name}")


def test_questions_while_rows_are_read(docs):
    source = source_of(docs)
    batches = source.batches(10)
    first = next(batches)
    assert source.take(first.ids[:1]).ids == first.ids[:1]
    assert source.stamp == {}
    assert sum(len(batch) for batch in batches) == N - 10


def test_a_server_that_goes_away_while_rows_are_read(docs, connection):
    batches = source_of(docs).batches(10)
    next(batches)
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
        "AND datname = current_database()"
    )
    with pytest.raises(GramianError, match="does not answer"):
        list(batches)


def test_passwords_are_not_shown():
    for text in (
        "postgresql://me:secret@host:1/db#t.v",
        "postgresql://host/db?user=me&password=secret&host=/tmp#t.v",
    ):
        found = shown(Address.parse(text))
        assert "secret" not in found
        assert found.endswith("#t.v")
    with pytest.raises(GramianError, match="no such port"):
        Address.parse("postgresql://host:http/db#t.v")
