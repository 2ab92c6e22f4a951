from __future__ import annotations

import hashlib
import json
import sys
import types
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gramian.data import Document, documents
from gramian.data.readers import MINIMUM_CHARACTERS, TextFile
from gramian.errors import GramianError

LINE = st.text(
    st.characters(exclude_characters="\0\n", exclude_categories=["Cs"]), max_size=40
).map(lambda line: line + "\n")
PIECE = st.one_of(
    LINE, st.sampled_from(["\n", "  \n", "\r\n", "x" * 1500 + "\n", "é" * 2100 + "\n"])
)


def jsonl(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


@settings(max_examples=150, deadline=None)
@given(pieces=st.lists(PIECE, min_size=1, max_size=25), tail=st.text("ab ", max_size=5))
def test_text_file_is_an_exact_partition(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], tail: str
) -> None:
    content = "start\n" + "".join(pieces) + tail
    path = tmp_path_factory.mktemp("text") / "a.txt"
    path.write_bytes(content.encode("utf-8"))
    reader = TextFile(path)
    found = list(reader.scan())
    assert "".join(document.text for _, document in found) == content
    assert documents(path).joined() == content
    if len(found) > 1:
        assert min(len(document.text) for _, document in found) >= MINIMUM_CHARACTERS
    for place, document in found:
        assert reader.read(place).text == document.text
    for _, document in found[1:]:
        assert document.text.split("\n")[0].strip()


def test_text_file_is_cut_where_paragraphs_end(tmp_path: Path) -> None:
    paragraphs = [f"{i} " + "word " * 300 for i in range(8)]  # 1502 characters each
    path = tmp_path / "a.txt"
    path.write_text("\n\n".join(paragraphs), encoding="utf-8")
    found = list(documents(path))
    assert [document.text.count("\n\n") for document in found] == [2, 2, 2, 1]
    assert found[1].text.startswith("2 ")
    assert found[0].digest == hashlib.sha256(found[0].text.encode()).hexdigest()
    assert [document.name for document in found] == ["a.txt#1", "a.txt#2", "a.txt#3", "a.txt#4"]


def test_json_lines_with_label_span_and_messages(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "a.jsonl",
        {"text": "good film", "y": 1, "where": [0, 4]},
        {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}],
         "y": 0, "where": [0, 2]},
    )  # fmt: skip
    first, second = documents(path, label="y", span="where")
    assert first == Document.of("good film", f"{path}:1", label="1", span=(0, 4))
    assert second.text == "hi\n\nyo"
    assert second.messages == (
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "yo"},
    )
    assert documents(path).joined() == "good film\n\nhi\n\nyo"


@pytest.mark.parametrize(
    "line, message",
    [
        ('{"text": "a"', r"a\.jsonl:2: not valid JSON .*column"),
        ("[1, 2]", r"a\.jsonl:2: expected an object with a field 'text', got list"),
        ('{"body": "a"}', r"a\.jsonl:2: no field 'text' \(fields: body\).*text_field="),
        ('{"text": 3}', r"a\.jsonl:2: field 'text' is a number, expected a string"),
        ('{"text": null}', r"a\.jsonl:2: field 'text' is null"),
        ('{"text": "a\\u0000b"}', r"a\.jsonl:2: field 'text' has a NUL character at character 1"),
        ('{"text": "ab\\ud800"}', r"a\.jsonl:2: field 'text' has half of a surrogate pair at .* 2"),
        ('{"messages": "hi"}', r"a\.jsonl:2: field 'messages' is a string, expected a list"),
        ('{"messages": [{"role": "user"}]}', r"a\.jsonl:2: every entry .* 'role' and 'content'"),
        ("[" * 100_000, r"a\.jsonl:2: not valid JSON \(nested too deeply\)"),
    ],
)
def test_json_lines_errors_name_the_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "fine"}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(GramianError, match=message):
        list(documents(path))


@pytest.mark.parametrize("span", [[0, 0], [-1, 2], [0, 99], [0], "ab", [0.0, 1.0], None])
def test_span_outside_the_text_is_refused(tmp_path: Path, span: object) -> None:
    path = jsonl(tmp_path / "a.jsonl", {"text": "abc", "s": span})
    with pytest.raises(GramianError, match=r"a\.jsonl:1: field 's' is .*expected"):
        list(documents(path, span="s"))


