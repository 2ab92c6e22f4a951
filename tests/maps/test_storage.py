"""Maps in files: bit for bit, whole or not at all, and suspicious of what they read."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from safetensors import safe_open
from safetensors.torch import save_file

from gramian.errors import GramianError
from gramian.maps import (
    Affine,
    Chain,
    Dense,
    Identity,
    IdentityPlus,
    LinearMap,
    LowRank,
    Tag,
    load_map,
    map_from,
)

from .zoo import any_map, normal, permutation

NESTED = Affine(
    Chain(
        (
            IdentityPlus(LowRank(normal(1, 4, 2), normal(2, 2, 4)), tags={Tag.SYMMETRIC}),
            permutation(3, 4),
            Identity(4),
            Dense(normal(4, 4, 6)),
        )
    ),
    normal(5, 4),
)


def same(left: LinearMap, right: LinearMap) -> bool:
    ours, theirs = left.tensors(), right.tensors()
    return (
        left.spec() == right.spec()
        and ours.keys() == theirs.keys()
        and all(t.dtype == theirs[k].dtype and torch.equal(t, theirs[k]) for k, t in ours.items())
    )


@settings(max_examples=50, deadline=None, derandomize=True)
@given(any_map())
def test_round_trip_is_bit_for_bit(tmp_path_factory: Any, map: LinearMap) -> None:
    path = tmp_path_factory.mktemp("maps") / "one.safetensors"
    assert map.save(path) == path
    assert same(load_map(path), map)
    assert same(map_from(json.loads(json.dumps(map.spec())), map.tensors()), map)
    assert os.listdir(path.parent) == ["one.safetensors"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_round_trip_of_nested_maps_in_every_dtype(tmp_path: Path, dtype: torch.dtype) -> None:
    map = NESTED.to(dtype=dtype)
    assert same(load_map(map.save(tmp_path / "nested")), map)


def test_shared_and_transposed_memory_is_written(tmp_path: Path) -> None:
    basis = torch.linalg.qr(normal(1, 5, 2)).Q
    map = Chain((IdentityPlus(LowRank(basis, basis.T)), Dense(basis), Dense(basis.T)))
    assert same(load_map(map.save(tmp_path / "shared")), map)


def test_header_tells_kind_shape_and_tags(tmp_path: Path) -> None:
    path = Dense(torch.eye(3), tags={Tag.ORTHOGONAL}).save(tmp_path / "q.safetensors")
    with safe_open(path, framework="pt") as file:
        spec = json.loads(file.metadata()["spec"])
    assert spec == {"kind": "Dense", "shape": [3, 3], "tags": ["orthogonal"]}


def test_an_existing_file_stays_unless_forced(tmp_path: Path) -> None:
    first, second = Identity(3), Dense(normal(1, 2, 2))
    path = first.save(tmp_path / "map")
    with pytest.raises(GramianError, match="exists; choose another name, or force=True"):
        second.save(path)
    assert same(load_map(path), first)
    second.save(path, force=True)
    assert same(load_map(path), second)


def test_a_folder_or_a_missing_folder(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "map"):
        with pytest.raises(GramianError, match="it is a folder, or its folder does not exist"):
            Identity(3).save(path, force=True)
        with pytest.raises(GramianError, match="is no file"):
            load_map(path)


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = Identity(3).save(tmp_path / "map")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(GramianError, match=r"cannot write .*map"):
            Dense(normal(1, 100, 100)).save(path, force=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert same(load_map(path), Identity(3))
    assert os.listdir(tmp_path) == ["map"]


def test_an_interrupted_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Identity(3).save(tmp_path / "map")
    assert os.listdir(tmp_path) == []


def test_every_truncation_and_every_flipped_byte_is_refused(tmp_path: Path) -> None:
    whole = NESTED.save(tmp_path / "map").read_bytes()
    damaged = tmp_path / "damaged"
    for end in range(0, len(whole), 7):
        damaged.write_bytes(whole[:end])
        with pytest.raises(GramianError, match="damaged"):
            load_map(damaged)
    padding = whole[8:].index(b"}}") + 10  # blanks may follow the header
    header = 8 + int.from_bytes(whole[:8], "little")
    for i in range(0, len(whole), 3):
        if padding <= i < header:
            continue
        damaged.write_bytes(whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :])
        try:
            loaded = load_map(damaged)
        except GramianError:
            continue
        assert same(loaded, NESTED), f"byte {i}"


def write(path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str] | None) -> Path:
    save_file(tensors, path, metadata=metadata)
    return path


def test_other_files_are_refused(tmp_path: Path) -> None:
    some = {"weight": torch.eye(2)}
    with pytest.raises(GramianError, match="holds no map written by save"):
        load_map(write(tmp_path / "a", some, None))
    with pytest.raises(GramianError, match="format version '99', this release reads 1"):
        load_map(write(tmp_path / "b", some, {"gramian.map": "99"}))
    with pytest.raises(GramianError, match="SHA-256 does not match"):
        load_map(write(tmp_path / "c", some, {"gramian.map": "1", "spec": "{}"}))
    (tmp_path / "d").write_bytes(b"\x80\x04\x95pickle")
    with pytest.raises(GramianError, match="no readable safetensors file"):
        load_map(tmp_path / "d")


def deep(levels: int) -> dict[str, Any]:
    spec: dict[str, Any] = {"kind": "Identity", "shape": [2, 2], "tags": []}
    for _ in range(levels):
        spec = {"kind": "Chain", "shape": [2, 2], "tags": [], "parts": {"0": spec}}
    return spec


def dense(**changes: Any) -> dict[str, Any]:
    return {"kind": "Dense", "shape": [2, 2], "tags": [], **changes}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (None, "has no kind"),
        ([], "has no kind"),
        ({"kind": 3}, "has no kind"),
        (dense(kind="Magic"), "unknown kind 'Magic'; the kinds are Identity, "),
        (dense(kind="Tensor"), "unknown kind"),
        (dense(shape=None), "has shape None"),
        (dense(shape=[2, "2"]), "expected \\[out, in\\]"),
        (dense(shape=[2, True]), "expected \\[out, in\\]"),
        (dense(shape=[3, 2]), "has shape \\[3, 2\\]"),
        (dense(tags="orthogonal"), "expected a list of names"),
        (dense(tags=[["x"]]), "expected a list of names"),
        (dense(tags=["fast"]), "unknown tag in \\['fast'\\]"),
        (dense(parts=[]), "expected named specs"),
        (dense(parts={"map": deep(0)}), "cannot have the parts \\['map'\\]"),
        (dense(parts={"tags": deep(0)}), "cannot have the parts|parts"),
        (dense(kind="Affine"), "lacks its tensors \\['bias'\\]"),
        (dense(kind="LowRank"), "lacks its tensors \\['up', 'down'\\]"),
        (dense(kind="Permutation"), "lacks its tensors \\['index'\\]"),
        (dense(kind="Identity"), "tensors \\['weight'\\] belong to no part"),
        (dense(kind="Identity", shape=[-2, -2]), "expected 1 or more"),
        (dense(kind="Identity", shape=[2, 3]), "has shape \\[2, 3\\]"),
        (dense(kind="Identity", parts={"0": deep(0)}), "and parts \\['0'\\]"),
        (dense(kind="IdentityPlus", parts={"update": deep(0)}), "expected a LowRank"),
        (dense(kind="IdentityPlus"), "cannot have the parts \\[\\]"),
        (dense(kind="Chain"), "at least one factor"),
        (dense(kind="Chain", parts={"1": deep(0)}), "cannot have the parts \\['1'\\]"),
        (deep(9), "nested more than 8 deep"),
        (deep(300), "nested more than 8 deep"),
    ],
)
def test_hostile_specs(spec: Any, message: str) -> None:
    with pytest.raises(GramianError, match=message):
        map_from(spec, {"weight": torch.eye(2)})


def test_integers_and_a_wrong_permutation() -> None:
    with pytest.raises(GramianError, match="weight has dtype int64"):
        map_from(dense(), {"weight": torch.eye(2, dtype=torch.int64)})
    with pytest.raises(GramianError, match=r"index is no permutation of 0\.\.1"):
        map_from(dense(kind="Permutation"), {"index": torch.tensor([5, 5])})
