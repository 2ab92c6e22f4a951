"""gramian report on a tiny model: which sections, what is left out and why, refusals."""

from __future__ import annotations

import json

import pytest

from tests import tiny

SMALL = ("--tokens", "3k", "--length", 32, "--batch-rows", 256)


@pytest.fixture(scope="module")
def moments(model, corpus, tmp_path_factory):
    """Moments for the lens, made once."""
    from gramian.data import documents
    from gramian.lens import needs
    from gramian.networks import collect, open

    path = tmp_path_factory.mktemp("moments") / "m.moments"
    checkpoint = open(model)
    docs = documents(corpus / "a.jsonl")
    collect(checkpoint, docs, needs(checkpoint), out=path, tokens=3000, length=32, batch_rows=256)
    return path


def anchors(folder):
    document = json.loads((folder / "data.json").read_text())
    return {section["anchor"]: section for section in document["sections"]}


def test_without_a_model_only_what_needs_no_weights(gramian, model, moments, tmp_path):
    done = gramian("report", moments, "-o", tmp_path / "r", "--json")
    assert done.code == 0, done.err
    assert set(done.json) == {"path", "data", "sections", "left_out"}
    assert done.json["sections"] == ["collected", "inspect", "left-out"]
    reasons = {item["section"]: item["why"] for item in done.json["left_out"]}
    assert set(reasons) == {"lens", "compare"}
    assert f"--model {model}" in reasons["lens"]
    assert "--for compare" in reasons["compare"]
    found = anchors(tmp_path / "r")
    assert list(found) == done.json["sections"]
    assert [row[0] for row in found["left-out"]["tables"][0]["rows"]] == ["lens", "compare"]
    assert found["collected"]["command"] == f"gramian info {moments}"


def test_with_the_model_and_text_the_figures_are_those_of_the_jobs(
    gramian, model, corpus, moments, tmp_path
):
    text = ("--eval", corpus / "b.jsonl", "--eval-tokens", 400, "--length", 32)
    done = gramian("report", moments, "--model", model, *text, "-o", tmp_path / "r")
    assert done.code == 0, done.err
    assert "left out: compare" in done.err
    found = anchors(tmp_path / "r")
    assert list(found) == ["collected", "inspect", "lens", "left-out"]
    lens = gramian("lens", moments, "--model", model, *text, "--json").json
    curves = {figure["title"]: figure for figure in found["lens"]["figures"]}
    agreement = curves["Agreement with the full network on unseen text"]["series"]
    assert agreement[0]["y"] == [layer["agreement"] for layer in lens["layers"]]
    assert agreement[1]["y"] == [layer["agreement_identity"] for layer in lens["layers"]]
    linearity = curves["Linearity of each layer's step"]["series"][2]
    assert linearity["y"] == [layer["linearity_no_residual"] for layer in lens["layers"]]
    inspected = gramian("inspect", moments, "--model", model, "--json").json
    ranks = {site["site"]: site["effective_rank"] for site in inspected["sites"]}
    for series in found["inspect"]["figures"][0]["series"]:
        assert series["y"] == [ranks[site] for site in series["labels"]]
    command = found["lens"]["command"]
    assert command.startswith(f"gramian lens {moments} --model {model} --eval ")


def test_the_command_under_a_figure_makes_it(gramian, model, moments, tmp_path, monkeypatch):
    import shlex

    done = gramian("report", moments, "--model", model, "-o", tmp_path / "r")
    assert done.code == 0, done.err
    monkeypatch.chdir(tmp_path)
    for section in anchors(tmp_path / "r").values():
        if section["command"]:
            again = gramian(*shlex.split(section["command"])[1:])
            assert again.code == 0, (section["command"], again.err)
    page = (tmp_path / "lens.html").read_text()
    assert f"<span>{moments}</span>" in page


def test_layers_against_layers(gramian, model, corpus, tmp_path):
    path = tmp_path / "c.moments"
    arguments = ("--data", corpus / "a.jsonl", *SMALL, "--for", "compare")
    done = gramian("collect", model, *arguments, "-o", path)
    assert done.code == 0, done.err
    done = gramian("report", path, "-o", tmp_path / "r", "--json")
    assert done.code == 0, done.err
    section = anchors(tmp_path / "r")["compare"]
    found = gramian("compare", path, "--json").json
    for figure, matrix in zip(section["figures"], found["matrices"], strict=True):
        assert [series["y"] for series in figure["series"]] == matrix["values"]
        assert [series["name"] for series in figure["series"]] == ["0", "1", "2", "final"]
    assert section["warnings"] == found["warnings"]


