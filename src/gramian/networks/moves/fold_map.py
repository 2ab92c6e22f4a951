"""Fold a map into the matrix that writes a branch's output."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from gramian.maps import LinearMap
from gramian.networks.blueprint import Blueprint
from gramian.networks.draft import Draft
from gramian.networks.moves.hooking import map_outputs
from gramian.networks.moves.protocol import LAYERS, MATRICES, STREAM
from gramian.networks.moves.weights import checked_map, fold_outputs, require_square
from gramian.networks.sites import parse


@dataclass(frozen=True)
class FoldMap:
    """Fold a map at ``<layer>.attn_out`` or ``<layer>.mlp_out`` into the matrix that writes it.

    ``W <- M W``, ``b <- M b + c``. A constant ``c`` without a bias slot is refused, never
    dropped: fold ``map.map`` (the linear part) if that is what you want.
    """

    site: str
    map: LinearMap
    kind: ClassVar[str] = "fold_map"
    changes: ClassVar[frozenset[str]] = frozenset({MATRICES})
    reads: ClassVar[frozenset[str]] = frozenset({LAYERS, STREAM})

    def __post_init__(self) -> None:
        checked_map(self.map, "FoldMap")

    def rewrite(self, draft: Draft) -> Draft:
        matrix = draft.blueprint.writer(self.site)
        require_square(self.map, draft.blueprint.width, self.site)
        return fold_outputs(draft, matrix, self.map, self.site)

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        site = parse(draft.blueprint.canonical(self.site))
        assert site.layer is not None
        tap = source.tap(f"{draft.origin[site.layer]}.{site.kind}")
        map_outputs(model.get_submodule(tap.path), self.map, stack)

    def describe(self) -> str:
        return f"fold {self.map!r} into the writer of {self.site}"
