"""gramian compress mlp and heads, from collecting to a checkpoint that generates."""

from __future__ import annotations

import json

import pytest
import torch

from gramian.networks import open as open_checkpoint
from tests import tiny

SMALL = ("--tokens", 2000, "--length", 32, "--batch-rows", 256)


@pytest.fixture(scope="module")
def folder(model, corpus, tmp_path_factory):
    from gramian.compress import heads, mlp
    from gramian.data import documents
    from gramian.networks import collect

    checkpoint = open_checkpoint(model)
    path = tmp_path_factory.mktemp("moments") / "m.moments"
    needs = mlp.needs(checkpoint) + heads.needs(checkpoint)
    docs = documents(corpus / "a.jsonl")
    collect(checkpoint, docs, needs, out=path, tokens=2000, length=32, batch_rows=256)
    return path


def test_collecting_for_both(gramian, model, corpus, tmp_path):
    done = gramian(
        "collect", model, "--data", corpus / "a.jsonl", *SMALL, "--for", "mlp,heads", "-o",
        tmp_path / "m",
    )  # fmt: skip
    assert done.code == 0, done.err
    shown = gramian("compress", "mlp", tmp_path / "m", "--model", model)
    assert shown.code == 0, shown.err
    assert "mlp of" in shown.out
    assert "predicted error on report" in shown.out
    assert "Nothing is written" in shown.out


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        (("mlp", "--keep", "75%", "--multiple", "12"), ("intermediate_size", 36)),
        (("mlp", "--keep", "30", "--select", "norm", "--no-refit"), ("intermediate_size", 30)),
        (("heads", "--keep", "2"), ("num_key_value_heads", 1)),
        (("heads", "--keep", "50%", "--within"), ("num_attention_heads", 2)),
    ],
)
def test_writing(gramian, folder, model, tmp_path, command, kept):
    name, *options = command
    out = tmp_path / "out"
    done = gramian("compress", name, folder, "--model", model, *options, "-o", out, "--json")
    assert done.code == 0, done.err
    assert done.json["method"] == name
    assert done.json["out"] == str(out)
    assert {"removed", "parameters", "bytes", "kv_bytes_per_token", "loads_in"} <= set(done.json)
    assert [layer["layer"] for layer in done.json["layers"]] == [0, 1, 2]
    assert all(0 < layer["error_report"] < 1 for layer in done.json["layers"])
    assert json.loads((out / "config.json").read_text())[kept[0]] == kept[1]
    written = open_checkpoint(out)
    with torch.no_grad():
        made = written.model.generate(tiny.ids(1, 5), max_new_tokens=4, do_sample=False)
    assert made.shape == (1, 9)
    again = gramian("compress", name, folder, "--model", model, *options, "-o", out)
    assert again.code == 2
    assert "exists" in again.err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("mlp", "--keep", "0%"), "expected a share"),
        (("mlp", "--keep", "300"), "expected 1 to 48 neurons"),
        (("mlp", "--keep", "much"), "expected a share"),
        (("mlp", "--multiple", "256"), "no multiple of 256"),
        (("mlp", "--select", "luck"), "expected one of"),
        (("heads", "--keep", "3"), "whole groups of 2"),
        (("heads", "--keep", "9"), "expected 2, 4"),
    ],
)
def test_bad_input(gramian, folder, model, command, message):
    name, *options = command
    done = gramian("compress", name, folder, "--model", model, *options)
    assert done.code == 2
    assert message in done.err