def test_several_sets_have_sections_of_their_own(gramian, model, corpus, moments, tmp_path):
    other = tmp_path / "b.moments"
    gramian("collect", model, "--data", corpus / "b.jsonl", *SMALL, "--for", "linears", "-o", other)
    done = gramian("report", moments, other, "-o", tmp_path / "r", "--title", "Two", "--json")
    assert done.code == 0, done.err
    assert done.json["sections"] == [
        "collected-1",
        "inspect-1",
        "collected-2",
        "inspect-2",
        "left-out",
    ]
    titles = [section["title"] for section in anchors(tmp_path / "r").values()]
    assert len(set(titles)) == len(titles)
    assert titles[3].endswith("(b.moments)")
    why = {(item["section"], item["moments"]): item["why"] for item in done.json["left_out"]}
    assert "--for lens" in why["lens", str(other)]
    assert "<title>Two</title>" in (tmp_path / "r" / "index.html").read_text()


def test_nothing_is_replaced_unasked(gramian, moments, tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "data.json").write_text("mine")
    done = gramian("report", moments, "-o", tmp_path / "r")
    assert done.code == 2
    assert "data.json exists; choose another name, or force=True (--force)" in done.err
    assert not (tmp_path / "r" / "index.html").exists()
    assert gramian("report", moments, "-o", tmp_path / "r", "--force").code == 0


def test_refusals(gramian, model, corpus, moments, tmp_path):
    out = ("-o", tmp_path / "r")
    other = tiny.save(tmp_path / "other", seed=3)
    cases = [
        (("report", tmp_path / "none.moments", *out), "none.moments"),
        (("report", moments, "--eval", corpus / "b.jsonl", *out), "--model"),
        (("report", moments, "--model", other, *out), "is not what the moments are of"),
        (("report", moments, "--model", model, "--eval", "gone.txt", *out), "gone.txt"),
    ]
    for arguments, expected in cases:
        done = gramian(*arguments)
        assert done.code == 2, arguments
        assert expected in done.err
        assert "Traceback" not in done.err
    assert not (tmp_path / "r").exists()


def test_damage_is_an_error_and_not_a_section_left_out(gramian, moments, tmp_path):
    import shutil

    copy = tmp_path / "copy.moments"
    shutil.copytree(moments, copy)
    part = next(copy.glob("pair*.safetensors"))
    data = bytearray(part.read_bytes())
    data[-5] ^= 1
    part.write_bytes(bytes(data))
    done = gramian("report", copy, "-o", tmp_path / "r")
    assert done.code == 2
    assert part.name in done.err
    assert not (tmp_path / "r").exists()


def test_help_has_examples(gramian):
    done = gramian("report", "--help")
    assert done.code == 0
    assert "gramian report m.moments" in done.out


def test_single_jobs_write_pages_too(gramian, moments, tmp_path):
    page = tmp_path / "inspect.html"
    done = gramian("inspect", moments, "--plot", page)
    assert done.code == 0, done.err
    assert "<span>inspect</span>" in page.read_text()
    again = gramian("inspect", moments, "--plot", page)
    assert again.code == 2
    assert "force=True (--force)" in again.err


def test_two_networks_against_each_other(gramian, model, corpus, tmp_path):
    other = tiny.save(tmp_path / "other", seed=5)
    path = tmp_path / "ab.moments"
    arguments = ("--data", corpus / "a.jsonl", *SMALL, "--for", "compare", "-o", path)
    done = gramian("collect", model, other, *arguments)
    assert done.code == 0, done.err
    done = gramian("report", path, "--model", model, "-o", tmp_path / "r", "--json")
    assert done.code == 0, done.err
    assert [item["section"] for item in done.json["left_out"]] == ["lens"]
    assert "of two" in done.json["left_out"][0]["why"]
    found = anchors(tmp_path / "r")
    figure = found["compare"]["figures"][0]
    assert (figure["y_title"], figure["x_title"]) == (f"layer of {model}", f"layer of {other}")
    assert [series["name"] for series in figure["series"]] == ["0", "1", "2", "final"]
    names = {s["name"] for s in found["inspect"]["figures"][0]["series"]}
    assert names == {"a: resid_pre", "b: resid_pre"}
