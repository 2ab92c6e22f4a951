"""Texts with ids, and the vectors that a model gives them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gramian.bridge.embedders import Embedder
from gramian.bridge.vectors import VectorBatch
from gramian.bridge.vectors.ids import check_unique
from gramian.bridge.vectors.protocol import Stamp, gathered
from gramian.errors import GramianError


@dataclass(frozen=True)
class Texts:
    """Texts and their ids."""

    ids: list[str]
    texts: list[str]

    def __post_init__(self) -> None:
        check_unique(self.ids, "texts")

    @classmethod
    def read(cls, path: Path, *, id_field: str = "id", text_field: str = "text") -> Texts:
        """Read ``.jsonl`` records, ``.tsv`` lines of id and text, or ``.txt`` lines of text alone,
        whose ids are their line numbers.

        Raises
        ------
        GramianError : no such file, another kind, or a line without an id or text (it is named).
        """
        if not path.is_file():
            raise GramianError(f"no file {path}; expected texts as .jsonl, .tsv or .txt")
        ids, texts = [], []
        for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
            if not line.strip():
                continue
            id, text = _parsed(line, number, path, id_field, text_field)
            if not text.strip():
                raise GramianError(f"{path}, line {number} has an empty text")
            ids.append(id)
            texts.append(text)
        if not ids:
            raise GramianError(f"{path} holds no texts")
        return cls(ids, texts)


def _parsed(line: str, number: int, path: Path, id_field: str, text_field: str) -> tuple[str, str]:
    where, line = f"{path}, line {number}", line.removesuffix("\r")
    match path.suffix:
        case ".txt":
            return str(number), line
        case ".tsv":
            id, tab, text = line.partition("\t")
            if not tab or not id:
                raise GramianError(f"{where}: expected an id, a tab and a text")
            return id, text
        case ".jsonl":
            try:
                record = json.loads(line)
            except ValueError as error:
                raise GramianError(f"{where} is no JSON: {error}") from error
            if not isinstance(record, dict) or record.get(id_field) in (None, ""):
                raise GramianError(f"{where} has no {id_field!r}")
            if not isinstance(record.get(text_field), str):
                raise GramianError(f"{where} has no text {text_field!r}")
            return str(record[id_field]), record[text_field]
    raise GramianError(f"{path} is no file of texts: expected .jsonl, .tsv or .txt")


class EmbeddedTexts:
    """Vectors of texts as a source: what a model makes of them, batch by batch."""

    dtype = "float32"

    def __init__(self, texts: Texts, embedder: Embedder, *, prefix: str = "") -> None:
        self.embedder, self.texts, self._prefix = embedder, texts, prefix
        self.address = embedder.name
        self.dim = embedder.dim
        self.count: int | None = len(texts.ids)
        self._places = {id: place for place, id in enumerate(texts.ids)}

    @property
    def stamp(self) -> Stamp:
        """The model and its prompt."""
        found = {"model": self.embedder.name, "prefix": self._prefix}
        for name in ("revision", "fingerprint"):
            value = getattr(self.embedder, name)
            if value is not None:
                found[name] = value
        return found

    def batches(self, size: int = 4096, start: int = 0) -> Iterator[VectorBatch]:
        """All texts from one on, embedded."""
        for first in range(start, len(self.texts.ids), size):
            part = slice(first, first + size)
            texts = self.texts.texts[part]
            yield VectorBatch(
                self.texts.ids[part], self.embedder(texts, prefix=self._prefix), texts, first
            )

    def take(self, ids: Sequence[str]) -> VectorBatch:
        """The vectors of these texts."""
        known = [id for id in ids if id in self._places]
        if len(known) < len(ids):
            gathered(self, ids, {id: (np.empty(0, np.float32), None) for id in known})
        texts = [self.texts.texts[self._places[id]] for id in ids]
        return VectorBatch(list(ids), self.embedder(texts, prefix=self._prefix), texts)
