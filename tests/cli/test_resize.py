"""gramian resize: sizes as typed, plans as printed, folders that load."""

from __future__ import annotations

import json

import pytest

from gramian.networks import open as open_checkpoint


def test_shrink_shows_its_plan_and_writes_nothing(gramian, model, tmp_path):
    result = gramian("resize", "shrink", model, "--width", 16, "--heads", "2/1", "--layers", 2)
    assert result.code == 0
    assert "The function changes." in result.out
    assert "Nothing is written" in result.out
    assert "start for training" in " ".join(result.err.split())


def test_shrink_from_moments(gramian, model, corpus, tmp_path):
    text, moments = corpus / "a.jsonl", tmp_path / "m.moments"
    done = gramian(
        "collect",
        model,
        "--data",
        text,
        "--for",
        "resize",
        "--tokens",
        "4k",
        "--length",
        32,
        "-o",
        moments,
    )
    assert done.code == 0, done.err
    result = gramian(
        "resize",
        "shrink",
        model,
        "--moments",
        moments,
        "--mlp",
        "0.5x",
        "--refit",
        "-o",
        tmp_path / "out",
        "--json",
    )
    assert result.code == 0, result.err
    found = result.json
    assert found["method"] == "shrink"
    assert found["importance"] == "moments"
    assert found["rescale"] == "refit"
    assert found["shape"]["mlp"] == 24
    assert {entry["part"] for entry in found["layers"]} == {"mlp_mid"}
    assert all(0 < entry["error_report"] < 1 for entry in found["layers"])
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["intermediate_size"] == 24
    assert found["certificate"]["reference_error"] < found["certificate"]["tolerance"]


def test_grow_says_that_the_function_stays(gramian, model, tmp_path):
    out = tmp_path / "out"
    result = gramian(
        "resize", "grow", model, "--width", "2x", "--mlp", 60, "--layers", 4, "-o", out
    )
    assert result.code == 0, result.err
    assert "The function stays what it was" in result.out
    assert "x + 0 = x" in result.out
    assert "Certified" in result.out
    config = open_checkpoint(out).config
    assert (config.hidden_size, config.intermediate_size, config.num_hidden_layers) == (64, 60, 4)
    assert (config.num_attention_heads, config.num_key_value_heads) == (8, 4)
    again = gramian("resize", "grow", model, "--mlp", "2x", "-o", out)
    assert again.code == 2
    assert "exists" in again.err


@pytest.mark.parametrize(
    "words, message",
    [
        (("grow", "--width", "wide"), "--width 'wide': expected a whole number"),
        (("grow", "--width", "1.3x"), "a multiple such as 2x of the present 32"),
        (("grow", "--heads", "six"), "--heads 'six': expected query heads"),
        (("grow",), "nothing grows"),
        (("shrink", "--heads", "3/2"), "do not divide"),
        (("shrink", "--mlp", "24", "--refit"), "collect with --for resize"),
        (("shrink", "--mlp", "24", "--rescale", "x"), "rescale is 'x'"),
    ],
)
def test_bad_input(gramian, model, words, message):
    command, *options = words
    result = gramian("resize", command, model, *options)
    assert result.code == 2
    assert message in result.err
