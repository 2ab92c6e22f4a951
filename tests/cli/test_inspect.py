"""gramian inspect, from collecting to its tables and its JSON."""

from __future__ import annotations

import pytest

from gramian import inspect as room
from gramian.moments import MomentSet
from gramian.networks import open as open_checkpoint
from tests import tiny

SMALL = ("--tokens", 2000, "--length", 32, "--batch-rows", 256)


@pytest.fixture(scope="module")
def folder(model, corpus, tmp_path_factory):
    """Moments for the residual stream, the inputs of linear layers, and the lens."""
    from gramian.data import documents
    from gramian.networks import collect, linears

    checkpoint = open_checkpoint(model)
    path = tmp_path_factory.mktemp("moments") / "m.moments"
    needs = room.needs(checkpoint) + linears(checkpoint)
    docs = documents(corpus / "a.jsonl")
    collect(checkpoint, docs, needs, out=path, tokens=2000, length=32, batch_rows=256)
    return path


def test_collecting_for_it(gramian, model, corpus, tmp_path):
    command = ("collect", model, "--data", corpus / "a.jsonl", *SMALL, "--for", "inspect")
    done = gramian(*command, "-o", tmp_path / "m")
    assert done.code == 0, done.err
    found = MomentSet.open(tmp_path / "m")
    assert set(found.sites) == {"0.resid_pre", "1.resid_pre", "2.resid_pre", "final"}
    shown = gramian("inspect", tmp_path / "m")
    assert shown.code == 0, shown.err
    assert "resid_pre: how 32 dimensions are used" in shown.out


def test_tables(gramian, folder, model):
    done = gramian("inspect", folder, "--model", model)
    assert done.code == 0, done.err
    for expected in (
        "eff. rank",
        "IsoScore",
        "loud channels and sink rows",
        "down_proj",
        "with sinks",
        "utilised rank over full rank, per layer",
        "mean layer utilisation",
        "of 21 linear layers",
        "sink rows left out",
    ):
        assert expected in done.out, expected


def test_json_is_the_inspection(gramian, folder, model):
    done = gramian("inspect", folder, "--model", model, "--energy", "0.9", "--json")
    assert done.code == 0, done.err
    expected = room.inspect(MomentSet.open(folder), open_checkpoint(model), energy=0.9)
    assert done.json == expected.to_json()
    assert done.json["mean_utilisation"] == expected.mean_utilisation


def test_patterns_and_threshold(gramian, folder):
    done = gramian(
        "inspect", folder, "--sites", "*.resid_pre, final", "--threshold", "1.01", "--json"
    )
    assert [s["site"] for s in done.json["sites"]].count("final") == 1
    assert len(done.json["sites"]) == 4
    assert all(site["outliers"] for site in done.json["sites"])
    assert done.json["linears"] == []


def test_diagonal_sites_are_shown_with_what_is_missing(gramian, model, corpus, tmp_path):
    command = ("collect", model, "--data", corpus / "a.jsonl", *SMALL, "--for", "lens")
    assert gramian(*command, "-o", tmp_path / "m").code == 0
    done = gramian("inspect", tmp_path / "m", "--model", model)
    assert done.code == 0, done.err
    assert "only the diagonal was collected" in " ".join(done.out.split())
    assert "--for linears" in done.out


def test_help_has_an_example(gramian):
    done = gramian("inspect", "--help")
    assert done.code == 0
    assert "Example" in done.out
    assert "gramian inspect m.moments" in done.out


@pytest.mark.parametrize(
    "options,expected",
    [
        (("--sites", "9.*"), "no site matches '9.*'"),
        (("--energy", "99"), "energy is 99"),
        (("--threshold", "0"), "threshold"),
        (("--model", "nowhere/at/all"), "no model at"),
    ],
)
def test_bad_input_is_one_clear_line(gramian, folder, options, expected):
    done = gramian("inspect", folder, *options)
    assert done.code == 2
    assert expected in done.err
    assert "Traceback" not in done.err


def test_other_weights_and_no_folder(gramian, folder, tmp_path):
    other = tiny.save(tmp_path / "other", seed=3)
    done = gramian("inspect", folder, "--model", other)
    assert done.code == 2
    assert "collect them on this model" in done.err
    assert gramian("inspect", tmp_path / "no.moments").code == 2
