"""The mean of a static table's rows over the tokens of a text."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gramian.bridge.embedders.protocol import Floats, Progress, checked
from gramian.errors import GramianError

BATCH = 1024


class StaticTable:
    """Mean of table rows: no network runs.

    tokenizer : of the ``tokenizers`` library. table : (vocabulary, dim).

    Raises
    ------
    GramianError : the table has fewer rows than the tokenizer has tokens.
    """

    revision: str | None = None
    unit_norm = False

    def __init__(self, name: str, tokenizer: Any, table: Floats) -> None:
        if len(table) < tokenizer.get_vocab_size():
            raise GramianError(
                f"{name}: a table of {len(table)} rows for {tokenizer.get_vocab_size()} tokens"
            )
        self.name, self.tokenizer, self.table, self.truncated = name, tokenizer, table, 0
        self.dim = table.shape[1]
        self.fingerprint = hashlib.sha256(np.ascontiguousarray(table).data).hexdigest()
        tokenizer.no_padding()
        tokenizer.no_truncation()

    def __call__(
        self, texts: Sequence[str], *, prefix: str = "", progress: Progress | None = None
    ) -> Floats:
        """Vectors (n, dim) of texts."""
        texts = checked(texts, prefix)
        out = np.zeros((len(texts), self.dim), dtype=np.float32)
        for first in range(0, len(texts), BATCH):
            some = texts[first : first + BATCH]
            for row, found in enumerate(
                self.tokenizer.encode_batch(some, add_special_tokens=False), first
            ):
                if found.ids:
                    out[row] = self.table[found.ids].mean(0)
            if progress is not None:
                progress(first + len(some))
        return out


def wordllama() -> StaticTable:
    """The table that ships in the package ``wordllama``: 32,000 tokens, 256 wide.

    Raises
    ------
    GramianError : the package is missing.
    """
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    spec = importlib.util.find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise GramianError(
            "bundled:wordllama needs the package wordllama: pip install --no-deps wordllama"
        )
    inside = Path(next(iter(spec.submodule_search_locations)))
    table = load_file(inside / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]
    tokenizer = Tokenizer.from_file(
        str(inside / "tokenizers" / "l2_supercat_tokenizer_config.json")
    )
    return StaticTable("bundled:wordllama", tokenizer, table.astype(np.float32))
