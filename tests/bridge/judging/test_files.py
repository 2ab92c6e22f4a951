"""Judgements and texts from files, and what is wrong with a line."""

from __future__ import annotations

import pytest

from gramian.bridge.judging import read_qrels, read_texts
from gramian.errors import GramianError


def test_qrels(tmp_path):
    path = tmp_path / "q.txt"
    path.write_text("\ufeff1 0 d1 1\n1\t0\td2\t-2\n\n2 Q0 d1 3\n2 Q0 d1 3\n", encoding="utf-8")
    assert read_qrels(path) == {"1": {"d1": 1, "d2": -2}, "2": {"d1": 3}}


def test_qrels_of_beir(tmp_path):
    path = tmp_path / "test.tsv"
    path.write_text("query-id\tcorpus-id\tscore\n7\ta\t2\n")
    assert read_qrels(path) == {"7": {"a": 2}}


@pytest.mark.parametrize(
    "text, message",
    [
        ("1 0 d1 1\n1 0 d2\n", "line 2: 3 columns, expected 4: query iteration item grade"),
        ("1 0 d1 high\n", "line 1: grade 'high'"),
        ("1 0 d1 0.5\n", "line 1: grade '0.5'"),
        ("1 0 d1 1\n\n1 0 d1 2\n", "line 3: query '1' and item 'd1' were judged 1 before and 2"),
        ("query-id corpus-id score\n1 0 d1 1\n", "line 2: 4 columns, expected 3"),
        ("\n", "holds no judgement"),
    ],
)
def test_qrels_that_are_wrong(tmp_path, text, message):
    path = tmp_path / "q.txt"
    path.write_text(text)
    with pytest.raises(GramianError, match=message):
        read_qrels(path)


def test_qrels_that_are_no_text(tmp_path):
    (tmp_path / "q").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(GramianError, match="not UTF-8"):
        read_qrels(tmp_path / "q")
    with pytest.raises(GramianError, match="No such file"):
        read_qrels(tmp_path / "none")


def test_texts(tmp_path):
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"_id": 7, "text": "one", "title": "T"}\r\n\n{"query": "two"}\n')
    found = read_texts(lines)
    assert (found.ids, found.texts) == (("7", "3"), ("T one", "two"))
    table = tmp_path / "a.tsv"
    table.write_text("x\tone\ttwo\ny\tthree\n")
    found = read_texts(table)
    assert (found.ids, found.texts) == (("x", "y"), ("one\ttwo", "three"))
    plain = tmp_path / "a.txt"
    plain.write_text("one\n\nthree\u2028four\n", encoding="utf-8")
    found = read_texts(plain)
    assert (found.ids, found.texts) == (("1", "3"), ("one", "three\u2028four"))


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("a.jsonl", '{"id": "1", "text": "x"}\n{"id": "1", "text": "y"}\n', "'1' appears twice"),
        ("a.jsonl", '{"id": "1"}\n', "line 1: no text"),
        ("a.jsonl", '{"id": "1", "text": 5}\n', "line 1: no text"),
        ("a.jsonl", '{"id": [1], "text": "x"}\n', "line 1: id is"),
        ("a.jsonl", "[1]\n", "line 1: expected an object"),
        ("a.jsonl", '{"id"\n', "line 1: not valid JSON"),
        ("a.tsv", "no tab\n", "line 1: expected an id, a tab"),
        ("a.tsv", "x\t \n", "line 1: the text is empty"),
        ("a.txt", "", "holds no text"),
        ("a.csv", "x", "expected a file of texts"),
    ],
)
def test_texts_that_are_wrong(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(GramianError, match=message):
        read_texts(path)
