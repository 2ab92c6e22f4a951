"""Texts with ids, and the vectors that a model gives them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
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
    numbered: bool = field(default=False, compare=False)
    """Whether the ids are but the numbers of lines."""

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
        return cls(ids, texts, path.suffix == ".txt")

    def by_row(self) -> Texts:
        """The same with row numbers, from 0, for ids: what vectors without ids have."""
        return Texts([str(row) for row in range(len(self.texts))], self.texts, self.numbered)

    def only(self, ids: Collection[str]) -> Texts:
        """The texts of these ids, in the order they have here."""
        kept = [row for row, id in enumerate(self.ids) if id in ids]
        texts = [self.texts[row] for row in kept]
        return Texts([self.ids[row] for row in kept], texts, self.numbered)


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
        self.progress: Callable[[int, int | None], None] = lambda done, total: None
        """Told how many texts of how many are embedded."""

    def of(self, texts: Texts) -> EmbeddedTexts:
        """The same model and prompt with other texts."""
        return EmbeddedTexts(texts, self.embedder, prefix=self._prefix)

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
            vectors = self.embedder(
                texts,
                prefix=self._prefix,
                progress=lambda done, first=first: self.progress(first + done, self.count),  # type: ignore[misc]
            )
            yield VectorBatch(self.texts.ids[part], vectors, texts, first)

    def take(self, ids: Sequence[str]) -> VectorBatch:
        """The vectors of these texts."""
        known = [id for id in ids if id in self._places]
        if len(known) < len(ids):
            gathered(self, ids, {id: (np.empty(0, np.float32), None) for id in known})
        texts = [self.texts.texts[self._places[id]] for id in ids]
        return VectorBatch(list(ids), self.embedder(texts, prefix=self._prefix), texts)
