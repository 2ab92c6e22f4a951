"""LanceDB: tables, new columns, what is never replaced, a store that goes away."""

from __future__ import annotations

import shutil

import numpy as np
import pyarrow as pa
import pytest

from gramian.bridge.vectors import VectorBatch, open_sink, open_vectors
from gramian.errors import GramianError

lancedb = pytest.importorskip("lancedb")

N, D = 30, 4
ROWS = np.random.default_rng(0).standard_normal((N, D)).astype(np.float32)
IDS = [f"doc {i}'s" for i in range(N)]


def table_of(ids, column="emb", rows=ROWS, **more):
    flat = pa.array(rows[: len(ids)].reshape(-1))
    return pa.table({"id": ids, column: pa.FixedSizeListArray.from_arrays(flat, D), **more})


@pytest.fixture
def docs(tmp_path):
    """A table that something else wrote, in two pieces and with a row taken out."""
    base = lancedb.connect(str(tmp_path / "base"))
    table = base.create_table("docs", table_of(IDS[:20], body=["t"] * 20))
    table.add(table_of(IDS[20:], rows=ROWS[20:], body=["t"] * 10))
    table.delete("id = 'doc 3''s'")
    return f"lancedb:{tmp_path}/base/docs"


def carry(source, sink, *, upto=None):
    for batch in source.batches(7, sink.done):
        if upto is not None and batch.start >= upto:
            return
        sink.write(VectorBatch(batch.ids, batch.vectors @ np.ones((D, 2), "f4"), None, batch.start))
    sink.finish({"model": "m"})


class TestNewColumn:
    def test_of_the_table_the_rows_come_from(self, docs):
        source = open_vectors(docs)
        before = {id for batch in source.batches() for id in batch.ids}
        carry(source, open_sink(f"{docs}#new", dim=2, like=source))
        found = open_vectors(f"{docs}#new")
        assert found.stamp == {"model": "m"}
        assert {id for batch in found.batches() for id in batch.ids} == before
        old = open_vectors(f"{docs}#emb")
        np.testing.assert_allclose(
            found.take(IDS[5:9]).vectors, old.take(IDS[5:9]).vectors @ np.ones((D, 2)), rtol=1e-5
        )
        folder, name = docs.removeprefix("lancedb:").rsplit("/", 1)
        base = lancedb.connect(folder)
        assert base.list_tables().tables == ["docs"]
        assert base.open_table(name).schema.names == ["id", "emb", "body", "new"]

    @pytest.mark.parametrize("moment", ["writing", "add_columns", "merge_insert", "drop_table"])
    def test_a_run_that_dies_goes_on(self, docs, moment, monkeypatch):
        class Killed(BaseException):
            pass

        def die(*_, **__):
            raise Killed

        source = open_vectors(docs)
        options = {"dim": 2, "like": source, "purpose": {"bridge": "b"}}
        sink = open_sink(f"{docs}#new", **options)
        if moment == "writing":
            carry(source, sink, upto=14)
            assert "new" not in open_vectors(docs)._table.schema.names
        else:
            where = sink._database if moment == "drop_table" else sink._beside
            monkeypatch.setattr(type(where), moment, die)
            with pytest.raises(Killed):
                carry(source, sink)
            monkeypatch.undo()
        if moment == "drop_table":  # all but the table beside is done
            with pytest.raises(GramianError, match="the column exists"):
                open_sink(f"{docs}#new", **options)
        else:
            with pytest.raises(GramianError, match="another result"):
                open_sink(f"{docs}#new", dim=2, like=source, purpose={"bridge": "c"})
        again = open_sink(f"{docs}#new", **options, force=moment == "drop_table")
        assert again.done == (14 if moment == "writing" else N - 1)
        carry(source, again)
        found = open_vectors(f"{docs}#new")
        np.testing.assert_allclose(
            found.take(IDS[4:]).vectors, ROWS[4:] @ np.ones((D, 2)), rtol=1e-5, atol=1e-6
        )

    def test_only_what_was_written_is_replaced(self, docs):
        source = open_vectors(docs)
        carry(source, open_sink(f"{docs}#new", dim=2, like=source))
        for force in (False, True):
            with pytest.raises(GramianError, match="never written to"):
                open_sink(f"{docs}#emb", dim=2, like=source, force=force)
            with pytest.raises(GramianError, match="not written by Gramian"):
                open_sink(f"{docs}#emb", dim=2, force=force)
            with pytest.raises(GramianError, match="the table exists"):
                open_sink(docs, dim=2, force=force)
            with pytest.raises(GramianError, match="never written to"):
                open_sink(f"{docs}#new", dim=2, like=open_vectors(f"{docs}#new"), force=force)
        carry(source, open_sink(f"{docs}#new", dim=2, like=source, force=True))
        assert open_vectors(f"{docs}#new").count == N - 1

    def test_a_table_with_the_source_in_it_is_kept(self, tmp_path):
        address = f"lancedb:{tmp_path}/base/made"
        sink = open_sink(address, dim=D)
        sink.write(VectorBatch(IDS, ROWS))
        sink.finish({})
        carry(open_vectors(address), open_sink(f"{address}#new", dim=2))
        source = open_vectors(f"{address}#new")
        with pytest.raises(GramianError, match="also holds the source"):
            open_sink(address, dim=D, like=source, force=True)

    def test_rows_of_another_table(self, docs, tmp_path):
        np.save(tmp_path / "x.npy", ROWS)
        other = open_vectors(str(tmp_path / "x.npy"))
        with pytest.raises(GramianError, match=r"29 rows and .* 30"):
            open_sink(f"{docs}#new", dim=2, like=other)
        sink = open_sink(f"{docs}#new", dim=2)
        with pytest.raises(GramianError, match="0 rows of the first 2 ids"):
            sink.write(VectorBatch(["x", "y"], ROWS[:2, :2]))
        sink.write(VectorBatch(IDS[4:6], ROWS[:2, :2]))
        with pytest.raises(GramianError, match="has 29 rows, 2 are written"):
            sink.finish({})

    def test_ids_that_are_integers(self, tmp_path):
        base = lancedb.connect(str(tmp_path / "base"))
        base.create_table("docs", table_of(list(range(N))))
        address = f"lancedb:{tmp_path}/base/docs"
        source = open_vectors(address)
        carry(source, open_sink(f"{address}#new", dim=2, like=source))
        np.testing.assert_allclose(
            open_vectors(f"{address}#new").take(["17"]).vectors,
            ROWS[[17]] @ np.ones((D, 2)),
            rtol=1e-5,
        )
        with pytest.raises(GramianError, match="not all integers"):
            source.take(["a"])


