"""Fold a map into the outputs of one matrix, whichever it is."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from gramian.errors import GramianError
from gramian.maps import LinearMap
from gramian.networks.blueprint import Blueprint
from gramian.networks.draft import Draft
from gramian.networks.moves.hooking import map_outputs
from gramian.networks.moves.named import matrix_named
from gramian.networks.moves.protocol import LAYERS, MATRICES, STREAM
from gramian.networks.moves.weights import checked_map, fold_outputs


@dataclass(frozen=True)
class FoldOutputs:
    """Fold a map into the matrix that has the parameter ``weight``: ``W <- M W``, ``b <- M b + c``.

    For every matrix that reads or writes the residual stream, in one piece or as factors.
    ``Affine(Identity(out), c)`` adds a constant to its bias alone. A constant ``c`` without a bias
    slot is refused, never dropped.
    """

    weight: str
    map: LinearMap
    kind: ClassVar[str] = "fold_outputs"
    changes: ClassVar[frozenset[str]] = frozenset({MATRICES})
    reads: ClassVar[frozenset[str]] = frozenset({LAYERS, STREAM})

    def __post_init__(self) -> None:
        checked_map(self.map, "FoldOutputs")
        if self.map.in_features != self.map.out_features:
            raise GramianError(f"FoldOutputs takes a square map and got {self.map!r}")

    def rewrite(self, draft: Draft) -> Draft:
        matrix = matrix_named(draft, self.weight)
        if matrix.is_experts:
            raise GramianError(
                f"{self.weight} holds the matrices of many experts; FoldOutputs takes one matrix"
            )
        shape = draft.empty.get_parameter(self.weight).shape
        outputs = shape[-1] if matrix.inputs_first else shape[0]
        if self.map.out_features != outputs:
            raise GramianError(
                f"the map for the outputs of {self.weight} is {self.map.out_features} wide, "
                f"expected {outputs}"
            )
        return fold_outputs(draft, matrix, self.map, f"the outputs of {self.weight}")

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        path = draft.name_at_start(self.weight.removesuffix(".weight"))
        map_outputs(model.get_submodule(path), self.map, stack)

    def describe(self) -> str:
        return f"fold {self.map!r} into the outputs of {self.weight}"
