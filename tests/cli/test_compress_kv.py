"""gramian compress kv: what it prints, writes and refuses."""

from __future__ import annotations

import json

import pytest


@pytest.fixture(scope="module")
def collected(model, corpus, tmp_path_factory):
    import sys
    from unittest.mock import patch

    from gramian.cli import main

    out = tmp_path_factory.mktemp("kv") / "m.moments"
    arguments = ["gramian", "collect", model, "--data", corpus / "a.jsonl", "--for", "kv"]
    given = [*arguments, "--length", "32", "--tokens", "3000", "-o", out]
    with patch.object(sys, "argv", list(map(str, given))), pytest.raises(SystemExit) as done:
        main()
    assert not done.value.code
    return out


def test_it_shows_a_plan_and_writes_it_when_asked(gramian, model, collected, tmp_path):
    plan = gramian("compress", "kv", collected, "--model", model, "--keep", "50%")
    assert plan.code == 0, plan.err
    assert "192 bytes of keys and values per token of 384" in plan.out
    assert "of the keys and" in plan.out
    assert "Nothing is written" in plan.out
    out = tmp_path / "out"
    found = gramian(
        "compress", "kv", collected, "--model", model, "--keep", "0.5", "-o", out, "--json"
    )
    assert found.code == 0, found.err
    document = found.json
    assert document["kv_bytes_per_token"] == 192
    assert document["out"] == str(out)
    assert {"layer", "part", "kept", "error_report"} == set(document["layers"][0])
    assert document["loads_in"]["llama.cpp"].startswith("no: attention caches coordinates")
    assert json.loads((out / "config.json").read_text())["gramian"]["modules"]
    again = gramian("compress", "kv", collected, "--model", model, "-o", out)
    assert again.code == 2
    assert "exists" in again.err


def test_keys_and_values_apart_and_dense(gramian, model, collected):
    given = ("compress", "kv", collected, "--model", model, "--json")
    apart = gramian(*given, "--keys", "25%", "--values", "75%", "--groups", "head").json
    assert apart["kept"] == {"k": 0.25, "v": 0.75}
    dense = gramian(*given, "--dense", "--method", "svd", "--allocate", "uniform").json
    assert dense["kv_bytes_per_token"] == dense["kv_bytes_per_token_before"]
    assert dense["warnings"]
    assert dense["parameters"] == dense["parameters_before"]
    turned = gramian(*given, "--method", "matryoshka", "--keep", "60%").json
    assert turned["kv_bytes_per_token"] == 4 * 57


def test_what_it_refuses(gramian, model, collected):
    given = ("compress", "kv", collected, "--model", model)
    for options, words in (
        (("--keep", "120%"), "--keep"),
        (("--keep", "50%", "--keys", "50%"), "--keys and --values"),
        (("--method", "pca"), "palu, matryoshka, svd"),
        (("--groups", "3"), "divides the 2 heads"),
        (("--method", "matryoshka", "--dense"), "--dense"),
    ):
        found = gramian(*given, *options)
        assert found.code == 2, options
        assert words in found.err
