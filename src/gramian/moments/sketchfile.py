"""A coordinated sketch in one safetensors file, read with distrust."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from gramian.errors import GramianError, refuse_existing
from gramian.moments.coordinated import CoordinatedSketch, Key
from gramian.moments.fields import Fields, parse_json
from gramian.moments.tensorfile import json_bytes, read_header, write_tensors

FORMAT = "gramian.sketch"
VERSION = 1
_NAMES = {"float32": torch.float32, "float64": torch.float64}


def save_sketch(sketch: CoordinatedSketch, path: str | Path, *, force: bool = False) -> Path:
    """Write a sketch: whole under its name, or not there at all.

    The file holds the rows kept with their keys, and nothing of the rest.

    Raises
    ------
    GramianError : the file exists and ``force`` is off, its folder does not exist, or the disk is
        full.
    """
    target = refuse_existing(path, force=force)
    if not target.parent.is_dir():
        raise GramianError(f"cannot write {target}: its folder does not exist")
    names = json_bytes([entry.key for entry in sketch._entries])
    tensors = {
        "rows": sketch._rows,
        "keys": torch.frombuffer(bytearray(names), dtype=torch.uint8),
    }
    header = {
        "version": VERSION,
        "k": sketch.k,
        "seed": str(sketch.seed),
        "dtype": str(sketch.dtype).removeprefix("torch."),
        "threshold": None if sketch.threshold == math.inf else sketch.threshold.hex(),
        "sha256": _digest(tensors),
    }
    try:
        write_tensors(target, tensors, {FORMAT: json_bytes(header).decode()})
    except OSError as error:
        raise GramianError(f"cannot write {target}: {error}") from error
    return target


def load_sketch(path: str | Path) -> CoordinatedSketch:
    """Read a sketch that :func:`save_sketch` wrote, check all of it, and rank its rows again.

    Raises
    ------
    GramianError : no such file, not a sketch, another version, truncated, altered, or rows that no
        stream would have left behind.
    """
    path = Path(path)
    if not path.is_file():
        raise GramianError(f"{path} is no file; expected a sketch written by save_sketch")
    specs, texts = read_header(path)
    if FORMAT not in texts or set(specs) != {"rows", "keys"}:
        raise GramianError(f"{path} is a safetensors file and holds no sketch")
    header = Fields(parse_json(texts[FORMAT].encode(), str(path)), f"{path}: {FORMAT}")
    version = header.integer("version")
    if version != VERSION:
        raise GramianError(f"{path} has version {version} of {FORMAT}, this reads {VERSION}")
    k, dtype = header.integer("k", 1), _NAMES[header.text("dtype", _NAMES)]
    seed, digest = header.text("seed"), header.text("sha256")
    threshold = header.value("threshold")
    header.close()
    tensors = load_file(path)
    rows, names = tensors["rows"], tensors["keys"]
    if rows.ndim != 2 or rows.dtype != dtype or names.ndim != 1 or names.dtype != torch.uint8:
        raise GramianError(f"{path}: rows or keys of a type or shape that no sketch has")
    if digest != _digest(tensors):
        raise GramianError(f"{path} was altered or damaged: its SHA-256 does not match")
    keys = _keys(names, len(rows), path)
    try:
        result = CoordinatedSketch(k, rows.shape[1], seed=int(seed), dtype=dtype)
        result.update(keys, rows)
    except ValueError as error:
        raise GramianError(f"{path}: {error}") from error
    same = [entry.key for entry in result._entries] == keys and torch.equal(result._rows, rows)
    found = None if result.threshold == math.inf else result.threshold.hex()
    if not same or found != threshold:
        raise GramianError(f"{path}: its rows are not those that its seed and its k keep")
    return result


def _keys(names: Tensor, number: int, path: Path) -> list[Key]:
    values = parse_json(bytes(names.tolist()), f"{path}: keys")
    if not isinstance(values, list) or len(values) != number:
        raise GramianError(f"{path}: expected a list of {number} keys")
    keys: list[Key] = []
    for value in values:
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise GramianError(f"{path}: the key {value!r} is neither a text nor an integer")
        keys.append(value)
    return keys


def _digest(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
