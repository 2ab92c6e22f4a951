"""Keep some attention heads of every layer."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from gramian.errors import GramianError
from gramian.maps import LinearMap
from gramian.networks.attention_heads import AttentionHeads, attention_heads
from gramian.networks.blueprint import Blueprint
from gramian.networks.draft import Draft
from gramian.networks.moves.protocol import LAYERS, MATRICES, READERS, STREAM
from gramian.networks.moves.selecting import (
    Changed,
    Kept,
    checked_selection,
    outputs_kept,
    require_below,
    require_layers,
    require_whole,
    resized,
    rewritten_writer,
    write_from,
)


@dataclass(frozen=True)
class SelectHeads:
    """Keep the query heads ``kept[i]`` of layer ``i``, read by the map ``writers[i]``.

    A head of keys and values stays where a query head that reads it does, so whole groups may go,
    or as many query heads of every group. The matrix behind the heads is the map's, of shape
    (width, heads kept times their width); an affine map also gives its bias, and any other leaves
    the bias that is there. The configuration then states ``head_dim``, which no longer follows
    from the width and the number of heads.

    Refused where the architecture derives the width of a head (GPT-2, OPT, GPT-NeoX), or has a
    norm over all heads (OLMo 2).
    """

    kept: Kept
    writers: tuple[LinearMap, ...]
    kind: ClassVar[str] = "select_heads"
    changes: ClassVar[frozenset[str]] = frozenset({MATRICES})
    reads: ClassVar[frozenset[str]] = frozenset({LAYERS, STREAM, READERS, MATRICES})

    def __post_init__(self) -> None:
        checked_selection(self.kept, self.writers, "SelectHeads")

    def rewrite(self, draft: Draft) -> Draft:
        plan = draft.blueprint
        require_layers(draft, self.kept, "SelectHeads")
        changed: Changed = {}
        counts: set[tuple[int, int, int]] = set()
        for layer, own, map in zip(plan.layers, self.kept, self.writers, strict=True):
            shape = attention_heads(plan, draft.config, layer.index)
            require_below(own, shape.count, f"attention of layer {layer.index}")
            shared = _shared(shape, own, layer.index)
            counts.add((len(own), len(shared), shape.width))
            if map.in_features != len(own) * shape.width:
                raise GramianError(
                    f"SelectHeads keeps {len(own)} heads of {shape.width} in layer {layer.index}, "
                    f"and {map!r} reads them"
                )
            for matrix in (*shape.readers, shape.writer):
                require_whole(draft, matrix, "SelectHeads")
            for matrix, rows in shape.rows(own, shared):
                changed |= outputs_kept(draft, matrix, rows)
            changed |= rewritten_writer(draft, shape.writer, map)
        if len(counts) > 1:
            raise GramianError(
                f"SelectHeads: layers keep (query heads, key heads, width) {sorted(counts)}; an "
                "ordinary configuration has one number for all of them"
            )
        (queries, keys, width) = counts.pop()
        if queries == shape.count:
            return resized(draft, changed)
        values = {plan.main.heads_key: queries, "head_dim": width}
        if getattr(draft.config, "num_key_value_heads", None) is not None:
            values["num_key_value_heads"] = keys
        return resized(draft, changed, **values)

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        for old, own, map in zip(draft.origin, self.kept, self.writers, strict=True):
            shape = attention_heads(source, draft.config, old)
            write_from(model, shape.writer, shape.columns(own), map, stack)

    def describe(self) -> str:
        return f"keep {len(self.kept[0])} attention heads of every layer"


def _shared(shape: AttentionHeads, kept: tuple[int, ...], layer: int) -> tuple[int, ...]:
    """The heads of keys and values that the kept query heads read, each by equally many."""
    by_key: dict[int, int] = {}
    for head in kept:
        by_key[head // shape.group] = by_key.get(head // shape.group, 0) + 1
    if len(set(by_key.values())) > 1:
        raise GramianError(
            f"SelectHeads keeps the query heads {list(kept)} of layer {layer}, of which "
            f"{shape.group} share a key: keep whole groups, or equally many of every group"
        )
    return tuple(sorted(by_key))
