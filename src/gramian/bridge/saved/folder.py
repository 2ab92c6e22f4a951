"""The folder of a bridge: bridge.json, map.safetensors, moments.safetensors."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from gramian.bridge.saved.bridge import DIRECTIONS, SavedBridge
from gramian.bridge.saved.space import Space
from gramian.errors import GramianError
from gramian.maps import load_map
from gramian.moments import FOLDS, JointMoments, Moments
from gramian.moments.fields import Fields, parse_json
from gramian.moments.format import gramian_version
from gramian.moments.tensorfile import (
    file_sha256,
    json_bytes,
    read_header,
    write_bytes,
    write_tensors,
)
from gramian.networks.staging import staged_folder

MAGIC, VERSION = "gramian-bridge", 1
INDEX, MAP, MOMENTS = "bridge.json", "map.safetensors", "moments.safetensors"
INDEX_LIMIT = 1 << 24
"""Bytes of bridge.json; larger ones are refused before they are read."""


def write_bridge(bridge: SavedBridge, path: Path, *, force: bool) -> Path:
    """Write the folder; see `SavedBridge.save`."""
    if path.exists() and force and not _replaceable(path):
        raise GramianError(f"{path} is there and is no bridge; it is not replaced, choose another")
    unknown = sorted(set(bridge.folds) - set(FOLDS))
    if unknown:
        raise GramianError(f"fold {unknown[0]!r}, expected {', '.join(FOLDS)}")
    with staged_folder(path, force=force) as folder:
        bridge.map.to(device="cpu").save(folder / MAP)
        files = {MAP: _entry(folder / MAP)}
        if bridge.folds:
            size, sha256 = write_tensors(folder / MOMENTS, _packed(bridge.folds))
            files[MOMENTS] = {"bytes": size, "sha256": sha256}
        document = {
            "magic": MAGIC,
            "format": VERSION,
            "gramian": gramian_version(),
            "direction": bridge.direction,
            "method": bridge.method,
            "pairs": bridge.pairs,
            "paired": bridge.paired,
            "normalise": bridge.normalise,
            "source": bridge.source.to_json(),
            "target": bridge.target.to_json(),
            "folds": sorted(bridge.folds),
            "report": dict(bridge.report),
            "files": files,
        }
        try:
            document = document | {"sha256": _digest(document)}
            write_bytes(folder / INDEX, json_bytes(document))
        except (TypeError, ValueError) as error:
            raise GramianError(f"the report of a bridge must be JSON: {error}") from error
    return path


def open_bridge(path: str | Path) -> SavedBridge:
    """Read a folder that `SavedBridge.save` wrote, and verify all of it.

    Raises
    ------
    GramianError : no bridge there, another version, or anything changed after it was written;
        the message names the file.
    """
    folder = Path(path)
    index = folder / INDEX
    if not index.is_file():
        raise GramianError(f"{folder} is no bridge: there is no {INDEX} in it; write one with fit")
    if index.stat().st_size > INDEX_LIMIT:
        raise GramianError(f"{index}: larger than {INDEX_LIMIT} bytes; not a bridge of ours")
    raw = parse_json(index.read_bytes(), str(index))
    document = Fields(raw, str(index))
    if "magic" not in document or document.text("magic") != MAGIC:
        raise GramianError(f"{index} was not written by gramian bridge; expected magic {MAGIC!r}")
    version = document.integer("format", 1)
    if version != VERSION:
        raise GramianError(
            f"{index}: format {version}, this release reads {VERSION}; use a newer release"
        )
    digest = document.text("sha256")
    assert isinstance(raw, dict)
    if digest != _digest({key: value for key, value in raw.items() if key != "sha256"}):
        raise GramianError(f"{index} was changed after it was written; fit the bridge again")
    document.text("gramian")
    report = document.value("report")
    if not isinstance(report, dict):
        raise GramianError(f"{index}: report is {type(report).__name__}, expected an object")
    files = document.fields("files")
    folds = document.texts("folds")
    source = Space.from_json(document.fields("source"))
    target = Space.from_json(document.fields("target"))
    _verify(folder, files, MAP)
    read: dict[str, JointMoments] = {}
    if folds:
        _verify(folder, files, MOMENTS)
        read = _unpacked(folder / MOMENTS, folds, source.dim, target.dim)
    files.close()
    bridge = SavedBridge(
        load_map(folder / MAP),
        source,
        target,
        document.text("direction", DIRECTIONS),
        document.text("method"),
        document.integer("pairs"),
        document.flag("normalise"),
        report,
        read,
        document.flag("paired"),
    )
    document.close()
    return bridge


def _replaceable(path: Path) -> bool:
    return path.is_dir() and ((path / INDEX).is_file() or not any(path.iterdir()))


def _entry(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": file_sha256(path)}


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json_bytes(dict(document))).hexdigest()


def _verify(folder: Path, files: Fields, name: str) -> None:
    entry = files.fields(name)
    path = folder / name
    size, sha256 = entry.integer("bytes"), entry.text("sha256")
    entry.close()
    if path.is_symlink() or not path.is_file():
        raise GramianError(f"{path}: missing, though {INDEX} names it; fit the bridge again")
    if path.stat().st_size != size or file_sha256(path) != sha256:
        raise GramianError(f"{path} was changed after it was written; fit the bridge again")
    read_header(path)


def _packed(folds: Mapping[str, JointMoments]) -> dict[str, Tensor]:
    tensors = {}
    for fold, joint in folds.items():
        tensors[f"{fold}.cross"] = joint.cross
        for side, moments in (("x", joint.x), ("y", joint.y)):
            tensors[f"{fold}.{side}.counts"] = torch.tensor(
                [moments.count, moments.count2], dtype=torch.float64
            )
            tensors[f"{fold}.{side}.mean"] = moments.mean
            # the lower triangle, row by row; of diagonal moments the diagonal
            scatter = moments.scatter
            if not moments.is_diagonal:
                rows, columns = torch.tril_indices(moments.d, moments.d)
                scatter = scatter[rows, columns]
            tensors[f"{fold}.{side}.scatter"] = scatter
    return tensors


def _unpacked(path: Path, folds: tuple[str, ...], dx: int, dy: int) -> dict[str, JointMoments]:
    if len(set(folds)) != len(folds) or set(folds) - set(FOLDS):
        raise GramianError(f"{path}: folds {list(folds)}, expected some of {', '.join(FOLDS)}")
    tensors = safetensors.torch.load_file(path)
    result = {}
    for fold in folds:
        x, y = (_moments(tensors, f"{fold}.{side}", d, path) for side, d in (("x", dx), ("y", dy)))
        result[fold] = JointMoments(x, y, _taken(tensors, f"{fold}.cross", [(dx, dy)], path))
    if tensors:
        raise GramianError(f"{path}: tensor {min(tensors)!r} belongs to no fold")
    return result


def _moments(tensors: dict[str, Tensor], name: str, d: int, path: Path) -> Moments:
    count, count2 = _taken(tensors, f"{name}.counts", [(2,)], path).tolist()
    mean = _taken(tensors, f"{name}.mean", [(d,)], path)
    stored = _taken(tensors, f"{name}.scatter", [(d * (d + 1) // 2,), (d,)], path)
    if count < 0 or count2 < 0:
        raise GramianError(f"{path}: {name} counts {count} rows")
    if len(stored) == d and d > 1:
        return Moments(count, count2, mean, stored)
    scatter = torch.empty(d, d, dtype=torch.float64)
    rows, columns = torch.tril_indices(d, d)
    scatter[rows, columns] = stored
    scatter[columns, rows] = stored
    return Moments(count, count2, mean, scatter)


def _taken(
    tensors: dict[str, Tensor], name: str, shapes: list[tuple[int, ...]], path: Path
) -> Tensor:
    tensor = tensors.pop(name, None)
    if tensor is None or tensor.dtype != torch.float64 or tuple(tensor.shape) not in shapes:
        found = "missing" if tensor is None else f"{tensor.dtype} {tuple(tensor.shape)}"
        raise GramianError(f"{path}: {name} is {found}, expected float64 {shapes[0]}")
    if not bool(torch.isfinite(tensor).all()):
        raise GramianError(f"{path}: {name} holds NaN or infinity")
    return tensor
