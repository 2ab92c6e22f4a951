"""One safetensors file of tensors with a JSON document in its header: plans, casts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from gramian.errors import GramianError, refuse_existing


def save_document(
    path: str | Path,
    kind: str,
    version: int,
    document: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    force: bool = False,
) -> None:
    """Write under a temporary name and rename.

    Raises
    ------
    GramianError : the file exists and ``force`` is false.
    """
    target = refuse_existing(path, force=force)
    target.parent.mkdir(parents=True, exist_ok=True)
    header = {"format": kind, "version": version, **document}
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
        save_file(whole, temporary, metadata={kind: json.dumps(header)})
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def load_document(
    path: str | Path, kind: str, version: int
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The document and the tensors of a file that :func:`save_document` wrote.

    Raises
    ------
    GramianError : no such file, damaged, of another kind or version.
    """
    try:
        with safe_open(str(path), framework="pt") as file:
            header = json.loads((file.metadata() or {}).get(kind, "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValueError) as error:
        raise GramianError(f"{path} cannot be read as a {kind} file: {error}") from error
    if not isinstance(header, dict) or header.get("format") != kind:
        raise GramianError(f"{path} is not a {kind} file")
    if header.get("version") != version:
        raise GramianError(
            f"{path} has version {header.get('version')} of {kind}, this reads {version}; use the "
            "version of gramian that wrote it"
        )
    return header, tensors


def under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names start with a prefix, without it."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
