"""Embeddings from an endpoint that speaks OpenAI's protocol."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gramian.bridge.embedders.protocol import Floats, Progress, checked
from gramian.errors import GramianError


class Endpoint:
    """A model behind ``POST /v1/embeddings``; texts leave this machine.

    Answers are kept in a cache folder when one is given, so a long job that is interrupted asks
    again only for what it does not have.

    url : ending in ``/v1``; None is OpenAI's own. The key is read from ``OPENAI_API_KEY``.

    Raises
    ------
    GramianError : the openai package or the key is missing; no answer, or none that fits.
    """

    revision: str | None = None
    fingerprint: str | None = None
    truncated = 0

    def __init__(
        self, model: str, url: str | None = None, *, batch: int = 64, cache: Path | None = None
    ) -> None:
        try:
            import openai
        except ImportError as error:
            raise GramianError(
                "an endpoint needs the openai package: pip install 'gramian[openai]'"
            ) from error
        key = os.environ.get("OPENAI_API_KEY") or ("none" if url else None)
        if key is None:
            raise GramianError("set OPENAI_API_KEY to the key of the endpoint")
        self._client = openai.OpenAI(api_key=key, base_url=url, max_retries=5, timeout=60.0)
        self._failures = openai.OpenAIError
        self._model, self._batch, self._cache = model, batch, cache
        self.name = f"openai:{model}" + (f"@{url}" if url else "")
        probe = self._ask(["dimension"])
        self.dim = probe.shape[1]
        self.unit_norm = bool(abs(float(np.linalg.norm(probe[0])) - 1.0) < 1e-3)

    def __call__(
        self, texts: Sequence[str], *, prefix: str = "", progress: Progress | None = None
    ) -> Floats:
        """Vectors (n, dim) of texts."""
        texts = checked(texts, prefix)
        out = np.empty((len(texts), self.dim), dtype=np.float32)
        for first in range(0, len(texts), self._batch):
            some = texts[first : first + self._batch]
            out[first : first + len(some)] = self._kept(some)
            if progress is not None:
                progress(first + len(some))
        return out

    def _kept(self, texts: list[str]) -> Floats:
        if self._cache is None:
            return self._ask(texts)
        key = hashlib.sha256(json.dumps([self.name, texts]).encode()).hexdigest()
        path = self._cache / f"{key}.npy"
        if path.is_file():
            found: Floats = np.load(path, allow_pickle=False)
            return found
        found = self._ask(texts)
        self._cache.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".new.npy")
        np.save(temporary, found)
        os.replace(temporary, path)
        return found

    def _ask(self, texts: list[str]) -> Floats:
        try:
            answer: Any = self._client.embeddings.create(
                model=self._model, input=texts, encoding_format="float"
            )
        except self._failures as error:
            raise GramianError(
                f"{self._model} gave no embeddings: {error}; what was answered so far is kept "
                "where a cache folder was given"
            ) from error
        rows = sorted(answer.data, key=lambda item: item.index)
        try:
            found = np.asarray([item.embedding for item in rows], dtype=np.float32)
        except (ValueError, TypeError) as error:
            raise GramianError(f"{self._model} answered with unequal vectors") from error
        if found.shape[0] != len(texts) or found.ndim != 2 or not np.isfinite(found).all():
            raise GramianError(
                f"{self._model} answered {len(texts)} texts with vectors of shape {found.shape}"
            )
        return found
