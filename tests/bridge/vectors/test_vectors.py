"""Vectors in files and stores: read in order, taken by id, written anew, taken up after a kill."""

from __future__ import annotations

import json
import os
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gramian.bridge.vectors import Address, VectorBatch, VectorSource, open_sink, open_vectors
from gramian.errors import GramianError

N, D = 25, 6


@pytest.fixture
def rows():
    return np.random.default_rng(0).standard_normal((N, D)).astype(np.float32)


IDS = [f"doc {i}'s" for i in range(N)]
TEXTS = [f"text number {i}" for i in range(N)]
PLACES = {
    "npy": "out.npy",
    "parquet": "out.parquet",
    "jsonl": "out.jsonl",
    "lancedb": "lancedb:{}/base/docs#vector",
}


def place(kind: str, folder) -> str:
    text = PLACES[kind]
    return text.format(folder) if ":" in text else str(folder / text)


def write(address: str, rows, *, upto: int = N, start: int = 0, size: int = 10, **options):
    sink = open_sink(address, dim=D, **options)
    for first in range(start, upto, size):
        part = slice(first, min(first + size, upto))
        sink.write(VectorBatch(IDS[part], rows[part], TEXTS[part], first))
    return sink


@pytest.mark.parametrize("kind", PLACES)
class TestEveryPlace:
    def test_what_is_written_is_read(self, kind, tmp_path, rows):
        address = place(kind, tmp_path)
        write(address, rows).finish({"model": "m", "prefix": "query: "})
        source = open_vectors(address)
        assert isinstance(source, VectorSource)
        assert (source.dim, source.dtype) == (D, "float32")
        assert source.count in (N, None)
        assert source.stamp == {"model": "m", "prefix": "query: "}
        batches = list(source.batches(7))
        assert max(len(batch) for batch in batches) <= 7
        starts = np.cumsum([0, *(len(batch) for batch in batches)])
        assert [batch.start for batch in batches] == starts[:-1].tolist()
        np.testing.assert_array_equal(np.concatenate([b.vectors for b in batches]), rows)
        assert [id for batch in batches for id in batch.ids] == IDS
        if kind != "npy":
            assert [text for batch in batches for text in batch.texts] == TEXTS

    def test_from_any_row_on(self, kind, tmp_path, rows):
        address = place(kind, tmp_path)
        write(address, rows).finish({})
        for start in (0, 9, 10, 24, 25):
            left = list(open_vectors(address).batches(4, start))
            assert [id for batch in left for id in batch.ids] == IDS[start:]
            if left:
                assert left[0].start == start

    def test_rows_by_id(self, kind, tmp_path, rows):
        address = place(kind, tmp_path)
        write(address, rows).finish({})
        source = open_vectors(address)
        found = source.take([IDS[20], IDS[3]])
        np.testing.assert_array_equal(found.vectors, rows[[20, 3]])
        with pytest.raises(GramianError, match=r"1 of 2 ids are not in .*'nobody'"):
            source.take([IDS[0], "nobody"])

    def test_a_killed_run_goes_on(self, kind, tmp_path, rows):
        address = place(kind, tmp_path)
        write(address, rows, upto=20, purpose={"bridge": "b"})
        again = open_sink(address, dim=D, purpose={"bridge": "b"})
        assert again.done == 20
        write(address, rows, start=20, purpose={"bridge": "b"}).finish({"model": "m"})
        left = list(open_vectors(address).batches())
        np.testing.assert_array_equal(np.concatenate([b.vectors for b in left]), rows)
        assert not list(tmp_path.glob("*.partial"))

    def test_part_of_something_else_is_refused(self, kind, tmp_path, rows):
        address = place(kind, tmp_path)
        write(address, rows, upto=20, purpose={"bridge": "b"})
        with pytest.raises(GramianError, match="--force"):
            open_sink(address, dim=D, purpose={"bridge": "another"})
        assert open_sink(address, dim=D, purpose={"bridge": "another"}, force=True).done == 0

    def test_nothing_is_overwritten(self, kind, tmp_path, rows):
        address = place(kind, tmp_path)
        write(address, rows).finish({})
        with pytest.raises(GramianError, match="exists"):
            open_sink(address, dim=D)
        write(address, -rows, force=True).finish({})
        np.testing.assert_array_equal(next(open_vectors(address).batches()).vectors[0], -rows[0])

    def test_never_over_its_source(self, kind, tmp_path, rows):
        address = place(kind, tmp_path)
        write(address, rows).finish({})
        source = open_vectors(address)
        other = address.replace(str(tmp_path), f"{tmp_path}/../{tmp_path.name}")
        for spelled in (address, other):
            with pytest.raises(GramianError, match="never written to"):
                open_sink(spelled, dim=D, like=source, force=True)

    def test_half_precision(self, kind, tmp_path, rows):
        address = place(kind, tmp_path)
        sink = open_sink(address, dim=D, dtype="float16")
        sink.write(VectorBatch(IDS, rows, TEXTS))
        sink.finish({})
        source = open_vectors(address)
        assert source.dtype == ("float32" if kind == "jsonl" else "float16")
        read = next(source.batches()).vectors
        assert read.dtype == np.float32
        np.testing.assert_array_equal(read, rows.astype(np.float16))

    def test_a_gap_is_refused(self, kind, tmp_path, rows):
        sink = open_sink(place(kind, tmp_path), dim=D)
        with pytest.raises(GramianError, match="rows from 5 on, expected from 0"):
            sink.write(VectorBatch(IDS[5:], rows[5:], None, 5))


