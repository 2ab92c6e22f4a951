"""Give the residual stream fewer features."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.maps import Dense, LinearMap, LowRank
from gramian.maps.tags import Tag
from gramian.networks.blueprint import Blueprint, Norm
from gramian.networks.draft import Draft, Lazy
from gramian.networks.moves.fold_norm import gain_of
from gramian.networks.moves.fold_stream import FoldStream
from gramian.networks.moves.protocol import LAYERS, MATRICES, READERS, STREAM
from gramian.networks.moves.stream import (
    is_tied_head,
    map_embeddings,
    map_readers,
    map_shifts,
    map_writers,
    require_closed,
    require_readers,
    require_uniform_gains,
)
from gramian.networks.moves.weights import checked_map
from gramian.networks.narrowing import embedding_scale, narrowed

_DEFECT = 1e-6
"""Largest distance of ``T Tᵀ`` from the identity, relative to its norm."""


@dataclass(frozen=True)
class Narrow:
    """Keep of the residual stream what ``T`` (kept, width) with orthonormal rows shows of it.

    The new network computes what the old one would with ``Tᵀ T`` on all that is added to the
    stream: what the rows do not span is gone, and every norm still divides by the length over the
    *old* number of features. Its stream is ``s T x`` with ``s = sqrt(kept / width)``, whose mean
    square is that of ``Tᵀ T x`` over the old width::

        |s T x|² / kept = |T x|² / width

    so a stock norm, its epsilon included, needs no correction: embeddings ``s E Tᵀ``, writers
    ``s T W``, readers ``W Tᵀ / s``. A head that shares the token table gets ``1 / s²`` from the
    gain of the final norm. Gains that differ between features have to be folded first, unless the
    rows of ``T`` are rows of the identity; where norms subtract the mean, ``T`` has to take the
    normalised vector of ones to that of the new width. See SliceGPT (arXiv:2401.15024).
    """

    map: LinearMap
    kind: ClassVar[str] = "narrow"
    changes: ClassVar[frozenset[str]] = frozenset({STREAM, READERS, MATRICES})
    reads: ClassVar[frozenset[str]] = frozenset({LAYERS, STREAM, READERS})

    def __post_init__(self) -> None:
        checked_map(self.map, "Narrow")
        kept, width = self.map.out_features, self.map.in_features
        if not 1 <= kept <= width:
            raise GramianError(
                f"Narrow takes a map to fewer features and got {self.map!r}; expected (kept, width)"
            )
        rows = self.map.to_dense(torch.float64)
        gram = rows @ rows.T
        defect = float((gram - torch.eye(kept, dtype=gram.dtype)).norm()) / math.sqrt(kept)
        if not defect <= _DEFECT:
            raise GramianError(
                f"Narrow takes a map with orthonormal rows; {self.map!r} is off by {defect:.2e} "
                f"(|T Tᵀ - I|, allowed {_DEFECT:.0e})"
            )

    def rewrite(self, draft: Draft) -> Draft:
        plan, rows = draft.blueprint, self.map.to_dense(torch.float64)
        kept, width = rows.shape
        if width != plan.width:
            raise GramianError(
                f"the map for Narrow takes {width} features, and the stream of this "
                f"{plan.model_type} network has {plan.width}"
            )
        require_closed(draft, "Narrow")
        require_readers(draft, "Narrow")
        require_plain_norms(plan)
        if any(norm.kind == "layer" for norm in plan.stream_norms()):
            _require_ones(rows, plan)
        chosen = selection(rows)
        if chosen is None:
            require_uniform_gains(draft)
        new = narrowed(draft, kept)
        s = math.sqrt(kept / width)
        # What the embeddings' own factor (Gemma: sqrt(width)) was, over what it will be.
        drift = embedding_scale(draft) / embedding_scale(new)
        draft = map_readers(draft, Dense(rows.T / s), "Narrow")
        draft = map_embeddings(draft, Dense(s * drift * rows))
        draft = map_writers(draft, Dense(s * rows), "Narrow")
        draft = map_shifts(draft, Dense(s * rows))
        tied = plan.head is not None and is_tied_head(draft, plan.head)
        changed: dict[str, Lazy] = {}
        for norm in plan.stream_norms():
            # The head's own table is s drift E Tᵀ where it should be E Tᵀ / s.
            factor = 1 / (s * s * drift) if tied and norm is plan.main.final_norm else 1.0
            changed[norm.weight] = _gain(norm, draft.tensors[norm.weight], chosen, kept, factor)
            if norm.bias is not None and norm.bias in draft.tensors and factor != 1.0:
                changed[norm.bias] = _scaled(draft.tensors[norm.bias], factor)
        draft = draft.with_tensors(changed)
        return replace(draft, config=new.config, blueprint=new.blueprint, empty=new.empty)

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        rows = self.map.to_dense(torch.float64)
        seen = LowRank(rows.T, rows).with_tags(Tag.PROJECTION, Tag.SYMMETRIC)
        # The readers only for what the bias of a norm adds outside of the rows.
        for into in ("writers", "readers"):
            FoldStream(seen, into).hooks(model, source, draft, stack)

    def describe(self) -> str:
        return (
            f"narrow the residual stream from {self.map.in_features} to {self.map.out_features} "
            f"features by {self.map!r}"
        )


def require_plain_norms(plan: Blueprint) -> None:
    """Raise unless every norm of the stream stands between the stream and matrices."""
    for norm in plan.stream_norms():
        if norm.place != "before":
            raise GramianError(
                f"norm {norm.name!r} divides {'a branch' if norm.place == 'branch' else 'the'} "
                f"{'before it is added to the stream' if norm.place == 'branch' else 'stream'} by "
                "a length over all features, which fewer features do not tell: the stream of this "
                f"{plan.model_type} network cannot be narrowed"
            )


def selection(rows: Tensor) -> Tensor | None:
    """The features that rows of the identity choose, (kept,); None for other rows."""
    chosen = rows.argmax(1)
    plain = torch.zeros_like(rows)
    plain[torch.arange(len(rows)), chosen] = 1.0
    return chosen if bool((rows == plain).all()) else None


def _require_ones(rows: Tensor, plan: Blueprint) -> None:
    kept, width = rows.shape
    image = rows.sum(1) * math.sqrt(kept / width)
    if float((image - 1).abs().max()) > 1e-6:
        raise GramianError(
            f"the norms of a {plan.model_type} network subtract the mean over features, so Narrow "
            "needs a map that takes the normalised vector of ones to that of the new width: "
            "u' uᵀ + B P with P orthonormal rows orthogonal to u and B a basis of what is "
            "orthogonal to u'"
        )


def _gain(norm: Norm, old: Lazy, chosen: Tensor | None, kept: int, factor: float) -> Lazy:
    def narrowed() -> Tensor:
        stored = old()
        few = stored[:1].expand(kept) if chosen is None else stored[chosen.to(stored.device)]
        if factor == 1.0:
            return few.clone()
        gain = gain_of(norm, few) * factor
        return (gain - 1 if norm.kind == "rms1p" else gain).to(stored.dtype)

    return narrowed


def _scaled(old: Lazy, factor: float) -> Lazy:
    return lambda: (old().double() * factor).to(old().dtype)
