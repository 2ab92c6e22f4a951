"""Give one linear another weight."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.maps import Affine, LinearMap
from gramian.networks.blueprint import Blueprint
from gramian.networks.draft import Draft
from gramian.networks.moves.named import linear_shape, require_named
from gramian.networks.moves.protocol import LAYERS, MATRICES, READERS, STREAM
from gramian.networks.moves.stream import is_tied_head
from gramian.networks.moves.weights import applied, checked_map


@dataclass(frozen=True)
class SetLinear:
    """Put a map in the place of one linear, multiplied out: ``M x + b`` for ``W x + b``.

    ``weight`` is the parameter's name, as the blueprint's matrices have it. The bias stays as it
    is; change it with :class:`FoldOutputs`. The architecture stays the same, whatever the rank of
    the map, so the result loads everywhere and is no smaller; :class:`SplitLinear` stores factors.
    """

    weight: str
    map: LinearMap
    kind: ClassVar[str] = "set_linear"
    changes: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset({LAYERS, STREAM, READERS, MATRICES})

    def __post_init__(self) -> None:
        checked_map(self.map, "SetLinear")
        if isinstance(self.map, Affine):
            raise GramianError(
                f"SetLinear takes a linear map and got {self.map!r}; set map.map, and add the "
                "constant with FoldOutputs(weight, Affine(Identity(out), constant))"
            )

    def rewrite(self, draft: Draft) -> Draft:
        head = draft.blueprint.head
        if head is not None and is_tied_head(draft, head) and head.weight == self.weight:
            draft = draft.untied()
        require_named(draft, self.weight)
        owner = draft.empty.get_submodule(self.weight.rpartition(".")[0])
        shape = linear_shape(owner, self.weight)
        if self.map.shape != shape:
            raise GramianError(
                f"the map for {self.weight} is {self.map.out_features} x {self.map.in_features}, "
                f"expected {shape[0]} x {shape[1]}"
            )
        old, flipped = draft.tensors[self.weight], not isinstance(owner, nn.Linear)

        def made() -> Tensor:
            dense = self.map.to_dense(torch.float64)
            return (dense.T if flipped else dense).to(old()).contiguous()

        return draft.with_tensors({self.weight: made})

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        path = draft.name_at_start(self.weight.removesuffix(".weight"))

        def instead(module: nn.Module, args: tuple[Tensor, ...], _output: Any) -> Tensor:
            moved = applied(self.map, args[0])
            bias: Any = module.bias
            return moved if bias is None else moved + bias

        stack.callback(model.get_submodule(path).register_forward_hook(instead).remove)

    def describe(self) -> str:
        return f"set {self.weight} to {self.map!r}"
