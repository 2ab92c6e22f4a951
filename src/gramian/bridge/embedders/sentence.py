"""Models saved by sentence-transformers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gramian.bridge.embedders.protocol import Floats, Progress, checked
from gramian.errors import GramianError

CHUNK = 512


class SentenceModel:
    """A model of the sentence-transformers library: its pooling, dense and normalising modules.

    Raises
    ------
    GramianError : the library is missing, or it cannot open the model.
    """

    def __init__(self, name: str, location: str, *, device: str, batch: int, local: bool) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise GramianError(
                f"{name} is a sentence-transformers model; opening it needs "
                "pip install 'gramian[sentence-transformers]'"
            ) from error
        try:
            model = SentenceTransformer(
                location, device=device, trust_remote_code=False, local_files_only=local
            )
        except (OSError, ValueError, KeyError) as error:
            raise GramianError(f"cannot open {name}: {str(error).splitlines()[0]}") from error
        self._model: Any = model
        self.name, self._location, self._batch = name, location, batch
        width = self._model.get_embedding_dimension()
        if width is None:
            raise GramianError(f"{name} does not say how wide its vectors are")
        self.dim = int(width)
        self.revision: str | None = None
        self.truncated = 0
        self.unit_norm = any(type(part).__name__ == "Normalize" for part in self._model)

    @cached_property
    def fingerprint(self) -> str | None:
        """SHA-256 over the weight files of a local folder."""
        files = sorted(Path(self._location).rglob("*.safetensors"))
        if not files:
            return None
        digest = hashlib.sha256()
        for path in files:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()

    def __call__(
        self, texts: Sequence[str], *, prefix: str = "", progress: Progress | None = None
    ) -> Floats:
        """Vectors (n, dim) of texts."""
        texts = checked(texts, prefix)
        limit = self._model.max_seq_length
        out = np.empty((len(texts), self.dim), dtype=np.float32)
        for first in range(0, len(texts), CHUNK):
            some = texts[first : first + CHUNK]
            if limit is not None:
                ids = self._model.tokenizer(some, truncation=False)["input_ids"]
                self.truncated += sum(len(found) > limit for found in ids)
            out[first : first + len(some)] = self._model.encode(
                some, batch_size=self._batch, convert_to_numpy=True, show_progress_bar=False
            )
            if progress is not None:
                progress(first + len(some))
        return out
