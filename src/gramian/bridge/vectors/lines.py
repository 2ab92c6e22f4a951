"""Vectors in JSON lines: an id, a vector, perhaps a text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from gramian.bridge.vectors.address import Address
from gramian.bridge.vectors.arrays import read_stamp
from gramian.bridge.vectors.ids import distinct
from gramian.bridge.vectors.protocol import Floats, Stamp, VectorBatch, take_by_scan
from gramian.errors import GramianError


class LineSource:
    """The records of a ``.jsonl`` file, streamed.

    Raises
    ------
    GramianError : no such file, no records, or (while reading) a line that is no record, lacks its
        id or vector, or has a vector of another width or with NaN (names the line); or an id that
        comes twice (names the records).
    """

    def __init__(
        self, address: Address, *, id_field: str, vector_field: str | None, text_field: str | None
    ) -> None:
        self.address, self._path = address.text, address.path
        self._id, self._text = id_field, text_field
        self._vector = address.part or vector_field or "vector"
        if not self._path.is_file():
            raise GramianError(f"no file {address.place}; expected JSON lines of vectors")
        self.count: int | None = None
        self.dtype = "float32"
        self.dim = 0
        first = next(self.batches(1), None)
        if first is None:
            raise GramianError(f"{self.address} holds no records")
        self.dim = first.vectors.shape[1]

    @cached_property
    def stamp(self) -> Stamp:
        """What ``x.jsonl.json`` says."""
        beside = self._path.with_name(f"{self._path.name}.json")
        return read_stamp(beside) if beside.is_file() else {}

    def batches(self, size: int = 4096, start: int = 0) -> Iterator[VectorBatch]:
        """All records from one on."""
        return distinct(self._read, self.address, size, start, ("records", 1))

    def _read(self, size: int, start: int) -> Iterator[VectorBatch]:
        ids: list[str] = []
        vectors: list[Floats] = []
        texts: list[str | None] = []
        row = first = 0
        with self._path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                row += 1
                if row <= start:
                    continue
                id, vector, text = self._record(line, f"{self.address}, line {number}")
                first = row - 1 if not ids else first
                ids.append(id)
                vectors.append(vector)
                texts.append(text)
                if len(ids) == size:
                    yield self._batch(ids, vectors, texts, first)
                    ids, vectors, texts = [], [], []
        if ids:
            yield self._batch(ids, vectors, texts, first)

    def _batch(
        self, ids: list[str], vectors: list[Floats], texts: list[str | None], first: int
    ) -> VectorBatch:
        named = [text for text in texts if text is not None]
        return VectorBatch(ids, np.stack(vectors), named if len(named) == len(ids) else None, first)

    def _record(self, line: bytes, where: str) -> tuple[str, Floats, str | None]:
        try:
            record: Any = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise GramianError(f"{where} is no JSON: {error}") from error
        if not isinstance(record, dict) or record.get(self._id) in (None, ""):
            raise GramianError(f"{where} has no {self._id!r}; expected an object with an id")
        id = record[self._id]
        if type(id) not in (str, int):
            raise GramianError(f"{where}: the id is {id!r}, expected a text or an integer")
        if self._vector not in record:
            raise GramianError(
                f"{where} has no {self._vector!r}; its fields are {', '.join(record)}. Name the "
                "field of vectors as FILE#FIELD"
            )
        vector = self._numbers(record[self._vector], where)
        text = record.get(self._text or "text")
        if self._text is not None and not isinstance(text, str):
            raise GramianError(f"{where} has no text {self._text!r}")
        return str(id), vector, text if isinstance(text, str) else None

    def _numbers(self, values: Any, where: str) -> Floats:
        if not isinstance(values, list) or not set(map(type, values)) <= {int, float}:
            raise GramianError(f"{where}: {self._vector!r} is no list of numbers")
        if not values or (self.dim and len(values) != self.dim):
            raise GramianError(
                f"{where}: a vector of {len(values)} numbers, expected {self.dim or 'some'}"
            )
        try:
            vector = np.asarray(values, dtype=np.float64)
        except OverflowError as error:
            raise GramianError(f"{where}: {self._vector!r} leaves the range of float32") from error
        if not np.isfinite(vector).all():
            raise GramianError(f"{where}: the vector holds NaN or infinity")
        if np.abs(vector).max() > np.finfo(np.float32).max:
            raise GramianError(f"{where}: {self._vector!r} leaves the range of float32")
        return vector.astype(np.float32)

    def take(self, ids: Sequence[str]) -> VectorBatch:
        """The records of these ids, from one pass."""
        return take_by_scan(self, ids)
