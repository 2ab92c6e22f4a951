"""Files that are not what they say: refused before anything is read at their word."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file as load_tensors
from safetensors.torch import save_file

from gramian.errors import GramianError
from gramian.moments.momentset import MomentSet
from tests.moments.sets import SITE_FILE as SITE
from tests.moments.sets import Index, make_data, part, replace_part, rewrite, seal, write_set

DATA = make_data(0)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sets") / "x.moments"
    write_set(path, DATA)
    return path


@pytest.fixture
def folder(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "x.moments"))


HOSTILE: dict[str, tuple[Callable[[Index], object], str]] = {
    "traversal": (lambda i: part(i).update(file="../../etc/passwd"), "not a plain file name"),
    "absolute": (lambda i: part(i).update(file="/etc/passwd"), "not a plain file name"),
    "backslash": (lambda i: part(i).update(file="a\\b"), "not a plain file name"),
    "dots": (lambda i: part(i).update(file="a..b"), "not a plain file name"),
    "file twice": (lambda i: i["parts"][1].update(file=SITE), "the file .* is listed twice"),
    "site twice": (
        lambda i: i["parts"].append(part(i) | {"file": "other.safetensors"}),
        "the part 'site 0.resid_pre' is listed twice",
    ),
    "huge shape": (
        lambda i: part(i)["tensors"]["train.rows.mean"].update(shape=[2**52]),
        r"'train\.rows\.mean' is F64 \[4503599627370496\], expected F64 \[6\]",
    ),
    "huge width": (lambda i: part(i).update(dims=[2**40]), "expected F64"),
    "negative width": (lambda i: part(i).update(dims=[-1]), "a list of sizes"),
    "wrong dtype": (
        lambda i: part(i)["tensors"]["train.rows.mean"].update(dtype="F32"),
        "expected F64",
    ),
    "no scale": (
        lambda i: part(i)["tensors"]["train.rows.scatter"].update(dtype="F32"),
        "'train.rows.scatter' is there without 'train.rows.scatter.scale'",
    ),
    "other storage": (lambda i: i.update(storage="float32"), "the index says storage float32"),
    "extra tensor": (
        lambda i: part(i)["tensors"].update({"train.more": {"dtype": "F64", "shape": [1]}}),
        "unexpected tensor 'train.more' in a site",
    ),
    "missing tensor": (
        lambda i: part(i)["tensors"].pop("train.rows.mean"),
        "without 'train.rows.mean'",
    ),
    "missing fold": (lambda i: part(i)["counts"].pop("train"), "unexpected tensor 'train"),
    "unknown fold": (lambda i: i.update(folds=["train", "test"]), "folds .*expected some of"),
    "negative count": (lambda i: i["counts"]["train"].update(rows=-3), "'rows' is -3, expected"),
    "negative rows": (lambda i: part(i)["counts"]["train"].update(rows=-3), "'rows' is -3"),
    "other rows": (
        lambda i: part(i)["counts"]["train"].update(rows=41),
        "the fold 'train' has 41 rows of '0.resid_pre' and 40 of the pair",
    ),
    "other sinks": (
        lambda i: part(i)["counts"]["train"].update(sinks=9),
        "the fold 'train' holds 8 sinks, the index says 9",
    ),
    "count as text": (lambda i: i["counts"]["train"].update(tokens="9"), "'tokens' is '9'"),
    "size": (lambda i: part(i).update(bytes=10**15), "the index says 1000000000000000"),
    "hash": (lambda i: part(i).update(sha256="0" * 63), "not 64 hexadecimal digits"),
    "unknown key": (lambda i: i.update(extra=1), "unknown key 'extra'"),
    "missing key": (lambda i: i.pop("storage"), "'storage' is missing"),
    "kind": (lambda i: part(i).update(kind="pickle"), "'kind' is 'pickle', expected one of"),
    "pair without source": (lambda i: i["parts"].remove(part(i)), "without the site '0.resid_pre'"),
    "parts": (lambda i: i.update(parts={}), "'parts' is {}, expected a list"),
    "recipe": (lambda i: i["recipe"].update(length=0), "'length' is 0, expected"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_index(folder: Path, name: str) -> None:
    change, message = HOSTILE[name]
    rewrite(folder, change)
    with pytest.raises(GramianError, match=message) as caught:
        MomentSet.open(folder).moments("0.resid_pre", sinks=True)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"format": 1', b'"format": 1, "format": 1', "the key 'format' appears twice"),
        (b'"length": 128', b'"length": NaN', "NaN is not a finite number"),
        (b'"factor": 10.0', b'"factor": 1e999', "expected a finite number"),
        (b'"factor": 10.0', b'"factor": ' + b"9" * 400, "expected a finite number"),
    ],
)
def test_hostile_json(folder: Path, old: bytes, new: bytes, message: str) -> None:
    rewrite(folder, lambda index: None)
    text = (folder / "index.json").read_bytes()
    assert old in text
    seal(folder, text.replace(old, new, 1))
    with pytest.raises(GramianError, match=message):
        MomentSet.open(folder)


def test_links_and_special_files(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.safetensors"
    shutil.move(folder / SITE, outside)
    (folder / SITE).symlink_to(outside)
    with pytest.raises(GramianError, match=f"{SITE}: a link that leaves the folder"):
        MomentSet.open(folder)
    (folder / SITE).unlink()
    os.mkfifo(folder / SITE)
    with pytest.raises(GramianError, match=f"{SITE}: not a regular file"):
        MomentSet.open(folder)


def safetensors_bytes(header: object, payload: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + payload


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (struct.pack("<Q", 2**60) + b"{}", "cannot hold a header of"),
        (safetensors_bytes(b"{"), "not valid JSON"),
        (safetensors_bytes({}), "in the file and"),
        (
            safetensors_bytes(
                {"a": {"dtype": "F64", "shape": [2**40], "data_offsets": [0, 8 * 2**40]}}
            ),
            "truncated or changed: its header declares",
        ),
        (
            safetensors_bytes(
                {
                    "a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
                    "b": {"dtype": "U8", "shape": [4], "data_offsets": [2, 6]},
                },
                b"123456",
            ),
            "overlap or leave a gap",
        ),
        (
            safetensors_bytes(
                {"a": {"dtype": "U8", "shape": [9], "data_offsets": [0, 4]}}, b"1234"
            ),
            "declares 9 bytes",
        ),
        (
            safetensors_bytes(
                {"a": {"dtype": "Q8", "shape": [4], "data_offsets": [0, 4]}}, b"1234"
            ),
            "'dtype' is 'Q8'",
        ),
    ],
)
def test_hostile_part(folder: Path, data: bytes, message: str) -> None:
    replace_part(folder, data)
    for verify in ("lazy", False):
        with pytest.raises(GramianError, match=f"{SITE}.*{message}"):
            MomentSet.open(folder, verify=verify).moments("0.resid_pre")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("train.rows.scatter", float("nan"), "'rows.scatter' holds NaN or infinity"),
        ("train.rows.mean", float("inf"), "'rows.mean' holds NaN or infinity"),
        ("train.sinks.thin", float("nan"), "'train.sinks.thin' holds NaN or infinity"),
        ("train.rows.sums", -40.0, "negative count"),
        ("train.rows.sums", 41.0, "holds 41 rows, the index says 40"),
        ("train.rows.scatter", -1e9, "negative diagonal"),
    ],
)
def test_impossible_numbers(folder: Path, name: str, value: float, message: str) -> None:
    tensors = load_tensors(folder / SITE)
    tensors[name].view(-1)[0] = value
    save_file(tensors, folder / SITE)
    replace_part(folder, (folder / SITE).read_bytes())
    with pytest.raises(GramianError, match=f"{SITE}.*{message}"):
        MomentSet.open(folder).moments("0.resid_pre", sinks=True)


def test_impossible_numbers_of_a_pair(folder: Path) -> None:
    file = "pair.0.resid_pre--1.mlp_out.safetensors"
    for name, value, message in (
        ("train.rows.cross", float("nan"), "'rows.cross' holds NaN"),
        ("train.rows.quartic.xy", float("inf"), "'rows.quartic.xy' holds NaN or infinity"),
        ("train.rows.y.sums", 39.0, "39 rows in the block"),
    ):
        tensors = load_tensors(folder / file)
        tensors[name] = tensors[name].clone()
        tensors[name].view(-1)[0] = value
        whole = (folder / file).read_bytes()
        save_file(tensors, folder / file)
        replace_part(folder, (folder / file).read_bytes(), file)
        with pytest.raises(GramianError, match=message):
            MomentSet.open(folder).joint("0.resid_pre", "1.mlp_out")
        replace_part(folder, whole, file)


def test_scales_must_be_above_zero(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    write_set(folder, DATA, storage="float32")
    tensors = load_tensors(folder / SITE)
    tensors["train.rows.scatter.scale"][1] = 0.0
    save_file(tensors, folder / SITE)
    replace_part(folder, (folder / SITE).read_bytes())
    with pytest.raises(GramianError, match=r"'rows\.scatter\.scale' is not above 0"):
        MomentSet.open(folder).moments("0.resid_pre")


def test_random_damage_is_refused_or_harmless(folder: Path) -> None:
    """Whatever bytes change, with every hash made to fit: a GramianError or an answer."""
    chance = random.Random(0)
    whole = {file.name: file.read_bytes() for file in folder.iterdir()}
    parts = [name for name in whole if name.endswith(".safetensors")]
    refused = 0
    for turn in range(60):
        for name, data in whole.items():
            (folder / name).write_bytes(data)
        name = "index.json" if turn % 2 else chance.choice(parts)
        spoiled = bytearray(whole[name])
        header = len(spoiled) if turn % 2 else 8 + int.from_bytes(spoiled[:8], "little")
        place = chance.randrange(header)
        if turn % 3:
            spoiled[place] = chance.choice(b'0123456789-.e"{}[],:nt\x00\xff')
        else:
            del spoiled[place : place + chance.randrange(1, 30)]
        try:
            if turn % 2:
                seal(folder, bytes(spoiled))
            else:
                replace_part(folder, bytes(spoiled), name)
            stored = MomentSet.open(folder)
            for pair in stored.pairs:
                stored.joint(pair.x, pair.y, sinks=True, increment=pair.increment)
        except GramianError:
            refused += 1
    assert refused > 30
