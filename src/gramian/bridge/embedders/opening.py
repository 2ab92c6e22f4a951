"""Embedders by name."""

from __future__ import annotations

import json
from pathlib import Path

from gramian.bridge.embedders.protocol import Embedder
from gramian.errors import GramianError
from gramian.networks.checkpoint import open as open_checkpoint
from gramian.networks.sources import resolve


def open_embedder(
    spec: str,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    batch: int = 64,
    cache: Path | None = None,
) -> Embedder:
    """Open what turns texts into vectors.

    Parameters
    ----------
    spec : ``bundled:minilm``, ``bundled:wordllama``, ``bundled:smollm2``; a folder or Hugging Face
        id (with ``modules.json`` a sentence-transformers model, else mean-pooled); or
        ``openai:MODEL`` and ``openai:MODEL@https://host/v1`` for an endpoint.
    batch : texts in one request or batch. cache : folder for the answers of an endpoint.

    Raises
    ------
    GramianError : no such model, or a package or key is missing.
    """
    if spec == "bundled:wordllama":
        from gramian.bridge.embedders.static import wordllama

        return wordllama()
    if spec.startswith("openai:"):
        from gramian.bridge.embedders.endpoint import Endpoint

        model, _, url = spec.removeprefix("openai:").partition("@")
        if not model:
            raise GramianError(f"{spec!r} names no model; expected openai:MODEL@https://host/v1")
        return Endpoint(model, url or None, batch=batch, cache=cache)
    from gramian.bridge.embedders.pooled import PooledModel

    source = resolve(spec)
    modules = Path(source.location) / "modules.json"
    if not spec.startswith("bundled:") and (
        modules.is_file() if source.local else _hub_has_modules(source.location)
    ):
        from gramian.bridge.embedders.sentence import SentenceModel

        return SentenceModel(spec, source.location, device=device, batch=batch, local=source.local)
    checkpoint = open_checkpoint(spec, device=device, dtype=dtype)
    normalise, limit = False, None
    if modules.is_file():
        parts = [str(part["type"]) for part in json.loads(modules.read_text("utf-8"))]
        normalise = any(part.endswith(".Normalize") for part in parts)
        limit = json.loads((modules.parent / "sentence_bert_config.json").read_text("utf-8"))[
            "max_seq_length"
        ]
    return PooledModel(checkpoint, normalise=normalise, limit=limit)


def _hub_has_modules(name: str) -> bool:
    """Whether a model of the hub is one of sentence-transformers, whose pooling is its own."""
    from transformers.utils.hub import cached_file

    try:
        found = cached_file(
            name,
            "modules.json",
            _raise_exceptions_for_gated_repo=False,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
    except (OSError, ValueError):
        return False
    return found is not None
