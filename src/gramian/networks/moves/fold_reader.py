"""Fold a map into the matrices that read a branch's input."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from gramian.errors import GramianError
from gramian.maps import LinearMap
from gramian.networks.blueprint import Blueprint, Matrix
from gramian.networks.draft import Draft
from gramian.networks.moves.hooking import map_inputs, owners
from gramian.networks.moves.protocol import LAYERS, MATRICES, READERS, STREAM
from gramian.networks.moves.weights import checked_map, fold_inputs, require_square
from gramian.networks.sites import parse


@dataclass(frozen=True)
class FoldReader:
    """Fold a map at ``<layer>.attn_in`` or ``<layer>.mlp_in`` into all matrices that read it.

    ``W <- W M``, ``b <- b + W c``: the network computes what it would with the map (a projection,
    an eraser, a whitening) between the norm and its readers. A constant ``c`` for a reader
    without a bias slot is refused, never dropped.
    """

    site: str
    map: LinearMap
    kind: ClassVar[str] = "fold_reader"
    changes: ClassVar[frozenset[str]] = frozenset({MATRICES})
    reads: ClassVar[frozenset[str]] = frozenset({LAYERS, STREAM, READERS})

    def __post_init__(self) -> None:
        checked_map(self.map, "FoldReader")

    def rewrite(self, draft: Draft) -> Draft:
        require_square(self.map, draft.blueprint.width, self.site)
        for matrix in _readers(draft.blueprint, self.site):
            draft = fold_inputs(draft, matrix, self.map, self.site)
        return draft

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        site = parse(draft.blueprint.canonical(self.site))
        assert site.layer is not None
        for module in owners(model, _readers(source, f"{draft.origin[site.layer]}.{site.kind}")):
            map_inputs(module, self.map, stack)

    def describe(self) -> str:
        return f"fold {self.map!r} into the readers of {self.site}"


def _readers(blueprint: Blueprint, name: str) -> tuple[Matrix, ...]:
    """The matrices that read a site of a layer."""
    site = parse(blueprint.canonical(name))
    here = f"{site.layer}.{site.kind}"
    found = () if site.layer is None else blueprint.readers(site.layer)
    matrices = tuple(reader.matrix for reader in found if reader.site == here)
    if not matrices:
        raise GramianError(
            f"site {name!r} is not the input of readers of the residual stream; expected "
            "<layer>.attn_in or <layer>.mlp_in"
        )
    return matrices
