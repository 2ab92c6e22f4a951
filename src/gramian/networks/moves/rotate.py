"""Rotate the residual stream."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from gramian.errors import GramianError
from gramian.maps import LinearMap
from gramian.maps.tags import Tag
from gramian.networks.blueprint import Blueprint
from gramian.networks.draft import Draft
from gramian.networks.moves.protocol import MATRICES, READERS, STREAM
from gramian.networks.moves.stream import (
    keeps_mean,
    map_embeddings,
    map_readers,
    map_shifts,
    map_writers,
    require_closed,
    require_readers,
    require_uniform_gains,
)
from gramian.networks.moves.weights import checked_map, require_square

_DEFECT = 1e-6
"""Largest distance from orthogonal, relative to the norm of the identity."""


@dataclass(frozen=True)
class Rotate:
    """Write the residual stream in another orthonormal basis, ``x' = R x``.

    Embeddings ``E Rᵀ``, writers ``R W``, readers and head ``W Rᵀ``. The function of the network
    does not change: a norm divides by a length, which ``R`` keeps. So the gains of the norms have
    to be folded first, and where norms subtract the mean, ``R`` has to take the vector of ones to
    itself or its negative. See QuaRot (arXiv:2404.00456), SliceGPT (arXiv:2401.15024).
    """

    map: LinearMap
    kind: ClassVar[str] = "rotate"
    changes: ClassVar[frozenset[str]] = frozenset({STREAM, READERS, MATRICES})
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        checked_map(self.map, "Rotate")

    def rewrite(self, draft: Draft) -> Draft:
        width = draft.blueprint.width
        require_square(self.map, width, "Rotate")
        defect = self.map.tag_defect(Tag.ORTHOGONAL)
        if not defect <= _DEFECT:
            raise GramianError(
                f"Rotate takes an orthogonal map; {self.map!r} is off by {defect:.2e} "
                f"(|W Wᵀ - I|, allowed {_DEFECT:.0e}). Fold other maps with FoldStream"
            )
        require_closed(draft, "Rotate")
        require_readers(draft, "Rotate")
        norms = draft.blueprint.stream_norms()
        if any(norm.kind == "layer" for norm in norms) and not keeps_mean(self.map):
            raise GramianError(
                f"the norms of a {draft.blueprint.model_type} network subtract the mean over "
                "features, so Rotate needs a map that takes the vector of ones to itself; "
                f"{self.map!r} does not. Build one as u uᵀ + B Q Bᵀ with u = 1 / sqrt({width}), "
                "B an orthonormal basis of its complement and Q orthogonal"
            )
        require_uniform_gains(draft)
        draft = map_embeddings(draft, self.map)
        draft = map_writers(draft, self.map, "Rotate")
        # W x = (W Rᵀ) (R x)
        draft = map_readers(draft, self.map.T, "Rotate")
        return map_shifts(draft, self.map)

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        """Nothing: the network's function stays what it was."""

    def describe(self) -> str:
        return f"rotate the residual stream by {self.map!r}"
