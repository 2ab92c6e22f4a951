"""Where the heads of a layer's attention are in its matrices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.networks.blueprint import Blueprint, Matrix
from gramian.networks.parts import Tap


@dataclass(frozen=True)
class AttentionHeads:
    """The query heads of one layer, the heads of keys and values, and the matrices they lie in."""

    count: int
    """Query heads."""
    keys: int
    """Heads of keys, and of values."""
    width: int
    """Features of one head."""
    readers: tuple[Matrix, ...]
    """Of q, k and v, or the one that makes all three."""
    writer: Matrix
    taps: tuple[Tap, Tap, Tap]
    """Of q, k and v."""

    @property
    def group(self) -> int:
        """Query heads that share one head of keys and values."""
        return self.count // self.keys

    def columns(self, heads: Sequence[int]) -> Tensor:
        """The features of these heads among those of ``z``, head by head."""
        return (torch.tensor(heads)[:, None] * self.width + torch.arange(self.width)).flatten()

    def rows(self, heads: Sequence[int], shared: Sequence[int]) -> Iterator[tuple[Matrix, Tensor]]:
        """Every matrix that reads the stream with its outputs that make these query heads and
        these heads of keys and values, in the order in which it holds them."""
        wanted = (self.columns(heads), self.columns(shared), self.columns(shared))
        if len(self.readers) == 3:
            yield from zip(self.readers, wanted, strict=True)
            return
        every = torch.arange(sum(tap.width for tap in self.taps))
        found = []
        for tap, features in zip(self.taps, wanted, strict=True):
            assert tap.columns is not None
            held = every.view(tap.groups, -1)[:, tap.columns[0] : tap.columns[1]].flatten()
            found.append(held[features])
        yield self.readers[0], torch.cat(found).sort().values


def attention_heads(plan: Blueprint, config: Any, layer: int) -> AttentionHeads:
    """The heads of a layer.

    Raises
    ------
    GramianError : an architecture whose configuration does not count its heads.
    """
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    count = getattr(text, plan.main.heads_key, None) if plan.main.heads_key else None
    found = plan.layers[layer]
    if not isinstance(count, int) or "z" not in found.taps:
        raise GramianError(
            f"the attention heads of this {plan.model_type} network are not known: its "
            "configuration does not count them"
        )
    width = found.taps["z"].width // count
    prefix = f"{plan.main.prefix}{layer}"
    return AttentionHeads(
        count=count,
        keys=found.taps["k"].width // width,
        width=width,
        readers=tuple(r.matrix for r in found.readers if r.site == f"{prefix}.attn_in"),
        writer=next(w.matrix for w in found.outputs if w.site == f"{prefix}.attn_out"),
        taps=(found.taps["q"], found.taps["k"], found.taps["v"]),
    )