@pytest.mark.parametrize("kind, torn", [("npy", "rows"), ("npy", "ids"), ("jsonl", "lines")])
def test_what_was_torn_is_cut(kind, torn, tmp_path, rows):
    address = place(kind, tmp_path)
    write(address, rows, upto=20)
    folder = tmp_path / f"{PLACES[kind]}.partial"
    with (folder / torn).open("ab") as file:
        file.write(b"half a r")
    with (folder / "journal").open("ab") as file:
        file.write(b"2")
    sink = open_sink(address, dim=D)
    assert sink.done == 20
    sink.write(VectorBatch(IDS[20:], rows[20:], TEXTS[20:], 20))
    sink.finish({})
    read = list(open_vectors(address).batches())
    np.testing.assert_array_equal(np.concatenate([b.vectors for b in read]), rows)
    assert [id for batch in read for id in batch.ids] == IDS


class TestArrays:
    def test_plain_files(self, tmp_path, rows):
        np.save(tmp_path / "x.npy", rows.astype(np.float64))
        source = open_vectors(str(tmp_path / "x.npy"))
        assert next(source.batches(3, 4)).ids == ["4", "5", "6"]
        np.testing.assert_array_equal(source.take(["7"]).vectors, rows[[7]])
        with pytest.raises(GramianError, match="'007'"):
            source.take(["007"])
        np.savez(tmp_path / "x.npz", old=rows, new=-rows, ids=np.asarray(IDS))
        with pytest.raises(GramianError, match="arrays are old, new"):
            open_vectors(str(tmp_path / "x.npz"))
        found = open_vectors(f"{tmp_path}/x.npz#new")
        np.testing.assert_array_equal(found.take([IDS[2]]).vectors, -rows[[2]])

    def test_hostile_files(self, tmp_path, rows):
        np.save(tmp_path / "object.npy", np.asarray([{}], dtype=object), allow_pickle=True)
        np.save(tmp_path / "flat.npy", rows[0])
        np.save(tmp_path / "whole.npy", rows.astype(int))
        np.save(tmp_path / "none.npy", rows[:0])
        np.save(tmp_path / "cut.npy", rows)
        os.truncate(tmp_path / "cut.npy", 300)
        (tmp_path / "text.npy").write_text("no array")
        for name, message in {
            "object": "cannot be read",
            "flat": r"shape \(6,\), expected",
            "whole": "int64",
            "none": "no vectors",
            "cut": "cannot be read",
            "text": "cannot be read",
            "away": "no file",
        }.items():
            with pytest.raises(GramianError, match=message):
                open_vectors(str(tmp_path / f"{name}.npy"))

    def test_ids_beside(self, tmp_path, rows):
        np.save(tmp_path / "x.npy", rows)
        for ids, message in (
            (IDS[:-1], "24 ids for 25 vectors"),
            ([*IDS[:-1], IDS[0]], "comes twice, in rows 0 and 24"),
            ([*IDS[:-1], ""], "row 24 has no id"),
        ):
            (tmp_path / "x.ids.txt").write_text("\n".join([*ids]) + "\n")
            with pytest.raises(GramianError, match=message):
                next(open_vectors(str(tmp_path / "x.npy")).batches())

    def test_hostile_headers(self, tmp_path):
        shapes = ["(2**62, 2**62)", "(-1, 4)", "(10**30, 2)", "(1e9, 2)", "('a', 2)", "5", "(" * 50]
        shapes += ["(4611686018427387904, 4611686018427387904)", f"({10**30}, 2)", "(10**9, 10)"]
        shapes += ["(1000000000, 10)", "(True, 2)", "()", "(4,)", "None"]
        for shape in shapes:
            header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
            text = header.ljust(117).encode() + b"\n"
            raw = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64)
            (tmp_path / "x.npy").write_bytes(raw)
            with pytest.raises(GramianError, match=r"cannot be read|expected floating point"):
                open_vectors(str(tmp_path / "x.npy"))
            with zipfile.ZipFile(tmp_path / "x.npz", "w") as held:
                held.writestr("v.npy", raw)
            with pytest.raises(GramianError, match=r"cannot be read|expected floating point"):
                open_vectors(str(tmp_path / "x.npz"))
        with zipfile.ZipFile(tmp_path / "x.npz", "w") as held:
            held.writestr("v", b"no array")
        with pytest.raises(GramianError, match="no array"):
            open_vectors(str(tmp_path / "x.npz"))

    def test_ids_of_any_kind(self, tmp_path, rows):
        for ids, first in (
            (np.asarray(IDS).astype(bytes), IDS[0]),
            (np.arange(N)[:, None] + 7, "7"),
        ):
            np.savez(tmp_path / "x.npz", v=rows.astype(">f8"), ids=ids)
            source = open_vectors(str(tmp_path / "x.npz"))
            assert source.dtype == "float64"
            assert next(source.batches()).ids[0] == first
        np.savez(tmp_path / "x.npz", v=rows, ids=np.asarray(IDS, dtype=object))
        with pytest.raises(GramianError, match=r"ids of .* cannot be read"):
            next(open_vectors(str(tmp_path / "x.npz")).batches())
        np.save(tmp_path / "x.npy", rows)
        (tmp_path / "x.ids.txt").write_bytes(b"\xff\n")
        with pytest.raises(GramianError, match=r"ids of .* cannot be read"):
            next(open_vectors(str(tmp_path / "x.npy")).batches())


