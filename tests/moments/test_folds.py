"""Folds, row rules and recipes."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from gramian.errors import GramianError
from gramian.moments.folds import FOLDS, Shares, fold_of
from gramian.moments.recipe import Recipe, RowRule
from tests.moments.sets import PARTNER, RECIPE


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_shares_are_met() -> None:
    n = 20_000
    found = Counter(fold_of(digest(str(i)), Shares(0.7, 0.2, 0.1)) for i in range(n))
    for fold, share in zip(FOLDS, (0.7, 0.2, 0.1), strict=True):
        deviation = (share * (1 - share) / n) ** 0.5
        assert abs(found[fold] / n - share) < 4 * deviation


def test_a_document_keeps_its_fold_for_ever() -> None:
    texts = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]
    assert [fold_of(digest(text)) for text in texts] == [
        "train",
        "select",
        "select",
        "train",
        "train",
        "train",
        "report",
        "train",
        "report",
        "train",
    ]


def test_larger_train_share_only_moves_documents_into_train() -> None:
    small, large = Shares(0.5, 0.25, 0.25), Shares(0.75, 0.125, 0.125)
    for i in range(200):
        if fold_of(digest(str(i)), small) == "train":
            assert fold_of(digest(str(i)), large) == "train"


@pytest.mark.parametrize(
    "shares", [(0.8, 0.1, 0.2), (1.0, 0.0, 0.0), (1.2, -0.1, -0.1), (float("nan"), 0.5, 0.5)]
)
def test_impossible_shares(shares: tuple[float, float, float]) -> None:
    with pytest.raises(GramianError, match="share"):
        Shares(*shares)


@pytest.mark.parametrize("bad", ["", "abc", "A" * 64, "g" * 64, "0" * 63])
def test_a_digest_must_be_a_sha256(bad: str) -> None:
    with pytest.raises(GramianError, match="64 lower-case hexadecimal"):
        fold_of(bad)


def test_recipe_survives_json() -> None:
    recipe = replace(RECIPE, rows=RowRule(first=False, factor=None))
    for original in (RECIPE, recipe, replace(RECIPE, partner=PARTNER)):
        text = json.dumps(original.to_json())
        assert Recipe.from_json(json.loads(text)) == original


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.update(align="words"), "'align' is 'words', expected one of tokens"),
        (lambda p: p.pop("bos"), "'bos' is missing"),
        (lambda p: p.update(extra=1), "unknown key 'extra'"),
        (lambda p: p["rows"].update(extra=1), "unknown key 'extra'"),
    ],
)
def test_a_partner_is_read_strictly(change: Any, message: str) -> None:
    value: dict[str, Any] = json.loads(json.dumps(replace(RECIPE, partner=PARTNER).to_json()))
    change(value["partner"])
    with pytest.raises(GramianError, match=message):
        Recipe.from_json(value)


def test_difference_of_partners_names_their_fields() -> None:
    joint = replace(RECIPE, partner=PARTNER)
    other = replace(RECIPE, partner=replace(PARTNER, align="tokens", bos=True))
    assert joint.difference(other) == [
        "partner.bos: False against True",
        "partner.align: 'characters' against 'tokens'",
    ]
    assert joint.difference(RECIPE) == ["partner: 'bundled:other' against None"]


def test_difference_names_fields_and_both_values() -> None:
    other = replace(
        RECIPE,
        template="ef" * 32,
        length=256,
        rows=RowRule(factor=5.0, thresholds={"0.resid_pre": 12.5}),
        shares=Shares(0.5, 0.25, 0.25),
        tensors={"embed": "00" * 8, "head": "22" * 8},
    )
    lines = RECIPE.difference(other)
    assert RECIPE.difference(RECIPE) == []
    assert "length: 128 against 256" in lines
    assert "rows.factor: 10.0 against 5.0" in lines
    assert "shares.train: 0.8 against 0.5" in lines
    assert any(line.startswith("template: 'none' against efefefefefef…") for line in lines)
    assert any("1 of 2 unequal, first 'head'" in line for line in lines)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("length",), "128", "'length' is '128', expected an integer"),
        (("length",), True, "'length' is True, expected an integer"),
        (("bos",), 1, "'bos' is 1, expected true or false"),
        (("rows", "thresholds", "0.resid_pre"), None, "expected a finite number"),
        (("shares", "train"), 0.9, "sum to"),
        (("precision",), "bfloat16", "one of float32, float64"),
        (("surprise",), 1, "unknown key 'surprise'"),
        (("rows", "surprise"), 1, "unknown key 'surprise'"),
        (("tensors",), [], "expected an object"),
    ],
)
def test_strict_reading(path: tuple[str, ...], value: object, message: str) -> None:
    data = json.loads(json.dumps(RECIPE.to_json()))
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(GramianError, match=message):
        Recipe.from_json(data)


def test_missing_field_is_named() -> None:
    data = RECIPE.to_json()
    del data["tokenizer"]
    with pytest.raises(GramianError, match="'tokenizer' is missing"):
        Recipe.from_json(data)


@pytest.mark.parametrize("factor", [0.0, -1.0, float("inf")])
def test_row_rule_refuses_impossible_factors(factor: float) -> None:
    with pytest.raises(GramianError, match="factor"):
        RowRule(factor=factor)
