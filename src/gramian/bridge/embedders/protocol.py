"""What turns texts into vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gramian.errors import GramianError

Floats = NDArray[np.float32]
Progress = Callable[[int], None]
"""Called with the number of texts that are done."""


class Embedder(Protocol):
    """A model that gives every text one vector."""

    name: str
    dim: int
    revision: str | None
    unit_norm: bool
    truncated: int
    """Texts so far that were longer than the model reads."""

    @property
    def fingerprint(self) -> str | None:
        """SHA-256 of the weights; None where they cannot be seen."""
        ...

    def __call__(
        self, texts: Sequence[str], *, prefix: str = "", progress: Progress | None = None
    ) -> Floats:
        """Vectors (n, dim) of texts, each with ``prefix`` before it."""
        ...


def checked(texts: Sequence[str], prefix: str) -> list[str]:
    """Texts with their prefix.

    Raises
    ------
    GramianError : one is no text, or has nothing in it; names its number.
    """
    if isinstance(texts, str):
        raise GramianError("one text was given where a list of texts is expected")
    for number, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            raise GramianError(f"text {number} is {text!r}; expected text with something in it")
    return [prefix + text for text in texts]
