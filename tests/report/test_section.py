"""Records of a page: what they take, what they refuse, and how a gap is said."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from gramian.errors import GramianError
from gramian.report import Figure, Section, Series, Table


def test_values_that_json_has_no_word_for_are_gaps():
    series = Series("a", [0, 1, 2, 3], [1.0, float("nan"), float("inf"), None], errors=[0.1] * 4)
    assert series.y == (1.0, None, None, None)
    table = Table("t", ("a", "b"), (("x", float("nan")), ("y", 2)))
    assert table.rows == (("x", None), ("y", 2))
    figure = Figure("f", "curves", "x", "y", (series,))
    document = Section("s", "s", figures=(figure,), tables=(table,)).to_json()
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_numbers_of_other_libraries_become_plain_ones():
    series = Series("a", range(2), torch.tensor([0.5, 1.5]).tolist(), errors=np.array([1.0, 2.0]))
    assert json.loads(json.dumps(series.to_json()))["errors"] == [1.0, 2.0]
    row = Table("t", ("a", "b"), ((np.float64(0.25), np.int64(3)),)).rows[0]
    assert [type(value) for value in row] == [float, int]


def test_tables_of_records():
    records = [{"site": "0.z", "d": 3, "r": 0.5}, {"site": "1.z", "d": 4, "r": 0.25}]
    whole = Table.of("t", records)
    assert whole.columns == ("site", "d", "r")
    assert whole.rows == (("0.z", 3, 0.5), ("1.z", 4, 0.25))
    assert [whole.is_text(column) for column in range(3)] == [True, False, False]
    named = Table.of("t", records, {"r": "R²", "site": "place"})
    assert named.columns == ("R²", "place")
    assert named.rows[0] == (0.5, "0.z")
    assert Table.of("t", []).rows == ()


@pytest.mark.parametrize(
    "make,message",
    [
        (lambda: Series("a", [1, 2], [1.0]), "2 x and 1 y"),
        (lambda: Series("a", [1, 2], [1.0, 2.0], ["one"]), "1 labels"),
        (lambda: Series("a", [1, 2], [1.0, 2.0], errors=[1.0]), "1 errors"),
        (lambda: Figure("f", "curves", "x", "y", ()), "no series"),
        (lambda: Figure("f", "pie", "x", "y", (Series("a", [1], [1.0]),)), "'pie'"),
        (
            lambda: Figure(
                "f", "heat map", "x", "y", (Series("a", ["p"], [1.0]), Series("b", ["q"], [1.0]))
            ),
            "different columns",
        ),
        (lambda: Table("t", ("a", "b"), (("x",),)), "2 columns and a row of 1"),
        (lambda: Section("s", "Two words"), "anchor 'Two words'"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(GramianError, match=message):
        make()
