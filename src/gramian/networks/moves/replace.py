"""Replace a run of blocks by one linear map."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from gramian.errors import GramianError
from gramian.maps import LinearMap
from gramian.networks.blueprint import Blueprint
from gramian.networks.draft import Draft
from gramian.networks.moves.drop_layers import DropLayers, checked_layers
from gramian.networks.moves.fold_map import FoldMap
from gramian.networks.moves.protocol import LAYERS, MATRICES, STREAM


@dataclass(frozen=True)
class Replace:
    """Replace consecutive blocks by a map on the MLP output of the block before them.

    With ``x`` the stream after that block's attention and ``m`` its MLP's output, what entered
    the block after the run was ``f(x + m)`` and is now ``x + M m (+ c)``. The map disappears into
    the matrix that writes ``m``; the result is the same architecture with fewer layers. See
    ReplaceMe (arXiv:2505.02819).
    """

    layers: tuple[int, ...]
    map: LinearMap
    kind: ClassVar[str] = "replace"
    changes: ClassVar[frozenset[str]] = frozenset({MATRICES})
    reads: ClassVar[frozenset[str]] = frozenset({LAYERS, STREAM})

    def __post_init__(self) -> None:
        checked_layers(self.layers, "Replace")
        first = min(self.layers, default=0)
        if not self.layers or self.layers != tuple(range(first, first + len(self.layers))):
            raise GramianError(
                f"Replace({self.layers}): expected consecutive layers, such as (3, 4, 5)"
            )
        if first < 1:
            raise GramianError(
                f"Replace({self.layers}): no block comes before layer 0 to take the map; expected "
                "layers from 1 on"
            )
        self._fold()

    def rewrite(self, draft: Draft) -> Draft:
        return self._drop().rewrite(self._fold().rewrite(draft))

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        self._fold().hooks(model, source, draft, stack)
        self._drop().hooks(model, source, draft, stack)

    def describe(self) -> str:
        names = ", ".join(map(str, self.layers))
        return f"replace layers {names} by {self.map!r} on {self.layers[0] - 1}.mlp_out"

    def _fold(self) -> FoldMap:
        return FoldMap(f"{self.layers[0] - 1}.mlp_out", self.map)

    def _drop(self) -> DropLayers:
        return DropLayers(self.layers)
