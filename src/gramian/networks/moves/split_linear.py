"""Store one linear as two factors."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.maps import LowRank
from gramian.networks.blueprint import Blueprint
from gramian.networks.draft import Draft
from gramian.networks.moves.protocol import LAYERS, MATRICES, READERS, STREAM
from gramian.networks.moves.stream import is_tied_head
from gramian.networks.moves.weights import applied
from gramian.networks.structures import structures_of


@dataclass(frozen=True)
class SplitLinear:
    """Put two factors in the place of one linear: ``up (down x) + b`` for ``W x + b``.

    ``weight`` is the parameter's name, as the blueprint's matrices have it. What is written is
    ``<name>.down.weight`` (rank, in), ``<name>.up.weight`` (out, rank) and the old bias as
    ``<name>.up.bias``. An ordinary architecture has no place for them, so the folder carries
    modelling code: it opens with :func:`gramian.open`, and in transformers with
    ``trust_remote_code=True``. Multiply the factors out where it has to load elsewhere.
    """

    weight: str
    map: LowRank
    kind: ClassVar[str] = "split_linear"
    changes: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset({LAYERS, STREAM, READERS, MATRICES})

    def __post_init__(self) -> None:
        if not isinstance(self.map, LowRank) or self.map.rank < 1:
            raise GramianError(
                f"SplitLinear takes LowRank(up, down) of rank 1 or more and got {self.map!r}"
            )

    def rewrite(self, draft: Draft) -> Draft:
        path = self._path()
        head = draft.blueprint.head
        if head is not None and is_tied_head(draft, head) and head.weight == self.weight:
            draft = draft.untied()
        table = structures_of(draft.config)
        if path in table:
            raise GramianError(f"{path} is split already; give the factors once")
        if self.weight not in draft.tensors:
            raise GramianError(
                f"no parameter {self.weight!r} in this {draft.blueprint.model_type} network; "
                "expected the weight of a linear, as the blueprint's matrices name it"
            )
        owner = draft.empty.get_submodule(self.weight.rpartition(".")[0])
        shape = _linear_shape(owner, self.weight)
        if self.map.shape != shape:
            raise GramianError(
                f"the factors for {self.weight} make a matrix of {self.map.out_features} x "
                f"{self.map.in_features}, expected {shape[0]} x {shape[1]}"
            )
        if self.map.rank > min(shape):
            raise GramianError(
                f"the factors for {self.weight} have rank {self.map.rank}, more than a matrix of "
                f"{shape[0]} x {shape[1]} can have; leave it whole"
            )
        like = draft.tensors[self.weight]
        tensors = {name: make for name, make in draft.tensors.items() if name != self.weight}
        tensors[f"{path}.down.weight"] = lambda: self.map.down.to(like()).contiguous()
        tensors[f"{path}.up.weight"] = lambda: self.map.up.to(like()).contiguous()
        if (bias := tensors.pop(f"{path}.bias", None)) is not None:
            tensors[f"{path}.up.bias"] = bias
        table[path] = {"kind": "factors", "rank": self.map.rank}
        return draft.with_structures(tensors, table)

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        path = draft.name_at_start(self._path())

        def split(module: nn.Module, args: tuple[Tensor, ...], _output: Any) -> Tensor:
            moved = applied(self.map, args[0])
            bias: Any = module.bias
            return moved if bias is None else moved + bias

        stack.callback(model.get_submodule(path).register_forward_hook(split).remove)

    def describe(self) -> str:
        return f"split {self.weight} into {self.map!r}"

    def _path(self) -> str:
        return self.weight.removesuffix(".weight")


def _linear_shape(module: nn.Module, name: str) -> tuple[int, int]:
    """(out, in) of a linear."""
    from transformers.pytorch_utils import Conv1D

    if isinstance(module, nn.Linear):
        return (module.out_features, module.in_features)
    if isinstance(module, Conv1D):
        wide, high = module.weight.shape
        return (int(high), int(wide))
    raise GramianError(
        f"{name} belongs to a {type(module).__name__}, expected a linear: fused experts, routers "
        "and embeddings have no place for two factors"
    )
