"""gramian compress rank: plans, checkpoints, and what is refused."""

from __future__ import annotations

import pytest

from gramian.networks import open as open_checkpoint


@pytest.fixture(scope="module")
def collected(model, corpus, tmp_path_factory):
    from gramian.compress import rank
    from gramian.data import documents
    from gramian.networks import collect

    out = tmp_path_factory.mktemp("moments") / "m.moments"
    checkpoint = open_checkpoint(model)
    docs = documents(str(corpus / "a.jsonl"))
    collect(checkpoint, docs, rank.needs(checkpoint), tokens=2000, length=32, out=out)
    return out


def test_a_plan_is_printed_and_nothing_written(gramian, model, collected):
    result = gramian("compress", "rank", collected, "--model", model, "--keep", "70%")
    assert result.code == 0, result.err
    assert "rank of" in result.out
    assert "q_proj" in result.out
    assert "Nothing is written" in result.out


def test_factors_as_json(gramian, model, collected, tmp_path):
    out = tmp_path / "out"
    result = gramian(
        "compress", "rank", collected, "--model", model, "--keep", "60%", "-o", out, "--json"
    )
    assert result.code == 0, result.err
    document = result.json
    keys = {
        "method", "removed", "parameters", "bytes", "kv_bytes_per_token", "layers", "loads_in",
        "out", "allocate", "metric", "ranks",
    }  # fmt: skip
    assert keys <= set(document)
    assert document["removed"]["of_layers"] == pytest.approx(0.4, abs=0.03)
    assert {"layer", "part", "kept", "error_report"} == set(document["layers"][0])
    opened = open_checkpoint(out)
    assert sum(p.numel() for p in opened.model.parameters()) == document["parameters"]


@pytest.mark.parametrize(
    "options",
    [
        ("--allocate", "uniform", "--metric", "none"),
        ("--allocate", "threshold", "--metric", "diag", "--alpha", "1"),
        ("--allocate", "energy", "--multiple", "2", "--shrink", "0.2"),
        ("--centred", "--by-type", "--dense"),
        ("--uncentred", "--of", "model", "--keep", "0.9"),
    ],
)
def test_options(gramian, model, collected, tmp_path, options):
    result = gramian(
        "compress", "rank", collected, "--model", model, *options, "-o", tmp_path / "out", "--json"
    )
    assert result.code == 0, result.err
    open_checkpoint(tmp_path / "out").model  # noqa: B018


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--keep", "0%"), "expected a share such as 75%"),
        (("--keep", "many"), "expected a share such as 75%"),
        (("--keep", "1%"), "less than 1 direction"),
        (("--allocate", "best"), "expected one of greedy"),
        (("--metric", "cholesky"), "metric is 'cholesky'"),
        (("--alpha", "2"), "alpha is 2.0"),
        (("--of", "half"), "expected 'layers' or 'model'"),
    ],
)
def test_refusals(gramian, model, collected, options, said):
    result = gramian("compress", "rank", collected, "--model", model, *options)
    assert result.code == 2
    assert said in result.err.replace("\n", " ")


def test_a_target_in_use(gramian, model, collected, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x").write_text("mine")
    result = gramian("compress", "rank", collected, "--model", model, "-o", tmp_path / "out")
    assert result.code == 2
    assert (tmp_path / "out" / "x").read_text() == "mine"
