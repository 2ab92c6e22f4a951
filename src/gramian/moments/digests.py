"""Documents as sorted arrays of short digests: enough to know one that was counted before."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments.part import DIGEST_BYTES

Digests = np.ndarray[Any, np.dtype[np.bytes_]]
"""Sorted, each once, dtype ``S16``."""
_DTYPE = f"S{DIGEST_BYTES}"
_HEX = re.compile(r"[0-9a-f]{32,64}\Z")


def to_digests(documents: Iterable[str]) -> Digests:
    """The first 16 bytes of each hexadecimal SHA-256, sorted, each once.

    Raises:
        GramianError: a text that is not lower-case hexadecimal of a SHA-256.
    """
    texts = list(documents)
    for text in texts:
        if not isinstance(text, str) or not _HEX.match(text):
            raise GramianError(f"document digest {text!r} is not a lower-case hexadecimal SHA-256")
    data = b"".join(bytes.fromhex(text[: 2 * DIGEST_BYTES]) for text in texts)
    return np.unique(np.frombuffer(data, dtype=_DTYPE))


def to_tensor(digests: Digests) -> Tensor:
    """The digests as bytes, (n, 16)."""
    raw = np.frombuffer(digests.tobytes(), dtype=np.uint8).reshape(-1, DIGEST_BYTES)
    return torch.from_numpy(raw.copy())


def from_tensor(raw: Tensor | None) -> Digests:
    """The digests back from their bytes."""
    data = b"" if raw is None else raw.contiguous().numpy().tobytes()
    return np.frombuffer(data, dtype=_DTYPE)


def union(parts: Iterable[Digests]) -> tuple[Digests, int]:
    """All digests, each once, and how many were there more than once."""
    arrays = list(parts)
    every = np.concatenate(arrays) if arrays else to_digests(())
    once = np.unique(every)
    return once, len(every) - len(once)


def summary(digests: Digests) -> tuple[int, str]:
    """How many, and the SHA-256 over all of them in sorted order."""
    return len(digests), hashlib.sha256(digests.tobytes()).hexdigest()


def row_rank(digest: str, offset: int) -> bytes:
    """The rank of a raw row in a reservoir, which keeps the rows of lowest rank.

    Args:
        digest: hexadecimal SHA-256 of the row's document.
        offset: character offset of its token in the document.
    """
    return hashlib.sha256(f"gramian-row:{digest}:{offset}".encode()).digest()
