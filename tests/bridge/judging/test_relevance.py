"""Judgements from files, and what is wrong with a line."""

from __future__ import annotations

import pytest

from gramian.bridge.judging import read_qrels
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