def test_a_part_of_another_width_is_refused(tmp_path):
    address = f"lancedb:{tmp_path}/base/out"
    open_sink(address, dim=D).write(VectorBatch(IDS, ROWS))
    with pytest.raises(GramianError, match="another result"):
        open_sink(address, dim=2)
    with pytest.raises(GramianError, match="another result"):
        open_sink(address, dim=D, dtype="float16")


def test_texts_that_some_batches_lack(tmp_path):
    for name, texts in (("late", (None, ["b"])), ("early", (["a"], None))):
        address = f"lancedb:{tmp_path}/base/{name}"
        sink = open_sink(address, dim=D)
        for place, text in enumerate(texts):
            sink.write(VectorBatch([f"d{place}"], ROWS[place : place + 1], text, place))
        sink.finish({})
        read = [batch.texts for batch in open_vectors(address).batches(1)]
        assert read == list(texts)


def test_repeated_ids_are_named(tmp_path):
    base = lancedb.connect(str(tmp_path / "base"))
    base.create_table("docs", table_of([*IDS[:-1], IDS[2]]))
    source = open_vectors(f"lancedb:{tmp_path}/base/docs")
    for size in (4, 100):
        with pytest.raises(GramianError, match=r"comes twice, in rows 2 and 29"):
            list(source.batches(size))


def test_search_takes_the_metric_of_the_index(tmp_path):
    many = np.random.default_rng(1).standard_normal((300, D)).astype(np.float32)
    base = lancedb.connect(str(tmp_path / "base"))
    table = base.create_table("docs", table_of([str(i) for i in range(300)], rows=many))
    address = f"lancedb:{tmp_path}/base/docs"
    assert open_vectors(address).metric == "cosine"
    table.create_index("emb", config=lancedb.index.IvfFlat(distance_type="l2", num_partitions=1))
    source = open_vectors(address)
    assert source.metric == "l2"
    ids, scores = source.search(many[:2] * 1.5, 3)
    far = -((many[:2, None] * 1.5 - many) ** 2).sum(2)
    assert ids == [[str(i) for i in row] for row in np.argsort(-far, 1)[:, :3]]
    np.testing.assert_allclose(scores, np.sort(far, 1)[:, ::-1][:, :3], rtol=1e-4)


def test_a_store_that_is_away_or_goes_away(docs, tmp_path):
    with pytest.raises(GramianError, match="no such folder"):
        open_vectors(f"lancedb:{tmp_path}/nowhere/docs")
    assert not (tmp_path / "nowhere").exists()
    source = open_vectors(docs)
    sink = open_sink(f"lancedb:{tmp_path}/other/out", dim=D)
    sink.write(VectorBatch(IDS[:5], ROWS[:5]))
    batches = source.batches(5)
    shutil.rmtree(tmp_path / "base")
    with pytest.raises(GramianError, match="does not answer"):
        list(batches)
    with pytest.raises(GramianError, match="does not answer"):
        source.take(IDS[:1])
    shutil.rmtree(tmp_path / "other")
    (tmp_path / "other").write_text("no folder")
    with pytest.raises(GramianError, match="does not answer"):
        sink.write(VectorBatch(IDS[5:], ROWS[5:], None, 5))
