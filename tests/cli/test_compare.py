"""gramian compare and the joint collection: documented JSON keys, tables, refusals."""

from __future__ import annotations

import pytest

from gramian.compare import MEASURES
from tests import tiny

SMALL = ("--tokens", "3k", "--length", 32, "--batch-rows", 256)
KEYS = {"models", "paired", "align", "rows", "documents", "folds", "matrices", "warnings"}
MATRIX = {
    "measure",
    "summary",
    "similarity",
    "sinks",
    "x",
    "y",
    "values",
    "standard_errors",
    "best",
}
RESIDUAL = ["0.resid_pre", "1.resid_pre", "2.resid_pre", "final"]


@pytest.fixture
def moments(gramian, model, corpus, tmp_path):
    path = tmp_path / "m.moments"
    data = corpus / "a.jsonl"
    done = gramian("collect", model, "--data", data, "--for", "compare", *SMALL, "-o", path)
    assert done.code == 0, done.err
    return path


@pytest.fixture(scope="session")
def second(tmp_path_factory):
    return tiny.save(tmp_path_factory.mktemp("second"), "mistral", seed=4)


@pytest.fixture
def joint(gramian, model, second, corpus, tmp_path):
    path = tmp_path / "ab.moments"
    data = corpus / "a.jsonl"
    done = gramian(
        "collect", model, second, "--data", data, "--for", "compare", "--inside", *SMALL, "-o", path
    )
    assert done.code == 0, done.err
    assert "3,000 tokens, 8 sites, 28 pairs" in done.out
    return path


def test_layers_of_one_network(gramian, moments):
    document = gramian("compare", moments, "--json").json
    assert set(document) == KEYS
    assert document["paired"]
    assert document["align"] is None
    assert [m["measure"] for m in document["matrices"]] == ["cka", "cka_standardised"]
    matrix = document["matrices"][0]
    assert set(matrix) == MATRIX
    assert matrix["x"] == matrix["y"] == RESIDUAL
    for i in range(4):
        assert matrix["values"][i][i] == pytest.approx(1, abs=1e-12)
        for j in range(4):
            assert matrix["values"][i][j] == matrix["values"][j][i]
            assert matrix["standard_errors"][i][j] >= 0
    assert {best["site"] for best in matrix["best"]} == set(RESIDUAL)
    assert all(best["site"] != best["match"] for best in matrix["best"])
    assert any("3 folds" in warning for warning in document["warnings"])


def test_tables_shade_every_pair(gramian, moments):
    done = gramian("compare", moments, "--measure", "cka,angular", "--sinks")
    assert done.code == 0, done.err
    for title in ("cka, without sink rows", "angular, with sink rows"):
        assert title in done.out
    assert "columns: 0 is 0.resid_pre … 3 is final" in done.out
    assert "██" in done.out
    assert "±" in done.out
    assert "note: " in done.err


def test_two_networks(gramian, joint, model, second):
    document = gramian("compare", joint, "--measure", "cka,procrustes", "--json").json
    assert document["models"] == [str(model), str(second)]
    assert document["align"] == "tokens"
    matrix = document["matrices"][0]
    assert matrix["x"] == [f"a:{site}" for site in RESIDUAL]
    assert matrix["y"] == [f"b:{site}" for site in RESIDUAL]
    inner = gramian("compare", joint, "--inside", "b", "--json").json
    assert inner["models"] == [str(second)] * 2
    some = gramian("compare", joint, "--sites", "a:final/b:final,b:0.resid_pre", "--json").json
    assert some["matrices"][0]["y"] == ["b:final", "b:0.resid_pre"]
    assert "rows aligned by tokens" in gramian("info", joint).out
    info = gramian("info", joint, "--json").json
    assert info["recipe"]["partner"]["model"] == str(second)
    assert info["recipe"]["partner"]["align"] == "tokens"


def test_two_sets_collected_apart(gramian, moments, second, corpus, tmp_path):
    other = tmp_path / "b.moments"
    data = corpus / "b.jsonl"
    gramian("collect", second, "--data", data, "--for", "inspect", *SMALL, "-o", other)
    done = gramian("compare", moments, other)
    assert done.code == 0, done.err
    assert "rows collected apart" in done.out
    assert "different documents" in done.err
    document = gramian("compare", moments, other, "--json").json
    assert not document["paired"]
    assert {m["measure"] for m in document["matrices"]} == {"spectral", "bures"}
    assert set(document["rows"]) == {"kept", "sinks", "other_kept", "other_sinks"}
    refused = gramian("compare", moments, other, "--measure", "cka")
    assert refused.code == 2
    assert "one joint pass" in refused.err


def test_a_page_with_the_heat_map(gramian, moments, tmp_path):
    pytest.importorskip("plotly")
    page = tmp_path / "compare.html"
    done = gramian("compare", moments, "--plot", page)
    assert done.code == 0, done.err
    assert "heatmap" in page.read_text()
    again = gramian("compare", moments, "--plot", page)
    assert again.code == 2
    assert "exists" in again.err


def test_what_two_networks_cost(gramian, model, second, tmp_path):
    done = gramian(
        "collect", model, second, "--data", "none.txt", "--for", "compare", "--dry-run", "--json"
    )
    assert done.code == 0, done.err
    assert done.json["pairs"] == 16
    assert done.json["passes"] == 1
    assert done.json["minutes"] > 0
    shown = gramian("collect", model, second, "--data", "none.txt", "--for", "compare", "--dry-run")
    for word in ("8 sites of two networks", "16 pairs", "memory", "disk", "minutes"):
        assert word in shown.out
    one = gramian("collect", model, "--data", "none.txt", "--for", "compare", "--dry-run", "--json")
    assert one.json["pairs"] == 6


def test_refusals(gramian, model, second, moments, corpus, tmp_path):
    data = corpus / "a.jsonl"
    cases = [
        (("compare", moments, "--measure", "cxa"), "unknown measure 'cxa'"),
        (("compare", moments, "--inside", "a"), "of one network"),
        (("compare", tmp_path / "none"), "not a moments folder"),
        (
            ("collect", model, second, "--data", data, "--for", "lens", "-o", tmp_path / "x"),
            "two networks are collected together for compare alone",
        ),
        (
            (
                *("collect", model, second, "--data", data, "--for", "compare"),
                *("--align", "words", "--length", 32, "-o", tmp_path / "x"),
            ),
            "align is 'words'",
        ),
    ]
    for arguments, message in cases:
        refused = gramian(*arguments)
        assert refused.code == 2
        assert message in refused.err
    lens = tmp_path / "lens.moments"
    gramian("collect", model, "--data", data, *SMALL, "-o", lens)
    refused = gramian("compare", lens)
    assert refused.code == 2
    assert "collect with --for compare" in refused.err


def test_help_has_examples(gramian):
    done = gramian("compare", "--help")
    for words in ("gramian compare m.moments", "--inside", "--measure", *MEASURES):
        assert words in done.out
