"""Vectors in JSON lines: an id, a vector, perhaps a text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from gramian.bridge.vectors.address import Address
from gramian.bridge.vectors.arrays import read_stamp
from gramian.bridge.vectors.protocol import Floats, Stamp, VectorBatch, take_by_scan
from gramian.errors import GramianError


class LineSource:
    """The records of a ``.jsonl`` file, streamed.

    Raises
    ------
    GramianError : no such file, no records, or (while reading) a line that is no record, lacks its
        id or vector, repeats an id, or has a vector of another width or with NaN; names the line.
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
        beside = self._path.with_suffix(".jsonl.json")
        return read_stamp(beside) if beside.is_file() else {}

    def batches(self, size: int = 4096, start: int = 0) -> Iterator[VectorBatch]:
        """All records from one on."""
        seen: set[str] = set()
        ids: list[str] = []
        vectors: list[Floats] = []
        texts: list[str | None] = []
        row = first = 0
        with self._path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                id, vector, text = self._record(line, f"{self.address}, line {number}")
                if id in seen:
                    raise GramianError(f"{self.address}, line {number}: id {id!r} comes twice")
                seen.add(id)
                row += 1
                if row <= start:
                    continue
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

    def _record(self, line: str, where: str) -> tuple[str, Floats, str | None]:
        try:
            record: Any = json.loads(line)
        except ValueError as error:
            raise GramianError(f"{where} is no JSON: {error}") from error
        if not isinstance(record, dict) or record.get(self._id) in (None, ""):
            raise GramianError(f"{where} has no {self._id!r}; expected an object with an id")
        if self._vector not in record:
            raise GramianError(
                f"{where} has no {self._vector!r}; its fields are {', '.join(record)}. Name the "
                "field of vectors as FILE#FIELD"
            )
        try:
            vector = np.asarray(record[self._vector], dtype=np.float32)
        except (ValueError, TypeError) as error:
            raise GramianError(f"{where}: {self._vector!r} is no list of numbers") from error
        if vector.ndim != 1 or not len(vector) or (self.dim and len(vector) != self.dim):
            raise GramianError(
                f"{where}: a vector of shape {vector.shape}, expected ({self.dim or 'd'},)"
            )
        if not np.isfinite(vector).all():
            raise GramianError(f"{where}: the vector holds NaN or infinity")
        text = record.get(self._text or "text")
        if self._text is not None and not isinstance(text, str):
            raise GramianError(f"{where} has no text {self._text!r}")
        return str(record[self._id]), vector, text if isinstance(text, str) else None

    def take(self, ids: Sequence[str]) -> VectorBatch:
        """The records of these ids, from one pass."""
        return take_by_scan(self, ids)
