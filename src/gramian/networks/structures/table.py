"""Which modules of a network are stored in another form than its architecture has: one table.

``config.json`` carries it under ``"gramian"``: module path -> its structure, for example
``{"kind": "factors", "rank": 64}``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MARK = "gramian"
VERSION = 2
FIELDS: dict[str, tuple[str, ...]] = {
    "factors": ("rank",),
    "latents": ("ranks",),
    "rotated_keys": ("ranks",),
    "folded_values": ("ranks", "heads"),
    "folded_output": ("ranks", "heads"),
}
"""Kind of structure -> its sizes: integers of at least 1; of ranks a list, one for each group."""

PARTS: dict[str, tuple[str, ...]] = {
    "factors": ("down", "up"),
    "latents": ("down",),
    "folded_values": ("down",),
    "folded_output": ("up",),
}
"""Kind of structure -> which of its parts is a matrix that takes its inputs (``down``) or gives
its outputs (``up``)."""
WHOLE = ("", "rotated_keys")
"""Kinds, and none, that keep the matrix in one piece under its own name."""

Table = dict[str, dict[str, Any]]

_PATH = re.compile(r"[^\W\d]\w*(\.\w+)*")


def checked(table: Any) -> Table:
    """The table, if it is one: paths of modules, known kinds, whole and positive sizes.

    Raises
    ------
    ValueError : it is not, and why.
    """
    if not isinstance(table, Mapping):
        raise ValueError(f"the structures are a {type(table).__name__}, expected path -> structure")
    for path, structure in table.items():
        if not isinstance(path, str) or not _PATH.fullmatch(path):
            raise ValueError(f"{path!r} is no path of a module")
        kind = structure.get("kind") if isinstance(structure, Mapping) else None
        if not isinstance(kind, str) or kind not in FIELDS:
            raise ValueError(
                f"{path} has the structure {structure!r}, expected a kind of {', '.join(FIELDS)}"
            )
        sizes = {name: value for name, value in structure.items() if name != "kind"}
        if set(sizes) != set(FIELDS[kind]) or not all(map(_is_size, sizes, sizes.values())):
            raise ValueError(
                f"{path} has the {kind} {sizes}, expected {' and '.join(FIELDS[kind])} of 1 or more"
            )
    return {path: dict(structure) for path, structure in table.items()}


def _is_size(name: str, value: Any) -> bool:
    numbers = value if name == "ranks" and isinstance(value, list) else [value]
    return len(numbers) > 0 and all(type(n) is int and n >= 1 for n in numbers)


def table_of(mark: Any) -> Table:
    """The table in a mark.

    Raises
    ------
    ValueError : no mark, one of another version, or a damaged one.
    """
    if not isinstance(mark, Mapping) or "version" not in mark:
        raise ValueError(f"config.json has no valid entry {MARK!r}; write the folder again")
    if mark["version"] != VERSION:
        raise ValueError(
            f"config.json has structures of version {mark['version']!r}, this reads {VERSION}"
        )
    return checked(mark.get("modules"))


def inside(table: Table, prefix: str) -> Table:
    """The part of a table that lies under a module, with paths from there."""
    start = f"{prefix}."
    return {p.removeprefix(start): s for p, s in table.items() if p.startswith(start)}


def parallel_plan(plan: Mapping[str, str], table: Table, depth: int) -> dict[str, str]:
    """A plan of tensor parallelism with the parts of structured linears in it.

    Of a linear cut by its outputs the second factor is cut so and the first one kept whole; of
    one cut by its inputs the first one is cut so. A pattern that stood for a structured linear is
    written out for the layers in which it stands for a plain one.
    """
    if any("ranks" in structure for structure in table.values()):
        return {}  # coordinates are shared by heads, which are what is cut
    parts: dict[str, str] = {}
    rest: dict[str, str] = {}
    for pattern, style in plan.items():
        expression = re.compile(re.escape(pattern).replace(r"\*", r"\d+"))
        found = [path for path in table if expression.fullmatch(path)]
        for path in found:
            outputs, inputs = style.startswith("colwise"), style.startswith("rowwise")
            parts[f"{path}.down"] = style if inputs else "replicate"
            parts[f"{path}.up"] = style if outputs else "replicate"
        if not found:
            rest[pattern] = style
        elif pattern.count("*") == 1:
            names = (pattern.replace("*", str(layer)) for layer in range(depth))
            rest |= {name: style for name in names if name not in table}
    return parts | rest
