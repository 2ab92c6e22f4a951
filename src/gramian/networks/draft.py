"""A network on paper: configuration, and tensors that are computed when they are written."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.networks.blueprint import Blueprint, Matrix
from gramian.networks.checkpoint import Checkpoint, skeleton, state
from gramian.networks.families import blueprint
from gramian.networks.structures import PARTS, WHOLE, marked, structures_of

Lazy = Callable[[], Tensor]


@dataclass(frozen=True)
class Draft:
    """What a plan has made of a checkpoint so far. Nothing of the source is ever changed."""

    config: Any
    tensors: Mapping[str, Lazy]
    blueprint: Blueprint
    origin: tuple[int, ...]
    """For every layer of the draft, its index in the network that the stage started from."""
    empty: nn.Module
    """The network without weights, every linear in one piece."""

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Draft:
        """The checkpoint itself, unchanged.

        Raises
        ------
        GramianError : its blueprint was inferred, or it is no network over tokens with one
            residual stream.
        """
        plan = checkpoint.blueprint
        if plan.inferred:
            raise GramianError(
                f"the parts of {checkpoint.name} ({plan.model_type}) were found by running it: "
                "reading works, writing needs a checked table for its model type"
            )
        if len(plan.towers) != 1 or not plan.vocabulary:
            raise GramianError(
                f"{checkpoint.name} is a {plan.model_type} network; plans rewrite networks that "
                "read tokens into one residual stream. Reading works; write its maps with "
                "map.save() and apply them by hooks"
            )
        tensors = {name: _constant(tensor) for name, tensor in state(checkpoint.model).items()}
        config = copy.deepcopy(checkpoint.model.config)
        return cls(config, tensors, plan, tuple(range(plan.depth)), checkpoint.skeleton)

    def with_tensors(self, changed: Mapping[str, Lazy], **config: Any) -> Draft:
        """The draft with some tensors replaced or added, and configuration values set."""
        tensors = {**self.tensors, **changed}
        if not config:
            return replace(self, tensors=tensors)
        new = _with_values(self.config, config)
        empty = skeleton(new)
        return Draft(new, tensors, blueprint(new, empty), self.origin, empty)

    def with_structures(
        self, tensors: Mapping[str, Lazy], table: Mapping[str, Mapping[str, Any]]
    ) -> Draft:
        """The draft with exactly these tensors, whose modules have the structures of the table."""
        config = _with_values(self.config, marked(table))
        return replace(self, config=config, tensors=dict(tensors))

    def tensor(self, name: str) -> Tensor:
        """Compute one tensor."""
        return self.tensors[name]()

    def computed(self) -> dict[str, Tensor]:
        """Compute all tensors."""
        return {name: make() for name, make in self.tensors.items()}

    def settled(self, tensors: Mapping[str, Tensor]) -> Draft:
        """The same draft over its computed tensors, as the start of a new stage."""
        fixed = {name: _constant(tensor) for name, tensor in tensors.items()}
        return replace(self, tensors=fixed, origin=tuple(range(self.blueprint.depth)))

    def untied(self) -> Draft:
        """The draft in which the head has a tensor of its own, a copy of the token table."""
        head = self.blueprint.head
        if not self.blueprint.tied or head is None:
            return self
        table = self.tensors[self.blueprint.embeddings[0]]
        return self.with_tensors({head.weight: lambda: table().clone()}, tie_word_embeddings=False)

    def name_at_start(self, name: str) -> str:
        """What a module or tensor was called when the stage began."""
        prefix = f"{self.blueprint.layers_path}."
        if not name.startswith(prefix):
            return name
        index, _, rest = name.removeprefix(prefix).partition(".")
        return f"{prefix}{self.origin[int(index)]}.{rest}"

    def giving(self, matrix: Matrix) -> Matrix:
        """The stored matrix whose outputs are those of ``matrix``: its second factor if split."""
        return self._factor(matrix, "up")

    def taking(self, matrix: Matrix) -> Matrix:
        """The stored matrix whose inputs are those of ``matrix``: its first factor if split."""
        return self._factor(matrix, "down")

    def _factor(self, matrix: Matrix, name: str) -> Matrix:
        path = matrix.weight.removesuffix(".weight")
        kind = structures_of(self.config).get(path, {}).get("kind", "")
        if kind in WHOLE:
            return matrix
        if name not in PARTS[kind]:
            raise GramianError(
                f"{path} is stored as {kind.replace('_', ' ')}, which have no one matrix of their "
                f"{'outputs' if name == 'up' else 'inputs'}; make this move before that one"
            )
        part = f"{path}.{name}"
        return replace(matrix, weight=f"{part}.weight", layout="out_in", bias=f"{part}.bias")


def _with_values(config: Any, values: Mapping[str, Any]) -> Any:
    new = copy.deepcopy(config)
    for key, value in values.items():
        setattr(new, key, value)
    return new


def _constant(tensor: Tensor) -> Lazy:
    return lambda: tensor