class TestLines:
    def check(self, tmp_path, records, message, **fields):
        path = tmp_path / "x.jsonl"
        path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in records))
        with pytest.raises(GramianError, match=message):
            list(open_vectors(str(path), **fields).batches())

    def test_the_line_is_named(self, tmp_path):
        good = {"id": "a", "vector": [1.0, 2.0]}
        self.check(tmp_path, [good, "{"], "line 2 is no JSON")
        self.check(tmp_path, [good, {"vector": [1, 2]}], "line 2 has no 'id'")
        self.check(tmp_path, [good, good], "id 'a' comes twice, in records 1 and 2")
        self.check(tmp_path, [good, {"id": "b", "vector": [1]}], "line 2: .* 1 numbers, expected 2")
        self.check(tmp_path, [good, '{"id": "b", "vector": [NaN, 1]}'], "line 2: .*NaN")
        self.check(tmp_path, [good, {"id": "b"}], "line 2 has no 'vector'")
        self.check(tmp_path, [{"id": "b", "vector": ["x"]}], "line 1: .*no list of numbers")
        for odd in ("[1.0]", [True, False], {"0": 1.0}, [[1.0, 2.0]], [None, 1.0], ["1", "2"]):
            self.check(tmp_path, [good, {"id": "b", "vector": odd}], "line 2: .*no list of numbers")
        for large in (1e39, 10**400):
            self.check(tmp_path, [good, {"id": "b", "vector": [large, 1]}], "line 2: .*range")
        for id in (["x"], True, 1.5):
            self.check(tmp_path, [good, {"id": id, "vector": [1, 2]}], "line 2: the id is")
        self.check(tmp_path, [good, "[" * 100_000], "line 2 is no JSON")
        (tmp_path / "x.jsonl").write_bytes(b'{"id": "a", "vector": [1]}\n{"id": "\xff"}\n')
        with pytest.raises(GramianError, match="line 2 is no JSON"):
            list(open_vectors(str(tmp_path / "x.jsonl")).batches())
        self.check(tmp_path, [], "no records")
        self.check(tmp_path, [good], "line 1 has no text 'body'", text_field="body")


