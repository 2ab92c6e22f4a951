"""Move the gain of a norm into the matrices that read it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.maps import Diagonal
from gramian.networks.blueprint import Blueprint, Norm
from gramian.networks.draft import Draft, Lazy
from gramian.networks.moves.protocol import MATRICES, READERS
from gramian.networks.moves.weights import fold_inputs, plus_image


@dataclass(frozen=True)
class FoldNorm:
    """Move a norm's gain (and bias) into the matrices that read it; its gain becomes one.

    The function of the network does not change. RMSNorm: ``W diag(g)``; Gemma: ``1 + weight``;
    LayerNorm: also ``b + W beta`` (the mean is still subtracted; where a reader has no bias,
    ``beta / g`` stays in the norm). A tied head is untied first.
    """

    norm: str
    kind: ClassVar[str] = "fold_norm"
    changes: ClassVar[frozenset[str]] = frozenset({READERS, MATRICES})
    reads: ClassVar[frozenset[str]] = frozenset()

    def rewrite(self, draft: Draft) -> Draft:
        norm = draft.blueprint.norm(self.norm)
        if not norm.readers:
            raise GramianError(
                f"norm {self.norm!r}: its output is added to the residual stream, no matrix reads "
                "it, so its gain cannot be folded"
            )
        head = draft.blueprint.head
        if head is not None and any(reader.weight == head.weight for reader in norm.readers):
            draft = draft.untied()
        stored = draft.tensors[norm.weight]

        def gain() -> Tensor:
            return gain_of(norm, stored())

        biases = [draft.giving(reader).bias for reader in norm.readers]
        shift = draft.tensors.get(norm.bias or "")
        absorbed = all(bias in draft.tensors for bias in biases)
        changed: dict[str, Lazy] = {}
        if shift is not None and absorbed:
            for reader, bias in zip(norm.readers, biases, strict=True):
                changed[bias] = plus_image(draft, reader, shift)
        scale = Diagonal(gain())
        folded = draft
        for reader in norm.readers:
            folded = fold_inputs(folded, reader, scale, f"norm {self.norm}")
        neutral = torch.zeros_like if norm.kind == "rms1p" else torch.ones_like
        changed[norm.weight] = lambda: neutral(stored())
        if shift is not None and norm.bias is not None:
            changed[norm.bias] = _remaining_shift(shift, gain, absorbed, self.norm)
        return folded.with_tensors(changed)

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        """Nothing: the network's function stays what it was."""

    def describe(self) -> str:
        return f"fold norm {self.norm}"


def gain_of(norm: Norm, weight: Tensor) -> Tensor:
    """What a norm multiplies with, in float64."""
    return 1 + weight.double() if norm.kind == "rms1p" else weight.double()


def _remaining_shift(shift: Lazy, gain: Lazy, absorbed: bool, name: str) -> Lazy:
    """What stays of a norm's bias: nothing, or where the readers have no bias of their own
    ``beta / g``, since ``W (g x + beta) = W diag(g) (x + beta / g)``."""

    def remaining() -> Tensor:
        beta = shift()
        if absorbed:
            return torch.zeros_like(beta)
        g = gain()
        lost = (g == 0) & (beta != 0)
        if bool(lost.any()):
            raise GramianError(
                f"norm {name!r} has a gain of zero and a bias at feature "
                f"{int(lost.nonzero()[0])}, and its readers have no bias: it cannot be folded"
            )
        return torch.where(beta == 0, 0.0, beta.double() / g).to(beta.dtype)

    return remaining
