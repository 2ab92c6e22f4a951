"""The two sides of a bridge as a person names them: vectors, or a model and texts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from gramian.bridge.embedders import Embedder, open_embedder
from gramian.bridge.texts import EmbeddedTexts, Texts
from gramian.bridge.vectors import VectorSource, open_vectors
from gramian.bridge.vectors.opening import is_address
from gramian.errors import GramianError


@dataclass(frozen=True)
class Side:
    """What the options say of one side.

    Raises
    ------
    GramianError : a model is named twice.
    """

    which: str
    """``old`` or ``new``."""
    name: str
    """Vectors at an address, or a model."""
    model: str | None = None
    prefix: str = ""
    query_prefix: str | None = None

    def __post_init__(self) -> None:
        if self.model is not None and not is_address(self.name):
            raise GramianError(
                f"{self.which.upper()} is the model {self.name}; --{self.which}-model is for "
                "vectors that do not say their model"
            )

    @property
    def known(self) -> dict[str, str]:
        """What is stated of the vectors; a model's own say it themselves."""
        if not is_address(self.name):
            return {}
        found = {} if self.model is None else {"model": self.model}
        return found | ({"prefix": self.prefix} if self.prefix else {})


class Opened:
    """Sources and models by name, each model opened once.

    cache : folder for the answers of endpoints, so that a long job goes on where it stopped.
    """

    def __init__(self, *, id_field: str, device: str, dtype: str, cache: Path | None) -> None:
        self.id_field, self.device, self.dtype, self.cache = id_field, device, dtype, cache
        self._models: dict[str, Embedder] = {}

    def source(self, side: Side, texts: Texts | None) -> VectorSource:
        """Vectors at an address, or those that a model gives texts.

        Raises
        ------
        GramianError : a model without texts, or neither a model nor an address.
        """
        if is_address(side.name):
            return open_vectors(side.name, id_field=self.id_field)
        if texts is None:
            raise GramianError(
                f"{side.name} is a model (or no address of vectors): give the texts to embed with "
                "--texts, or have the other side carry them, as pairs.jsonl of gramian bridge "
                "sample does"
            )
        return EmbeddedTexts(texts, self._model(side.name), prefix=side.prefix)

    def queries(self, path: Path, side: Side, source: VectorSource) -> VectorSource:
        """Pairs of queries on one side: the field ``old`` or ``new`` of JSON lines, or texts that
        the model of that side embeds.

        Raises
        ------
        GramianError : texts, and a side whose model is not known.
        """
        if _has_vectors(path):
            return open_vectors(f"{path}#{side.which}", id_field=self.id_field)
        name = side.model or source.stamp.get("model")
        if name is None:
            raise GramianError(
                f"{path} holds texts of queries, and nothing says which model {source.address} is "
                f"of; give --{side.which}-model, or vectors in its fields old and new"
            )
        texts = Texts.read(path, id_field=self.id_field)
        prefix = side.prefix if side.query_prefix is None else side.query_prefix
        return EmbeddedTexts(texts, self._model(name), prefix=prefix)

    def _model(self, name: str) -> Embedder:
        if name not in self._models:
            self._models[name] = open_embedder(
                name, device=self.device, dtype=self.dtype, cache=self.cache
            )
        return self._models[name]


def texts_for(names: tuple[str, str], path: Path | None, *, id_field: str = "id") -> Texts | None:
    """The texts of ``--texts``, or those that a side's ``.jsonl`` file carries."""
    if path is not None:
        return Texts.read(path, id_field=id_field)
    carried = [name.partition("#")[0] for name in names if is_address(name)]
    models = [name for name in names if not is_address(name)]
    for name in carried:
        if models and name.endswith(".jsonl"):
            return Texts.read(Path(name), id_field=id_field)
    return None


def _has_vectors(path: Path) -> bool:
    """Whether the first of JSON lines has vectors of both models."""
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    with path.open(encoding="utf-8") as lines:
        first = next((line for line in lines if line.strip()), "")
    try:
        record = json.loads(first)
    except ValueError:
        return False
    return isinstance(record, dict) and {"old", "new"} <= set(record)
