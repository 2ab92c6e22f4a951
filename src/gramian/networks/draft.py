"""A network on paper: configuration, and tensors that are computed when they are written."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gramian.networks.blueprint import Blueprint
from gramian.networks.checkpoint import Checkpoint, skeleton, state
from gramian.networks.families import blueprint

Lazy = Callable[[], Tensor]


@dataclass(frozen=True)
class Draft:
    """What a plan has made of a checkpoint so far. Nothing of the source is ever changed."""

    config: Any
    tensors: Mapping[str, Lazy]
    blueprint: Blueprint
    origin: tuple[int, ...]
    """For every layer of the draft, its index in the source."""

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Draft:
        """The checkpoint itself, unchanged."""
        tensors = {name: _constant(tensor) for name, tensor in state(checkpoint.model).items()}
        depth = checkpoint.blueprint.depth
        config = copy.deepcopy(checkpoint.model.config)
        return cls(config, tensors, checkpoint.blueprint, tuple(range(depth)))

    def with_tensors(self, changed: Mapping[str, Lazy], **config: Any) -> Draft:
        """The draft with some tensors replaced or added, and configuration values set."""
        new = copy.deepcopy(self.config)
        for key, value in config.items():
            setattr(new, key, value)
        plan = blueprint(new, skeleton(new)) if config else self.blueprint
        return Draft(new, {**self.tensors, **changed}, plan, self.origin)

    def tensor(self, name: str) -> Tensor:
        """Compute one tensor."""
        return self.tensors[name]()


def _constant(tensor: Tensor) -> Lazy:
    return lambda: tensor
