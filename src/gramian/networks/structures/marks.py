"""The mark in a configuration, and reading the configuration of a folder that has one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gramian.errors import GramianError
from gramian.networks.structures.table import MARK, VERSION, Table, table_of


def structures_of(config: Any) -> Table:
    """Module path -> structure, of every module that has one."""
    mark = getattr(config, MARK, None)
    return {} if mark is None else table_of(mark)


def factors_of(config: Any) -> dict[str, int]:
    """Module path -> rank of every linear that is stored as two factors."""
    table = structures_of(config)
    return {path: one["rank"] for path, one in table.items() if one["kind"] == "factors"}


def marked(table: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The configuration entry that says which modules have which structure."""
    return {MARK: {"version": VERSION, "modules": {path: dict(s) for path, s in table.items()}}}


def read_config(folder: str | Path) -> Any | None:
    """The configuration of a folder with structured modules, as that of the network it was made
    from, with the mark; None for any other folder. Runs no code of the folder.

    Raises
    ------
    GramianError : the mark is damaged or of another version.
    """
    path = Path(folder) / "config.json"
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or found.get("model_type") != MARK:
        return None
    mark: Any = found.get(MARK)
    try:
        table = table_of(mark)
        model_type, architecture = (str(mark[key]) for key in ("model_type", "architecture"))
    except (ValueError, KeyError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise GramianError(f"{path} has no valid entry {MARK!r}: {reason}") from None
    if not table:
        raise GramianError(f"{path} has no valid entry {MARK!r}: it names no module")
    ours = {"model_type", "auto_map", "architectures", MARK}
    values = {name: value for name, value in found.items() if name not in ours}
    values |= {"architectures": [architecture], **marked(table)}
    return _config(model_type, values, path)


def _config(model_type: str, values: dict[str, Any], path: Path) -> Any:
    from transformers import AutoConfig

    factory: Any = AutoConfig
    try:
        return factory.for_model(model_type, **values)
    except ValueError as error:
        raise GramianError(
            f"{path} was made from a {model_type!r} network, which this version of transformers "
            f"does not know ({str(error).splitlines()[0]})"
        ) from None
