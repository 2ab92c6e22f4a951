"""Remove whole blocks."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from gramian.errors import GramianError
from gramian.networks.blueprint import Blueprint
from gramian.networks.capture import module_input
from gramian.networks.draft import Draft
from gramian.networks.moves.arrangement import arranged
from gramian.networks.moves.protocol import LAYERS


@dataclass(frozen=True)
class DropLayers:
    """Remove whole blocks and renumber the rest; per-layer lists in the configuration follow."""

    layers: tuple[int, ...]
    kind: ClassVar[str] = "drop_layers"
    changes: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset({LAYERS})

    def __post_init__(self) -> None:
        checked_layers(self.layers, "DropLayers")
        if len(set(self.layers)) < len(self.layers):
            raise GramianError(f"DropLayers({self.layers!r}): a layer is named twice")

    def rewrite(self, draft: Draft) -> Draft:
        depth, gone = draft.blueprint.depth, set(self.layers)
        if not gone or not gone <= set(range(depth)) or len(gone) == depth:
            raise GramianError(
                f"cannot drop layers {sorted(gone)} of a network with layers 0 to "
                f"{depth - 1}; expected some of them, and at least one to stay"
            )
        return arranged(draft, [i for i in range(depth) if i not in gone])

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        skip_layers(model, [source.layers[draft.origin[i]].path for i in self.layers], stack)

    def describe(self) -> str:
        return f"drop layers {', '.join(map(str, self.layers))}"


def checked_layers(layers: Any, what: str) -> None:
    """Raise unless ``layers`` is a tuple of integers."""
    if not isinstance(layers, tuple) or not all(type(i) is int for i in layers):
        raise GramianError(f"{what}({layers!r}): expected a tuple of layer numbers, such as (3, 4)")


def skip_layers(model: nn.Module, paths: Iterable[str], stack: ExitStack) -> None:
    """Until the stack closes, these blocks give what they are given."""

    def skip(_module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        given = module_input(args, kwargs)
        return (given, *output[1:]) if isinstance(output, tuple) else given

    for path in paths:
        handle = model.get_submodule(path).register_forward_hook(skip, with_kwargs=True)
        stack.callback(handle.remove)
