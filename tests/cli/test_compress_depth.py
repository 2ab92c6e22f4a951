"""gramian compress depth, from collecting to a checkpoint."""

from __future__ import annotations

import pytest

from gramian.moments import MomentSet
from gramian.networks import open as open_checkpoint

SMALL = ("--tokens", 2000, "--length", 32, "--batch-rows", 256)


@pytest.fixture(scope="module")
def folder(model, corpus, tmp_path_factory):
    """Moments for cuts of every length, with raw rows."""
    from gramian.compress import depth
    from gramian.data import documents
    from gramian.networks import collect

    path = tmp_path_factory.mktemp("moments") / "m.moments"
    checkpoint = open_checkpoint(model)
    needs = depth.needs(checkpoint, max_remove=2)
    settings = {"tokens": 2000, "length": 32, "batch_rows": 256, "reservoir": 500}
    collect(checkpoint, documents(corpus / "a.jsonl"), needs, out=path, **settings)
    return path


@pytest.mark.parametrize("purpose,pairs", [("depth", 7), ("depth:all", 8), ("depth:0", 3)])
def test_collecting_for_it(gramian, model, corpus, tmp_path, purpose, pairs):
    command = ("collect", model, "--data", corpus / "a.jsonl", *SMALL, "--for", purpose)
    done = gramian(*command, "-o", tmp_path / "m")
    assert done.code == 0, done.err
    found = MomentSet.open(tmp_path / "m")
    assert {"cosines", "distances", "final"} <= set(found.sites)
    assert len(found.pairs) == pairs
    # Sites of every kind are read by the others, too.
    shown = gramian("inspect", tmp_path / "m")
    assert shown.code == 0, shown.err


@pytest.mark.parametrize("purpose", ["depth:", "depth:-1", "lens:3"])
def test_purposes_refused(gramian, model, corpus, purpose):
    done = gramian("collect", model, "--data", corpus / "a.jsonl", "--for", purpose, "--dry-run")
    assert done.code == 2
    assert "expected depth:N or depth:all" in done.err


def test_a_plan_and_a_checkpoint(gramian, model, folder, tmp_path):
    command = ("compress", "depth", folder, "--model", model, "--remove", 1)
    shown = gramian(*command)
    assert shown.code == 0, shown.err
    for expected in ("replace", "33.3% of the layers", "Nothing is written", "llama.cpp"):
        assert expected in shown.out, expected
    done = gramian(*command, "-o", tmp_path / "out", "--json")
    assert done.code == 0, done.err
    found = done.json
    assert found["method"] == "replace"
    assert found["removed"]["of_layers"] == pytest.approx(1 / 3)
    assert found["out"] == str(tmp_path / "out")
    assert [set(entry) for entry in found["layers"]] == [{"layer", "kept", "error_report"}]
    assert found["kv_bytes_per_token"] * 3 == found["kv_bytes_per_token_before"] * 2
    assert open_checkpoint(tmp_path / "out").blueprint.depth == 2
    again = gramian(*command, "-o", tmp_path / "out")
    assert again.code == 2
    assert "exists" in again.err


@pytest.mark.parametrize(
    "options",
    [
        ("--layers", "1-2", "--ridge", 0.1),
        ("--remove", 1, "--objective", "weighted"),
        ("--remove", 1, "--objective", "cosine"),
        ("--remove", 1, "--method", "drop", "--by", "influence"),
        ("--remove", 1, "--by", "residual"),
    ],
)
def test_options(gramian, model, folder, options):
    done = gramian("compress", "depth", folder, "--model", model, *options, "--json")
    assert done.code == 0, done.err
    assert done.json["out"] is None


def test_scores(gramian, model, folder):
    command = ("compress", "depth", folder, "--model", model, "--scores")
    shown = gramian(*command)
    assert shown.code == 0, shown.err
    assert "What every block does" in shown.out
    found = gramian(*command, "--json").json
    assert [block["layer"] for block in found["blocks"]] == [0, 1, 2]
    assert found["blocks"][1]["linearity"] is not None


def test_laco(gramian, model, corpus, tmp_path):
    done = gramian(
        "compress", "depth", "--model", model, "--remove", 1, "--method", "laco",
        "--span", 2, "--data", corpus / "a.jsonl", "-o", tmp_path / "out", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.json["method"] == "laco"
    assert done.json["layers"][0]["error_report"] is None


@pytest.mark.parametrize(
    "options,said",
    [
        (("--remove", 3), "from 0 to 2"),
        (("--remove", 1, "--method", "shrink"), "expected one of replace, drop, laco"),
        (("--remove", 1, "--method", "laco"), "give docs"),
        (("--remove", 1, "--data", "x.txt"), "goes with --method laco"),
        (("--layers", "a"), "expected numbers of blocks"),
        (("--layers", "0"), "no block comes before block 0"),
        ((), "either remove"),
    ],
)
def test_refused(gramian, model, folder, options, said):
    done = gramian("compress", "depth", folder, "--model", model, *options)
    assert done.code == 2
    assert said in done.err


def test_without_moments(gramian, model):
    done = gramian("compress", "depth", "--model", model, "--remove", 1)
    assert done.code == 2
    assert "gramian collect --for depth" in done.err
