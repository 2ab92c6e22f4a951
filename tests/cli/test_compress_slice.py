"""gramian compress slice, from collecting to a folder that opens."""

from __future__ import annotations

import pytest

from gramian.networks import open as open_checkpoint
from tests import tiny

SMALL = ("--tokens", 2000, "--length", 32, "--batch-rows", 256)


@pytest.fixture(scope="module")
def tied(tmp_path_factory):
    return tiny.save(tmp_path_factory.mktemp("tied"), tie_word_embeddings=True)


@pytest.fixture(scope="module")
def folder(tied, corpus, tmp_path_factory):
    from gramian.compress import slicing
    from gramian.data import documents
    from gramian.networks import collect

    checkpoint = open_checkpoint(tied)
    path = tmp_path_factory.mktemp("moments") / "m.moments"
    docs, needs = documents(corpus / "a.jsonl"), slicing.needs(checkpoint)
    collect(checkpoint, docs, needs, out=path, tokens=2000, length=32, batch_rows=256)
    return path


def test_collecting_for_it(gramian, model, corpus, tmp_path):
    command = ("collect", model, "--data", corpus / "a.jsonl", *SMALL, "--for", "slice")
    done = gramian(*command, "-o", tmp_path / "m")
    assert done.code == 0, done.err
    done = gramian("compress", "slice", tmp_path / "m", "--model", model, "--keep", "75%")
    assert done.code == 0, done.err


def test_the_plan_tells_every_size(gramian, folder, tied):
    done = gramian("compress", "slice", folder, "--model", tied, "--keep", "0.75")
    assert done.code == 0, done.err
    for expected in (
        "24 of 32 directions",
        "per-site",
        "ordinary checkpoint",
        "lies outside on report",
        "resid_mid",
        "Where the result loads",
        "Nothing is written",
    ):
        assert expected in done.out, expected
    # Three layers and a table of 97 rows: all directions with a head of their own are more.
    done = gramian("compress", "slice", folder, "--model", tied, "--keep", "100%")
    assert "costs more than slicing saves" in done.err


def test_json_and_a_folder(gramian, folder, tied, tmp_path):
    out = tmp_path / "out"
    command = ("compress", "slice", folder, "--model", tied, "--keep", "75%", "-o", out)
    done = gramian(*command, "--json")
    assert done.code == 0, done.err
    found = done.json
    assert (found["method"], found["out"]) == ("slice", str(out))
    assert found["width_after"] == 24
    assert found["loads_in"]["transformers"] == "loaded again and compared"
    written = open_checkpoint(out)
    assert written.blueprint.width == 24
    count = sum(p.numel() for p in written.model.parameters())
    assert found["parameters"] == count
    assert gramian(*command).code == 2  # it is there


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--keep", "120%"), "--keep '120%'"),
        (("--keep", "80%", "--rotation", "random"), "--rotation 'random'"),
        (("--keep", "80%", "--rotation", "per-site"), "a matrix on every shortcut"),
        (("--keep", "80%", "--head", "none"), "--head 'none'"),
        (("--keep", "80%", "--head", "tied"), "gain of the final norm differs"),
        (("--keep", "80%", "--of", "heads"), "--of 'heads'"),
        (("--keep", "1%"), "insists on multiples of 4"),
        (("--keep", "80%", "--multiple", "0"), "multiple is 0"),
    ],
)
def test_bad_input_is_one_clear_line(gramian, folder, tied, options, message):
    done = gramian("compress", "slice", folder, "--model", tied, *options)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err


def test_other_weights(gramian, folder, model):
    done = gramian("compress", "slice", folder, "--model", model, "--keep", "75%")
    assert done.code == 2
    assert "collect them on this model" in done.err


def test_help_has_an_example(gramian):
    done = gramian("compress", "slice", "--help")
    assert done.code == 0
    assert "gramian compress slice m.moments" in done.out
