"""What packing yields: windows of tokens that know where they came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

NOWHERE = -1
"""Document and offset of a position that belongs to no document: BOS and padding."""


class Token(NamedTuple):
    """One position of a window: token id, digest of its document, offset in that document."""

    id: int
    digest: str = ""
    offset: int = NOWHERE


@dataclass(frozen=True)
class Total:
    """What one fold held: tokens (BOS included), distinct documents, their digests, sorted."""

    tokens: int
    documents: int
    digests: tuple[str, ...]


@dataclass(frozen=True)
class Batch:
    """Windows of one fold.

    Attributes
    ----------
    ids : (B, T) long, token ids; padding on the right.
    mask : (B, T) bool, False on padding.
    fold : the fold of every window.
    document : (B, T) long, index into ``digests``; -1 on padding and on a BOS put in front.
    offset : (B, T) long, where the token starts in its document (see ``Packing.offsets``);
        -1 where ``document`` is.
    digests : SHA-256 of the documents in this batch, in order of appearance.
    """

    ids: Tensor
    mask: Tensor
    fold: str
    document: Tensor
    offset: Tensor
    digests: tuple[str, ...]

    @property
    def tokens(self) -> int:
        """Positions that are not padding."""
        return int(self.mask.sum())

    @classmethod
    def of(cls, fold: str, windows: Sequence[Sequence[Token]], length: int, padding: int) -> Batch:
        """Windows of at most ``length`` tokens, filled up on the right with ``padding``."""
        shape = (len(windows), length)
        ids = torch.full(shape, padding, dtype=torch.long)
        mask = torch.zeros(shape, dtype=torch.bool)
        document = torch.full(shape, NOWHERE, dtype=torch.long)
        offset = torch.full(shape, NOWHERE, dtype=torch.long)
        numbers = {"": NOWHERE}
        for row, window in enumerate(windows):
            for token in window:
                numbers.setdefault(token.digest, len(numbers) - 1)
            size = len(window)
            ids[row, :size] = torch.tensor([token.id for token in window])
            mask[row, :size] = True
            document[row, :size] = torch.tensor([numbers[token.digest] for token in window])
            offset[row, :size] = torch.tensor([token.offset for token in window])
        return cls(ids, mask, fold, document, offset, tuple(numbers)[1:])
