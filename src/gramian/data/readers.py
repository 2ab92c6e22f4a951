"""Readers: one file or sequence each, streamed in order, with random access to one document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from gramian.data.document import Document, Fields, Place
from gramian.errors import GramianError

MINIMUM_CHARACTERS = 2000
"""A text file is cut at blank lines into documents of at least this many characters."""


def decode(raw: bytes, path: Path, offset: int) -> str:
    """UTF-8 text of ``raw``, which starts at byte ``offset`` of ``path``.

    Raises
    ------
    GramianError : the bytes are no text; the message names the file and the byte.
    """
    nul = raw.find(b"\0")
    if nul >= 0:
        raise GramianError(
            f"{path}: NUL byte at offset {offset + nul}; expected UTF-8 text, not binary data"
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise GramianError(
            f"{path}: byte 0x{raw[error.start]:02x} at offset {offset + error.start} is not valid "
            "UTF-8; convert the file to UTF-8"
        ) from error


@dataclass(frozen=True)
class TextFile:
    """A ``.txt`` file as an exact partition: the documents, concatenated, are the file.

    A place is (byte offset, bytes).
    """

    path: Path
    exact: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return self.path.name

    def scan(self) -> Iterator[tuple[Place, Document]]:
        for number, (start, size, text) in enumerate(self._pieces(), start=1):
            yield (start, size), Document.of(text, f"{self.name}#{number}")

    def read(self, place: Place) -> Document:
        start, size = place
        with self.path.open("rb") as file:
            file.seek(start)
            return Document.of(decode(file.read(size), self.path, start), f"{self.name}@{start}")

    def _pieces(self) -> Iterator[tuple[int, int, str]]:
        """(byte offset, bytes, text) per document; one is held back, to take a short tail."""
        held: tuple[int, int, list[str]] | None = None
        start, size, characters, blank = 0, 0, 0, False
        lines: list[str] = []
        with self.path.open("rb") as file:
            for raw in file:
                line = decode(raw, self.path, start + size)
                is_blank = not line.strip()
                if blank and not is_blank and characters >= MINIMUM_CHARACTERS:
                    if held is not None:
                        yield held[0], held[1], "".join(held[2])
                    held = (start, size, lines)
                    start, size, characters, lines = start + size, 0, 0, []
                lines.append(line)
                size += len(raw)
                characters += len(line)
                blank = is_blank
        if held is not None and characters < MINIMUM_CHARACTERS:
            start, size, lines = held[0], held[1] + size, held[2] + lines
        elif held is not None:
            yield held[0], held[1], "".join(held[2])
        if lines:
            yield start, size, "".join(lines)


@dataclass(frozen=True)
class JsonLines:
    """A ``.jsonl`` file: one object per line. A place is (byte offset, line number)."""

    path: Path
    fields: Fields = field(default_factory=Fields)
    exact: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return self.path.name

    def scan(self) -> Iterator[tuple[Place, Document]]:
        offset = 0
        with self.path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                if raw.strip():
                    yield (offset, number), self._document(raw, offset, number)
                offset += len(raw)

    def read(self, place: Place) -> Document:
        offset, number = place
        with self.path.open("rb") as file:
            file.seek(offset)
            return self._document(file.readline(), offset, number)

    def _document(self, raw: bytes, offset: int, number: int) -> Document:
        where = f"{self.path}:{number}"
        line = decode(raw, self.path, offset)
        try:
            record = json.loads(line.lstrip("\ufeff") if number == 1 else line)
        except (json.JSONDecodeError, RecursionError) as error:
            reason = getattr(error, "msg", "nested too deeply")
            column = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            raise GramianError(
                f"{where}: not valid JSON ({reason}{column}); expected one object per line"
            ) from error
        return self.fields.document(record, where)


@dataclass(frozen=True)
class Parquet:
    """A ``.parquet`` file, read one row group at a time. A place is (row group, row in it).

    Raises
    ------
    GramianError : pyarrow is not installed, the file is damaged, or the column is missing.
    """

    path: Path
    fields: Fields = field(default_factory=Fields)
    exact: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return self.path.name

    def scan(self) -> Iterator[tuple[Place, Document]]:
        for group in range(self._file.num_row_groups):
            for row in range(self._file.metadata.row_group(group).num_rows):
                yield (group, row), self.read((group, row))

    def read(self, place: Place) -> Document:
        group, row = place
        number = self._first_rows[group] + row
        table = self._group(group)
        record = {name: table[name][row].as_py() for name in table.column_names}
        return self.fields.document(record, f"{self.path}: row {number}")

    def _group(self, group: int) -> Any:
        # The last group is kept: a scan reads each group once.
        if self._kept.get("group") != group:
            columns = self.fields.columns(self._file.schema_arrow.names)
            try:
                self._kept["table"] = self._file.read_row_group(group, columns=columns)
            except Exception as error:
                raise GramianError(f"{self.path}: row group {group} is damaged: {error}") from error
            self._kept["group"] = group
        return self._kept["table"]

    @cached_property
    def _kept(self) -> dict[str, Any]:
        return {}

    @cached_property
    def _first_rows(self) -> list[int]:
        first, total = [], 0
        for group in range(self._file.num_row_groups):
            first.append(total)
            total += self._file.metadata.row_group(group).num_rows
        return first

    @cached_property
    def _file(self) -> Any:
        try:
            import pyarrow.parquet as parquet
        except ImportError as error:
            raise GramianError(
                f"{self.path}: reading Parquet needs pyarrow; "
                'install it with: pip install "gramian[data]"'
            ) from error
        try:
            file = parquet.ParquetFile(self.path)
        except Exception as error:
            raise GramianError(f"{self.path}: not a readable Parquet file: {error}") from error
        names = file.schema_arrow.names
        if self.fields.text not in names and "messages" not in names:
            raise GramianError(
                f"{self.path}: no column {self.fields.text!r} (columns: {', '.join(names)}); "
                "name the right one with text_field="
            )
        return file


@dataclass(frozen=True)
class Rows:
    """A sequence of records that is in memory, or behaves like it. A place is (index,)."""

    name: str
    records: Sequence[Any]
    fields: Fields = field(default_factory=Fields)
    names: Sequence[str] | None = None
    exact: ClassVar[bool] = False

    def scan(self) -> Iterator[tuple[Place, Document]]:
        for index in range(len(self.records)):
            yield (index,), self.read((index,))

    def read(self, place: Place) -> Document:
        (index,) = place
        where = self.names[index] if self.names is not None else f"{self.name}[{index}]"
        record = self.records[index]
        if isinstance(record, str):
            return Fields().document({"text": record}, where)
        return self.fields.document(record, where)
