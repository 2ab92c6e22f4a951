"""Tiny checkpoints, and moments of them."""

from __future__ import annotations

import json

import pytest

from gramian.compress import resize
from gramian.data import documents
from gramian.networks import open as open_checkpoint
from gramian.networks.collect import collect
from tests import tiny


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """``checkpoint("gpt2")``: the tiny checkpoint of a family, made once."""
    made = {}

    def get(family="llama", **changes):
        if family == "llama_tied":
            family, changes = "llama", {"tie_word_embeddings": True, **changes}
        key = (family, *sorted(changes.items()))
        if key not in made:
            made[key] = tiny.save(tmp_path_factory.mktemp(family), family, **changes)
        return open_checkpoint(made[key])

    return get


@pytest.fixture(scope="session")
def moments(tmp_path_factory):
    """``moments(checkpoint)``: whole second moments of a few thousand rows."""
    text = tmp_path_factory.mktemp("text") / "a.jsonl"
    text.write_text("\n".join(json.dumps({"text": t}) for t in tiny.texts(200)) + "\n")

    def get(source, **needs):
        return collect(
            source, documents(text), resize.needs(source, **needs), tokens=4000, length=32
        )

    return get
