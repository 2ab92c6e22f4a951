"""Reading with distrust: every way in which a folder can be wrong is refused, and named."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from gramian.errors import GramianError
from gramian.moments.momentset import MomentSet
from tests.moments.sets import (
    PARTNER,
    RECIPE,
    assert_same,
    make_data,
    part,
    rewrite,
    seal,
    write_set,
)
from tests.moments.sets import (
    SITE_FILE as SITE,
)

DATA = make_data(0)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sets") / "x.moments"
    write_set(path, DATA)
    return path


@pytest.fixture
def folder(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "x.moments"))


def test_a_reader_that_knows_only_the_documentation(folder: Path) -> None:
    index = json.loads((folder / "index.json").read_bytes())
    assert (index["magic"], index["format"]) == ("gramian-moments", 1)
    entry = part(index)
    data = (folder / SITE).read_bytes()
    assert len(data) == entry["bytes"]
    assert hashlib.sha256(data).hexdigest() == entry["sha256"]
    tensors = load_file(folder / SITE)
    assert {name: list(t.shape) for name, t in tensors.items()} == {
        name: spec["shape"] for name, spec in entry["tensors"].items()
    }
    lower = np.zeros((6, 6))
    lower[np.tril_indices(6)] = tensors["train.rows.scatter"]
    scatter = lower + np.tril(lower, -1).T
    rows = DATA.rows["train"]["0.resid_pre"].numpy()
    assert np.allclose(scatter, np.cov(rows.T, ddof=0) * len(rows), rtol=1e-12)
    assert np.allclose(tensors["train.rows.mean"], rows.mean(0))
    assert tensors["train.rows.sums"].tolist() == [40.0, 40.0]
    assert np.array_equal(tensors["train.sinks.thin"], DATA.thin["train"]["0.resid_pre"].numpy())
    pair = load_file(folder / "pair.0.resid_pre--1.resid_pre.increment.safetensors")
    step = DATA.rows["train"]["1.resid_pre"].numpy() - rows
    cross = (rows - rows.mean(0)).T @ (step - step.mean(0))
    assert np.allclose(pair["train.rows.cross"], cross, rtol=1e-10)


def test_only_the_index_is_read_on_open(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a part was read")

    with monkeypatch.context() as patch:
        patch.setattr("gramian.moments.parts.read_header", never)
        patch.setattr("gramian.moments.parts.file_sha256", never)
        stored = MomentSet.open(folder)
    assert not stored.describe()["verified"]
    stored.moments("0.resid_pre")
    sites = stored.describe()["sites"]
    assert [site["verified"] for site in sites] == [True, False, False]  # type: ignore[attr-defined]


@pytest.mark.parametrize("file", [SITE, "pair.0.resid_pre--1.mlp_out.safetensors"])
def test_any_flipped_bit_of_a_part_is_found(folder: Path, file: str) -> None:
    whole = (folder / file).read_bytes()
    for place in (0, 9, len(whole) // 2, len(whole) - 1):
        spoiled = bytearray(whole)
        spoiled[place] ^= 1
        (folder / file).write_bytes(spoiled)
        stored = MomentSet.open(folder)
        with pytest.raises(GramianError, match=file):
            stored.joint("0.resid_pre", "1.mlp_out", sinks=True)
        with pytest.raises(GramianError, match=file):
            stored.verify()
        with pytest.raises(GramianError, match=file):
            MomentSet.open(folder, verify=True)


def test_any_flipped_bit_of_the_index_is_found(folder: Path) -> None:
    for name in ("index.json", "index.json.sha256"):
        whole = (folder / name).read_bytes()
        for place in range(0, len(whole), max(1, len(whole) // 60)):
            spoiled = bytearray(whole)
            spoiled[place] ^= 2
            (folder / name).write_bytes(spoiled)
            with pytest.raises(GramianError, match=r"index\.json"):
                MomentSet.open(folder)
        (folder / name).write_bytes(whole)
    MomentSet.open(folder)


def test_unverified_reading_still_checks_structure(folder: Path) -> None:
    whole = bytearray((folder / SITE).read_bytes())
    whole[-1] ^= 1
    (folder / SITE).write_bytes(whole)
    assert MomentSet.open(folder, verify=False).moments("0.resid_pre").count == 40
    with pytest.raises(GramianError, match="verify is 'no'"):
        MomentSet.open(folder, verify="no")


@pytest.mark.parametrize("name", ["index.json", "index.json.sha256", SITE])
def test_truncated_or_missing(folder: Path, name: str) -> None:
    whole = (folder / name).read_bytes()
    for length in (0, 7, len(whole) - 1):
        (folder / name).write_bytes(whole[:length])
        with pytest.raises(GramianError, match=name):
            MomentSet.open(folder)
    (folder / name).unlink()
    with pytest.raises(GramianError, match=name):
        MomentSet.open(folder)


def test_not_a_moments_folder(tmp_path: Path) -> None:
    with pytest.raises(GramianError, match="nowhere is not there, not a moments folder"):
        MomentSet.open(tmp_path / "nowhere")
    seal(tmp_path, b"[]")
    with pytest.raises(GramianError, match=r"index\.json: \[\], expected an object"):
        MomentSet.open(tmp_path)
    seal(tmp_path, b'{"weight_map": {}}')
    with pytest.raises(GramianError, match="no magic 'gramian-moments'"):
        MomentSet.open(tmp_path)
    seal(tmp_path, b"[" * 100_000)
    with pytest.raises(GramianError, match="not valid JSON"):
        MomentSet.open(tmp_path)


def test_another_version(folder: Path) -> None:
    rewrite(folder, lambda index: index.update(format=7))
    with pytest.raises(GramianError, match="format 7, this gramian reads 1, 2 and 3; upgrade"):
        MomentSet.open(folder)
    rewrite(folder, lambda index: index.update(format=0))
    with pytest.raises(GramianError, match="reads 1, 2 and 3; collect it again"):
        MomentSet.open(folder)


def test_only_a_set_of_two_networks_is_of_format_2(folder: Path, tmp_path: Path) -> None:
    joint = tmp_path / "joint.moments"
    write_set(joint, DATA, recipe=replace(RECIPE, partner=PARTNER))
    assert json.loads((joint / "index.json").read_bytes())["format"] == 2
    assert MomentSet.open(joint).recipe.partner == PARTNER
    for path, number in ((joint, 1), (folder, 2)):
        rewrite(path, lambda index, number=number: index.update(format=number))
        with pytest.raises(GramianError, match=f"format {number}, but what it states"):
            MomentSet.open(path)


def test_other_files_in_the_folder_do_not_matter(folder: Path) -> None:
    (folder / "README.md").write_text("notes")
    stored = MomentSet.open(folder, verify=True)
    assert_same(stored.moments("1.mlp_out"), write_set(None, DATA).moments("1.mlp_out"))
    assert torch.isfinite(stored.moments("1.mlp_out").scatter).all()
