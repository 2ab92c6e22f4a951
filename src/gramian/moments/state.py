"""The state of work in progress, saved so that a kill at any moment leaves a whole generation."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments.fields import Fields, parse_json
from gramian.moments.place import like
from gramian.moments.tensorfile import (
    file_sha256,
    json_bytes,
    read_header,
    write_bytes,
    write_tensors,
)

POINTER = "state.json"


def save_state(
    folder: str | Path, tensors: Mapping[str, Tensor], meta: Mapping[str, object]
) -> None:
    """Save tensors and what belongs with them, both or neither.

    A new generation is written beside the last one and synced to disk; then one rename of
    ``state.json`` switches to it, and the last one is deleted. Killed anywhere in between, the
    folder still holds exactly one generation that :func:`load_state` returns.

    Args:
        folder: made when it does not exist.
        tensors: by name.
        meta: JSON values.

    Raises:
        GramianError: meta is no JSON, the folder cannot be written, or the disk is full.
    """
    folder = Path(folder)
    try:
        text = json_bytes(dict(meta))
    except (TypeError, ValueError) as error:
        raise GramianError(f"state: meta is not JSON: {error}") from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pointer = _read_pointer(folder)
        generation = 1 if pointer is None else pointer.integer("generation") + 1
        file = folder / f"state-{generation}.safetensors"
        size, sha256 = write_tensors(file, tensors)
        entry = {
            "generation": generation,
            "file": file.name,
            "bytes": size,
            "sha256": sha256,
            "meta": parse_json(text, "meta"),
            "meta_sha256": hashlib.sha256(text).hexdigest(),
        }
        write_bytes(folder / POINTER, json_bytes(entry))
        for old in folder.glob("state-*.safetensors*"):
            if old.name != file.name:
                old.unlink()
    except OSError as error:
        raise GramianError(f"cannot save the state in {folder}: {error}") from error


def load_state(folder: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The last whole generation that :func:`save_state` wrote, or None when there is none.

    Raises:
        GramianError: the state was changed after it was written; the message names the file.
    """
    folder = Path(folder)
    pointer = _read_pointer(folder)
    if pointer is None:
        return None
    file = folder / f"state-{pointer.integer('generation')}.safetensors"
    advice = f"delete {folder / POINTER} to start over"
    if pointer.text("file") != file.name or not file.is_file():
        raise GramianError(f"{file}: missing, though {POINTER} names it; {advice}")
    size = file.stat().st_size
    if size != pointer.integer("bytes") or file_sha256(file) != pointer.text("sha256"):
        raise GramianError(f"{file}: changed since it was written; {advice}")
    read_header(file)
    meta = _meta(pointer, folder)
    stored = safetensors.torch.load_file(file)
    tensors = {name: like(t).copy_(t) for name, t in stored.items()}
    return tensors, meta


def load_meta(folder: str | Path) -> dict[str, Any] | None:
    """What belongs with the last whole generation, without reading its tensors; None when there
    is none.

    Raises:
        GramianError: it was changed after it was written.
    """
    folder = Path(folder)
    pointer = _read_pointer(folder)
    return None if pointer is None else _meta(pointer, folder)


def clear_state(folder: str | Path) -> None:
    """Delete what :func:`save_state` wrote; the pointer first, so that no half of it is found."""
    folder = Path(folder)
    (folder / POINTER).unlink(missing_ok=True)
    for file in folder.glob("state-*.safetensors*"):
        file.unlink()


def _meta(pointer: Fields, folder: Path) -> dict[str, Any]:
    meta = pointer.value("meta")
    if hashlib.sha256(json_bytes(meta)).hexdigest() != pointer.text("meta_sha256"):
        raise GramianError(
            f"{folder / POINTER}: changed since it was written; delete {folder / POINTER} to "
            "start over"
        )
    fields = Fields(meta, f"{folder / POINTER}: meta")
    return {key: fields.value(key) for key in fields}


def _read_pointer(folder: Path) -> Fields | None:
    path = folder / POINTER
    if not path.exists():
        return None
    return Fields(parse_json(path.read_bytes(), str(path)), str(path))