def test_missing_label_is_refused(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", {"text": "abc"})
    with pytest.raises(GramianError, match=r"no field 'y' \(fields: text\).*label="):
        list(documents(path, label="y"))


def test_parquet_reads_groups_and_single_rows(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    path = tmp_path / "a.parquet"
    texts = [f"document {i}" for i in range(10)]
    spans = [[0, 8]] * 10
    table = pa.table({"text": texts, "y": list(range(10)), "s": spans, "unused": texts})
    parquet.write_table(table, path, row_group_size=3)
    docs = documents(path, label="y", span="s")
    found = list(docs.scan())
    assert [document.text for _, document in found] == texts
    assert found[7][1].label == "7"
    assert found[7][1].span == (0, 8)
    assert [docs.read(place) for place, _ in reversed(found)] == [d for _, d in reversed(found)]
    with pytest.raises(GramianError, match=r"no column 'body' \(columns: text, y, s, unused\)"):
        list(documents(path, text_field="body"))
    damaged = tmp_path / "b.parquet"
    damaged.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(GramianError, match=r"b\.parquet: not a readable Parquet file"):
        list(documents(damaged))


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(GramianError, match=r'pip install "gramian\[data\]"'):
        list(documents(path))


def test_folder_reads_known_files_in_sorted_order(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("second\n", encoding="utf-8")
    jsonl(tmp_path / "a.jsonl", {"text": "first"})
    (tmp_path / "c").mkdir()
    jsonl(tmp_path / "c" / "d.jsonl", {"text": "third"})
    (tmp_path / "notes.md").write_text("ignored", encoding="utf-8")
    (tmp_path / ".hidden.txt").write_text("ignored", encoding="utf-8")
    docs = documents(tmp_path)
    assert [document.text for document in docs] == ["first", "second\n", "third"]
    assert docs.joined() == "first\n\nsecond\n\n\nthird"
    assert [docs.read(place).text for place, _ in docs.scan()] == ["first", "second\n", "third"]
    assert [document.text for document in documents(docs, limit=2)] == ["first", "second\n"]


def test_python_reference_text() -> None:
    from pydoc_data.topics import topics

    docs = documents("bundled:pydocs")
    found = list(docs)
    assert [document.name for document in found] == [f"pydocs:{key}" for key in sorted(topics)]
    assert sum(len(document.text) for document in found) > 300_000
    assert len(list(documents("bundled:pydocs", limit=3))) == 3


def test_strings() -> None:
    docs = documents(text for text in ["a", "  \n", "b"])
    assert [document.text for document in docs] == ["a", "b"]
    assert [document.name for document in docs] == ["texts[0]", "texts[2]"]
    assert docs.joined() == "a\n\nb"
    with pytest.raises(GramianError, match=r"texts\[1\] is of type int, expected a string"):
        documents(["a", 3])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", r"no text in it; expected at least one document"),
        (b"  \n\n\t\n", r"no text in it"),
        (b"good line\nbad \xff line\n", r"byte 0xff at offset 14 is not valid UTF-8"),
        (b"good line\n\x7fELF\x00\x01\n", r"NUL byte at offset 14; expected UTF-8 text, not bin"),
        (b"cut short \xe2\x82", r"byte 0xe2 at offset 10 is not valid UTF-8"),
    ],
)
def test_empty_or_binary_text_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with pytest.raises(GramianError, match=r"a\.txt: " + message):
        list(documents(path))


def test_unusable_sources_say_what_is_expected(tmp_path: Path) -> None:
    kinds = r"\.txt, \.jsonl, \.parquet.*bundled:pydocs"
    (tmp_path / "a.csv").write_text("a,b\n", encoding="utf-8")
    with pytest.raises(GramianError, match=r"unknown kind of file '\.csv'; expected .*" + kinds):
        documents(tmp_path / "a.csv")
    with pytest.raises(GramianError, match="no file in this folder ends in"):
        documents(tmp_path)
    for missing in ("none.txt", "none.csv", "./some where.txt", Path("none")):
        with pytest.raises(GramianError, match=r"no such file or folder; expected .*" + kinds):
            documents(missing)
    with pytest.raises(GramianError, match=r"not bundled; expected one of bundled:pydocs"):
        documents("bundled:novels")
    with pytest.raises(GramianError, match="limit is 0, expected at least 1"):
        documents("bundled:pydocs", limit=0)
    (tmp_path / "a.txt").write_text("text", encoding="utf-8")
    with pytest.raises(GramianError, match="label='y' names a field, but a text file has no"):
        documents(tmp_path / "a.txt", label="y")


class _Table(list[dict[str, object]]):
    column_names = ("body", "y")

    def select_columns(self, names: list[str]) -> _Table:
        return _Table({name: row[name] for name in names} for row in self)


def test_name_of_a_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def load(name: str, configuration: str | None, *, split: str) -> _Table:
        asked.append((name, configuration, split))
        if name == "owner/unreachable":
            raise ConnectionError("the hub cannot be reached")
        return _Table([{"body": "one", "y": "p"}, {"body": "two", "y": "q"}])

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load))  # type: ignore[arg-type]
    found = list(documents("owner/name:plain", text_field="body", label="y", split="test"))
    assert [(document.text, document.label) for document in found] == [("one", "p"), ("two", "q")]
    assert asked == [("owner/name", "plain", "test")]
    with pytest.raises(GramianError, match=r"no column 'text' \(columns: body, y\)"):
        documents("owner/name")
    with pytest.raises(GramianError, match=r"no such file or folder, and the data set 'owner/unr.*"
                       r"could not be loaded: the hub cannot be reached"):  # fmt: skip
        documents("owner/unreachable")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(GramianError, match=r'pip install "gramian\[data\]"'):
        documents("owner/name")
