"""Where queries and items of a judgement come from, as a person names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gramian.bridge.embedders import Embedder, open_embedder
from gramian.bridge.judging.inputs import NewModel, sides
from gramian.bridge.saved import SavedBridge, Space
from gramian.bridge.texts import EmbeddedTexts, Texts
from gramian.bridge.vectors import Address, VectorSource, open_vectors
from gramian.errors import GramianError
from gramian.moments.fields import parse_json


@dataclass(frozen=True)
class Given:
    """What the command line names; ``old`` and ``new`` are keys of the mappings."""

    queries: Path | None
    corpus: str | None
    texts: Path | None
    vectors: Mapping[str, str | None]
    """Of the queries."""
    new_corpus: str | None
    models: Mapping[str, str | None]
    query_prefixes: Mapping[str, str | None]
    prefixes: Mapping[str, str | None]
    text_field: str | None
    id_field: str
    device: str
    dtype: str


def sources(bridge: SavedBridge, given: Given) -> dict[str, Any]:
    """The arguments of `gather` that are sources and models.

    Raises
    ------
    GramianError : something that is needed is neither given nor recorded; says what to give.
    """
    return _Opening(bridge, given).all()


class _Opening:
    """Opens what is needed; a model once, however often it is used."""

    def __init__(self, bridge: SavedBridge, given: Given) -> None:
        self.given = given
        old, new = sides(bridge)
        self.spaces: dict[str, Space] = {"old": old, "new": new}
        self._models: dict[str, Embedder] = {}

    def all(self) -> dict[str, Any]:
        given = self.given
        found: dict[str, Any] = {"new_queries": self._queries("new")}
        found["old_queries"] = self._queries("old", needed=False)
        found["corpus"] = self._corpus()
        if given.texts is not None:
            found["texts"] = Texts.read(given.texts)
        if given.new_corpus is not None:
            found["new_corpus"] = self._vectors(given.new_corpus)
        elif self._name("new") is not None:
            model = self._model("new")
            found["new_model"] = NewModel(model, self._prefix("new", given.prefixes))
        return found

    def _queries(self, side: str, *, needed: bool = True) -> VectorSource | None:
        address = self.given.vectors[side]
        if address is not None:
            return self._vectors(address)
        if self.given.queries is None or self._name(side) is None:
            if not needed:
                return None
            raise GramianError(
                f"no vectors of the queries by the {side} model: give --queries with texts and "
                f"--{side}-model (the bridge records {self._name(side) or 'none'}), or "
                f"--{side}-queries with vectors"
            )
        texts = Texts.read(self.given.queries, id_field=self.given.id_field)
        prefix = self._prefix(side, self.given.query_prefixes)
        return EmbeddedTexts(texts, self._model(side), prefix=prefix)

    def _corpus(self) -> VectorSource:
        given = self.given
        place = given.corpus
        if place is None:
            place = self.spaces["old"].name
            try:
                return self._vectors(place)
            except GramianError as error:
                raise GramianError(
                    f"the old side of the bridge was {place}, which cannot be read as the index "
                    f"({error}); give the index with --corpus"
                ) from error
        if not _is_texts(place):
            return self._vectors(place)
        if self._name("old") is None:
            raise GramianError(
                f"{place} holds texts and the bridge records no old model; give --old-model"
            )
        field = {} if given.text_field is None else {"text_field": given.text_field}
        texts = Texts.read(Path(place), id_field=given.id_field, **field)
        return EmbeddedTexts(texts, self._model("old"), prefix=self._prefix("old", given.prefixes))

    def _vectors(self, address: str) -> VectorSource:
        return vectors_at(address, id_field=self.given.id_field, text_field=self.given.text_field)

    def _name(self, side: str) -> str | None:
        return self.given.models[side] or self.spaces[side].model

    def _prefix(self, side: str, prefixes: Mapping[str, str | None]) -> str:
        prefix = prefixes[side]
        return self.spaces[side].prefix if prefix is None else prefix

    def _model(self, side: str) -> Embedder:
        if side not in self._models:
            name = self._name(side)
            assert name is not None
            given = self.given
            self._models[side] = open_embedder(name, device=given.device, dtype=given.dtype)
        return self._models[side]


def vectors_at(address: str, *, id_field: str, text_field: str | None) -> VectorSource:
    """Open vectors; a column of texts is asked for only where there are columns."""
    if Address.parse(address).kind in ("npy", "npz", "faiss"):
        return open_vectors(address)
    return open_vectors(address, id_field=id_field, text_field=text_field)


def _is_texts(place: str) -> bool:
    """Whether a corpus is a file of texts; JSON lines are when the first has no vector."""
    path = Path(place)
    if path.suffix in (".tsv", ".txt"):
        return True
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    with path.open(encoding="utf-8") as lines:
        first = next((line for line in lines if line.strip()), "")
    record = parse_json(first.encode(), f"{place}, line 1")
    return isinstance(record, dict) and "vector" not in record
