"""Casts in one safetensors file."""

from __future__ import annotations

import json
import os
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from gramian.errors import GramianError
from gramian.lens.casts import Cast, Casts
from gramian.maps import map_from
from gramian.solvers import Evidence

_FORMAT = "gramian-casts"
_VERSION = 1


def save_casts(casts: Casts, path: str | Path, *, force: bool = False) -> None:
    """Write the maps as tensors and everything else as JSON in the header.

    Raises
    ------
    GramianError : the file exists and ``force`` is false.
    """
    target = Path(path)
    if target.exists() and not force:
        raise GramianError(f"{target} exists; choose another name or pass --force to replace it")
    tensors, entries = {}, []
    for i, cast in enumerate(casts):
        tensors.update({f"{i}.{k}": t.contiguous() for k, t in cast.map.tensors().items()})
        entries.append(
            {
                "site": cast.site,
                "target": cast.target,
                "map": cast.map.spec(),
                "evidence": cast.evidence.to_json(),
            }
        )
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "model": casts.model,
        "target": casts.target,
        "kind": casts.kind,
        "casts": entries,
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        save_file(tensors, temporary, metadata={_FORMAT: json.dumps(header)})
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def load_casts(path: str | Path) -> Casts:
    """Read casts written by :func:`save_casts`.

    Raises
    ------
    GramianError : not such a file, another version, or damaged.
    """
    try:
        with safe_open(str(path), framework="pt") as file:
            header = json.loads((file.metadata() or {}).get(_FORMAT, "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValueError) as error:
        raise GramianError(f"{path} cannot be read as casts: {error}") from error
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise GramianError(
            f"{path} is not a file of casts; expected one written by gramian lens -o"
        )
    if header.get("version") != _VERSION:
        raise GramianError(
            f"{path} has version {header.get('version')}, this reads {_VERSION}; use the version "
            "of gramian that wrote it"
        )
    try:
        casts = tuple(
            Cast(
                str(entry["site"]),
                str(entry["target"]),
                map_from(
                    entry["map"],
                    {
                        name.removeprefix(f"{i}."): tensor
                        for name, tensor in tensors.items()
                        if name.startswith(f"{i}.")
                    },
                ),
                Evidence.from_json(entry["evidence"]),
            )
            for i, entry in enumerate(header["casts"])
        )
        return Casts(str(header["model"]), header["target"], header["kind"], casts)
    except (KeyError, TypeError, AttributeError) as error:
        raise GramianError(f"{path} is damaged: {error!r}") from error
