"""Writing a moments set: whole or not at all, resumable part by part."""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gramian.errors import GramianError
from gramian.moments import tensorfile
from gramian.moments.accumulator import Pair
from gramian.moments.joint import JointMoments
from gramian.moments.moments import Moments
from gramian.moments.momentset import MomentSet
from gramian.moments.state import load_state, save_state
from gramian.moments.writer import MomentSetWriter
from tests.moments.sets import PLAIN, RECIPE, assert_same, make_data, put, write_set

DATA = make_data(0)
ROWS = Moments.from_rows(DATA.rows["train"]["0.resid_pre"])


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def test_the_target_appears_only_when_complete(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "x.moments"
    with MomentSetWriter(target, RECIPE) as writer:
        put(writer, DATA)
        assert not target.exists()
        (working,) = target.parent.iterdir()
        assert working.name == f"x.moments.writing-{os.getpid()}"
        writer.finish(documents=DATA.documents)
    assert [folder.name for folder in target.parent.iterdir()] == ["x.moments"]
    assert sorted(contents(target)) == [
        "documents.safetensors",
        "index.json",
        "index.json.sha256",
        "pair.0.resid_pre--1.mlp_out.safetensors",
        "pair.0.resid_pre--1.resid_pre.increment.safetensors",
        "site.0.resid_pre.safetensors",
        "site.1.mlp_out.safetensors",
        "site.1.resid_pre.safetensors",
    ]


def test_an_exception_or_no_finish_leaves_nothing(tmp_path: Path) -> None:
    with (
        contextlib.suppress(KeyboardInterrupt),
        MomentSetWriter(tmp_path / "x", RECIPE) as writer,
    ):
        writer.put_site("a", "train", ROWS)
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
    with MomentSetWriter(tmp_path / "x", RECIPE) as writer:
        writer.put_site("a", "train", ROWS)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(GramianError, match="closed"):
        writer.put_site("a", "train", ROWS)


def test_an_existing_target(tmp_path: Path) -> None:
    target = tmp_path / "x.moments"
    write_set(target, DATA)
    before = contents(target)
    with pytest.raises(GramianError, match=r"x\.moments exists; choose another name, or force"):
        MomentSetWriter(target, RECIPE)
    with MomentSetWriter(target, RECIPE, force=True) as writer:
        put(writer, make_data(1), folds=("train",))
    assert contents(target) == before
    with MomentSetWriter(target, RECIPE, force=True) as writer:
        put(writer, make_data(1), folds=("train",))
        assert contents(target) == before
        writer.finish()
    assert MomentSet.open(target).documents.count == 0
    assert [folder.name for folder in tmp_path.iterdir()] == ["x.moments"]


def test_force_replaces_only_a_moments_folder(tmp_path: Path) -> None:
    precious = tmp_path / "home"
    precious.mkdir()
    (precious / "letter.txt").write_text("dear")
    with pytest.raises(GramianError, match="not a moments folder; it is not replaced, even"):
        MomentSetWriter(precious, RECIPE, force=True)
    assert (precious / "letter.txt").read_text() == "dear"


@pytest.mark.parametrize("keep", [False, True])
def test_no_space_left(tmp_path: Path, keep: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "x.moments"
    options = {"folder": tmp_path / "x.moments.partial", "keep": True} if keep else {}
    real = tensorfile.write_block

    def full(file: object, block: bytes | memoryview) -> None:
        if len(block) == 8 * 21:  # the packed scatter of order 6
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file, block)  # type: ignore[arg-type]

    writer = MomentSetWriter(target, RECIPE, **options)  # type: ignore[arg-type]
    writer.put_site("b", "train", Moments.from_rows(DATA.rows["train"]["1.mlp_out"]))
    monkeypatch.setattr(tensorfile, "write_block", full)
    with pytest.raises(GramianError, match=r"no space left.*site\.a\.safetensors needs \d+ bytes"):
        writer.put_site("a", "train", ROWS)
    left = [file.name for file in tmp_path.rglob("*.safetensors*")]
    assert left == (["site.b.safetensors"] if keep else [])
    assert not target.exists()


def test_resuming_gives_the_same_folder_byte_for_byte(tmp_path: Path) -> None:
    write_set(tmp_path / "whole.moments", DATA)
    target, partial = tmp_path / "x.moments", tmp_path / "x.moments.partial"
    with (
        contextlib.suppress(KeyboardInterrupt),
        MomentSetWriter(target, RECIPE, folder=partial, keep=True) as writer,
    ):
        put(writer, DATA, folds=("train",))
        save_state(partial, {"a": torch.ones(2)}, {"step": 3})
        raise KeyboardInterrupt
    (partial / "site.0.resid_pre.safetensors.tmp").write_bytes(b"cut short")
    with MomentSetWriter(target, RECIPE, folder=partial, keep=True) as writer:
        assert load_state(partial) is not None
        assert writer.has_site("0.resid_pre", "train")
        assert writer.has_pair(PLAIN, "train")
        assert not writer.has_site("0.resid_pre", "select")
        assert not writer.has_pair(Pair("0.resid_pre", "1.resid_pre"), "train")
        put(writer, DATA, folds=("select", "report"))
        finished = writer.finish(documents=DATA.documents)
    assert not partial.exists()
    assert contents(target) == contents(tmp_path / "whole.moments")
    assert_same(finished.moments("0.resid_pre"), ROWS)


def test_a_fold_written_twice_is_replaced() -> None:
    with MomentSetWriter(None, RECIPE) as writer:
        writer.put_site("a", "train", Moments.from_rows(DATA.rows["report"]["0.resid_pre"]))
        writer.put_site("a", "train", ROWS)
        assert_same(writer.finish().moments("a"), ROWS)


def test_a_working_folder_of_another_recipe(tmp_path: Path) -> None:
    partial = tmp_path / "x.partial"
    options = {"folder": partial, "keep": True}
    MomentSetWriter(tmp_path / "x", RECIPE, **options)  # type: ignore[arg-type]
    other = replace(RECIPE, length=64)
    with pytest.raises(GramianError, match="something else: length: 128 against 64"):
        MomentSetWriter(tmp_path / "x", other, **options)  # type: ignore[arg-type]
    with pytest.raises(GramianError, match="storage: 'float64' against 'float32'"):
        MomentSetWriter(tmp_path / "x", RECIPE, storage="float32", **options)  # type: ignore[arg-type]


def test_names_that_are_not_plain(tmp_path: Path) -> None:
    names = ["../up", "a/b", "a\\b", "A", "a", "x--y", "12.attn[3]", "é", ".", "..", "n" * 300]
    with MomentSetWriter(tmp_path / "x", RECIPE) as writer:
        for i, name in enumerate(names):
            writer.put_site(name, "train", Moments.from_rows(torch.full((3, 2), float(i))))
        writer.put_pair(
            Pair("x--y", "a"), "train", JointMoments.from_rows(torch.ones(3, 2), torch.ones(3, 2))
        )
        writer.finish()
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["x"]
    stored = MomentSet.open(tmp_path / "x", verify=True)
    assert set(stored.sites) == set(names)
    for i, name in enumerate(names):
        assert float(stored.moments(name).mean[0]) == i


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(GramianError, match="storage is 'float16'"):
        MomentSetWriter(None, RECIPE, storage="float16")
    with pytest.raises(GramianError, match="keep=True needs"):
        MomentSetWriter(tmp_path / "x", RECIPE, keep=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(GramianError, match="cannot make the folder"):
        MomentSetWriter(tmp_path / "file" / "x", RECIPE)
    with MomentSetWriter(None, RECIPE) as writer:
        with pytest.raises(GramianError, match="fold is 'test'"):
            writer.put_site("a", "test", ROWS)
        with pytest.raises(GramianError, match="NaN or infinity in 'scatter'"):
            writer.put_site("a", "train", replace(ROWS, scatter=ROWS.scatter * float("nan")))
        with pytest.raises(GramianError, match=r"thin sink rows of 'a' are \(2, 3\)"):
            writer.put_site("a", "train", ROWS, (None, torch.ones(2, 3)))
        writer.put_site("a", "train", ROWS)
        with pytest.raises(GramianError, match="site a in the fold 'select' is diagonal"):
            writer.put_site("a", "select", ROWS.diagonal())
        with pytest.raises(GramianError, match="is not a lower-case hexadecimal SHA-256"):
            writer.finish(documents={"train": ["no"]})
        with pytest.raises(GramianError, match="'sinks' is -1"):
            writer.finish(counts={"train": {"sinks": -1}})
        rows = DATA.rows["train"]
        both = JointMoments.from_rows(rows["1.mlp_out"], rows["0.resid_pre"])
        writer.put_pair(Pair("b", "a"), "train", both)
        with pytest.raises(GramianError, match="pair b -> a is there without the site 'b'"):
            writer.finish()


def test_no_space_for_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: object, block: bytes | memoryview) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    writer = MomentSetWriter(tmp_path / "x", RECIPE)
    writer.put_site("a", "train", ROWS)
    monkeypatch.setattr(tensorfile, "write_block", full)
    with pytest.raises(GramianError, match=r"no space left.*index\.json\S* needs \d+ bytes"):
        writer.finish()
    with pytest.raises(GramianError, match=r"no space left.*work\.json needs"):
        MomentSetWriter(tmp_path / "y", RECIPE)
    assert list(tmp_path.iterdir()) == []
