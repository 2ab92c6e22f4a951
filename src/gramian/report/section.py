"""What a page is made of: sections of figures and tables, as plain records.

Any job can make a section; the page knows none of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from gramian.errors import GramianError

Kind = Literal["curves", "bars", "heat map"]
Value = str | int | float | bool | None

_ANCHOR = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True)
class Series:
    """One curve, one set of bars, or one row of a heat map; sequences are kept as tuples.

    Raises
    ------
    GramianError : ``x``, ``y``, ``labels`` and ``errors`` that are not of one length.
    """

    name: str
    """Of the curve; of the row, in a heat map."""
    x: Sequence[str | float]
    y: Sequence[float | None]
    """A value that is missing or not finite is a gap."""
    labels: Sequence[str] = ()
    """What each point is called when a reader points at it; empty: its ``x``."""
    errors: Sequence[float | None] = ()
    """Standard error of each value."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "x", tuple(self.x))
        object.__setattr__(self, "y", tuple(finite(value) for value in self.y))
        object.__setattr__(self, "labels", tuple(self.labels))
        object.__setattr__(self, "errors", tuple(finite(value) for value in self.errors))
        lengths = {"y": len(self.y), "labels": len(self.labels), "errors": len(self.errors)}
        for what, length in lengths.items():
            if length != len(self.x) and (what == "y" or length):
                raise GramianError(
                    f"series {self.name!r} has {len(self.x)} x and {length} {what}; give one of "
                    "each per point"
                )

    def to_json(self) -> dict[str, Any]:
        """Every field that is set."""
        found: dict[str, Any] = {"name": self.name, "x": list(self.x), "y": list(self.y)}
        if self.labels:
            found["labels"] = list(self.labels)
        if self.errors:
            found["errors"] = list(self.errors)
        return found


@dataclass(frozen=True)
class Figure:
    """Curves, bars or a heat map (one series per row, all over the same columns).

    Raises
    ------
    GramianError : another kind, no series, or rows of a heat map over different columns.
    """

    title: str
    kind: Kind
    x_title: str
    y_title: str
    series: tuple[Series, ...]
    value_title: str = ""
    """What the colour of a heat map stands for."""
    caption: str = ""
    limits: tuple[float, float] | None = None
    """Ends of the colour scale of a heat map; None: those of its values."""
    log: bool = False
    """A logarithmic y axis; values that are not above zero are gaps there."""
    command: str = ""
    """What makes this figure, where that is not what makes its section."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "series", tuple(self.series))
        if self.kind not in get_args(Kind):
            raise GramianError(
                f"figure {self.title!r} is of kind {self.kind!r}, expected one of "
                f"{', '.join(get_args(Kind))}"
            )
        if not self.series:
            raise GramianError(f"figure {self.title!r} has no series; leave it out of its section")
        if self.kind == "heat map" and len({series.x for series in self.series}) > 1:
            raise GramianError(f"rows of the heat map {self.title!r} have different columns")

    def to_json(self) -> dict[str, Any]:
        """Every field that is set."""
        found: dict[str, Any] = {
            "title": self.title,
            "kind": self.kind,
            "x_title": self.x_title,
            "y_title": self.y_title,
            "value_title": self.value_title,
            "caption": self.caption,
            "command": self.command,
            "log": self.log,
            "series": [series.to_json() for series in self.series],
        }
        if self.limits is not None:
            found["limits"] = list(self.limits)
        return found


@dataclass(frozen=True)
class Table:
    """Named columns and rows of values.

    Raises
    ------
    GramianError : a row that has not one value per column.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    caption: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "rows", tuple(tuple(map(_value, row)) for row in self.rows))
        for row in self.rows:
            if len(row) != len(self.columns):
                raise GramianError(
                    f"table {self.title!r} has {len(self.columns)} columns and a row of {len(row)}"
                )

    @classmethod
    def of(
        cls,
        title: str,
        records: Sequence[Mapping[str, Any]],
        columns: Iterable[str] | Mapping[str, str] | None = None,
        *,
        caption: str = "",
    ) -> Table:
        """A table of records: all keys of the first, those that are named, or key -> heading."""
        keys = list(columns if columns is not None else records[0] if records else ())
        headings = [columns[key] for key in keys] if isinstance(columns, Mapping) else keys
        rows = tuple(tuple(record[key] for key in keys) for record in records)
        return cls(title, tuple(headings), rows, caption)

    def is_text(self, column: int) -> bool:
        """Whether a column holds words, not numbers."""
        return any(isinstance(row[column], str) for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """Every field."""
        rows = [list(row) for row in self.rows]
        return {
            "title": self.title,
            "caption": self.caption,
            "columns": list(self.columns),
            "rows": rows,
        }


@dataclass(frozen=True)
class Section:
    """One part of a page: what a job found, and the command that finds it again.

    Raises
    ------
    GramianError : an anchor that is not lower-case letters, digits and hyphens.
    """

    title: str
    anchor: str
    """The part of the page's address that leads here; unique on a page."""
    intro: tuple[str, ...] = ()
    """Paragraphs of plain text."""
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    command: str = ""
    warnings: tuple[str, ...] = ()
    """What a reader must know before trusting the figures."""

    def __post_init__(self) -> None:
        for name in ("intro", "figures", "tables", "warnings"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not _ANCHOR.fullmatch(self.anchor):
            raise GramianError(
                f"anchor {self.anchor!r}: expected lower-case letters, digits and hyphens, a "
                "letter first"
            )

    def to_json(self) -> dict[str, Any]:
        """Every field."""
        return {
            "title": self.title,
            "anchor": self.anchor,
            "intro": list(self.intro),
            "warnings": list(self.warnings),
            "command": self.command,
            "figures": [figure.to_json() for figure in self.figures],
            "tables": [table.to_json() for table in self.tables],
        }


def finite(value: float | None) -> float | None:
    """The number, or None for one that JSON has no word for."""
    return None if value is None or not math.isfinite(value) else float(value)


def _value(value: Value) -> Value:
    if value is None or isinstance(value, str | bool):
        return value
    return int(value) if hasattr(value, "__index__") else finite(value)
