"""gramian bridge plan: figures by hand, JSON, refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest


@pytest.fixture
def store(tmp_path):
    np.save(tmp_path / "old.npy", np.ones((2000, 64), np.float16))
    return tmp_path / "old.npy"


def test_json(gramian, store):
    document = gramian(
        *("bridge", "plan", store, "--price", "$0.02/M", "--rate", "3000 texts/min"),
        *("--tokens-per-text", 200, "--new-dim", 128, "--new-dtype", "float32", "--json"),
    ).json
    assert document["stored"] == 2000 * 64 * 2
    whole = document["once"]["reindex"]
    assert (whole["texts"], whole["tokens"], whole["disk"]) == (2000, 400_000, 2000 * 128 * 4)
    assert whole["cost"] == pytest.approx(0.008)
    assert whole["hours"] == pytest.approx(2000 / 3000 / 60)
    assert document["once"]["backfill_0.25"]["texts"] == 500
    assert document["served"]["two_stage"]["texts"] == 1000 + 200_000
    assert document["break_even"] == 10
    assert document["currency"] == "$"


def test_tokens_of_the_texts(gramian, tmp_path):
    path = tmp_path / "docs.jsonl"
    lines = [{"id": str(i), "text": "one two three four", "vector": [1.0, i]} for i in range(5)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = gramian("bridge", "plan", path, "--rate", "1k tokens/s", "--json")
    assert done.json["tokens_per_text"] == pytest.approx(5.2)
    assert done.json["count"] == 5
    assert "1.3 a word" in done.json["notes"][0]
    counted = gramian(
        *("bridge", "plan", path, "--rate", "1k tokens/s"),
        *("--tokenizer", "bundled:minilm", "--json"),
    )
    # four words and the two marks that the tokenizer puts around them
    assert counted.json["tokens_per_text"] == 6


def test_table(gramian, store):
    done = gramian("bridge", "plan", store, "--price", "1/1k", "--tokens-per-text", 10)
    assert done.code == 0, done.err
    for word in ("reindex", "two_stage", "backfill_0.1", "20.00", "256 kB"):
        assert word in done.out


@pytest.mark.parametrize(
    "options, message",
    [
        (("--tokens-per-text", 1), "give --price, --rate"),
        (("--tokens-per-text", 1, "--price", "0.02"), "an amount per 1k"),
        (("--tokens-per-text", 1, "--rate", "100"), "texts or tokens per second"),
        (("--price", "1/M"), "carries no texts"),
        (("--tokens-per-text", -1, "--price", "1/M"), "tokens_per_text is -1"),
        (("--tokens-per-text", 1, "--price", "1/M", "--bridge", "none"), "none"),
        (("--tokens-per-text", 1, "--price", "1/M", "--new-dtype", "int3"), "dtype is 'int3'"),
        (("--tokens-per-text", 1, "--price", "1/M", "--queries", 0), "queries is 0"),
    ],
)
def test_refusals(gramian, store, options, message):
    done = gramian("bridge", "plan", store, *options)
    assert done.code == 2
    assert message in done.err