class TestColumns:
    def table(self, tmp_path, **columns):
        pq.write_table(pa.table(columns), tmp_path / "x.parquet", row_group_size=10)
        return str(tmp_path / "x.parquet")

    def test_lists_of_any_kind(self, tmp_path, rows):
        lists = pa.array(rows.tolist(), pa.list_(pa.float64()))
        path = self.table(tmp_path, key=pa.array(range(N)), emb=lists)
        source = open_vectors(path, id_field="key")
        assert source.dtype == "float64"
        np.testing.assert_allclose(source.take(["12"]).vectors, rows[[12]], rtol=1e-6)

    def test_repeated_ids(self, tmp_path, rows):
        path = self.table(tmp_path, id=[*IDS[:-1], IDS[4]], v=rows.tolist())
        for size in (3, 5, 100):
            with pytest.raises(GramianError, match=r"comes twice, in rows 4 and 24"):
                list(open_vectors(path).batches(size))
        assert len(list(open_vectors(path).batches(5, 20))) == 1

    def test_ids_in_bytes(self, tmp_path, rows):
        path = self.table(tmp_path, id=[id.encode() for id in IDS], v=rows.tolist())
        assert next(open_vectors(path).batches(1)).ids == IDS[:1]

    def test_what_cannot_be_read(self, tmp_path, rows):
        unequal = pa.array([[1.0, 2.0], [1.0]], pa.list_(pa.float32()))
        with pytest.raises(GramianError, match="vector 1 behind it has 1 numbers, expected 2"):
            list(open_vectors(self.table(tmp_path, id=["a", "b"], v=unequal)).batches())
        missing = pa.array([[1.0, 2.0], None], pa.list_(pa.float32()))
        with pytest.raises(GramianError, match="1 vectors are missing"):
            list(open_vectors(self.table(tmp_path, id=["a", "b"], v=missing)).batches())
        path = self.table(tmp_path, id=["a"], a=[[1.0]], b=[[2.0]])
        with pytest.raises(GramianError, match="columns of vectors are a, b"):
            open_vectors(path)
        with pytest.raises(GramianError, match="no column 'body'"):
            open_vectors(f"{path}#a", text_field="body")
        (tmp_path / "x.parquet").write_text("no table")
        with pytest.raises(GramianError, match="no Parquet file"):
            open_vectors(path)


def test_lancedb_names_and_search(tmp_path, rows):
    address = place("lancedb", tmp_path)
    write(address, rows).finish({})
    source = open_vectors(address)
    ids, scores = source.search(rows[:3], 2)
    assert [found[0] for found in ids] == IDS[:3]
    np.testing.assert_allclose(scores[:, 0], 1.0, atol=1e-5)
    with pytest.raises(GramianError, match="no table 'other'"):
        open_vectors(f"lancedb:{tmp_path}/base/other")
    with pytest.raises(GramianError, match="columns of vectors are vector"):
        open_vectors(f"lancedb:{tmp_path}/base/docs#nothing")


def test_addresses():
    found = Address.parse("qdrant:http://host:6333/docs#title")
    assert (found.kind, found.table, found.part) == (
        "qdrant",
        ("http://host:6333", "docs"),
        "title",
    )
    for text in ("x.pkl", "x", "lancedb:", ""):
        with pytest.raises(GramianError, match=r"expected x\.npy"):
            Address.parse(text)
    with pytest.raises(GramianError, match="names no table"):
        _ = Address.parse("lancedb:folder").table
