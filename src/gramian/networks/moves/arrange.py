"""Keep, reorder and repeat blocks."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from gramian.errors import GramianError
from gramian.networks.blueprint import Blueprint
from gramian.networks.draft import Draft
from gramian.networks.moves.arrangement import arranged, arranged_config
from gramian.networks.moves.drop_layers import checked_layers
from gramian.networks.moves.protocol import LAYERS


@dataclass(frozen=True)
class Arrange:
    """Make the network of these blocks in this order: ``(0, 1, 1, 2)`` repeats a block,
    ``(0, 2, 1)`` swaps two, ``(0, 2)`` drops one. Per-layer lists in the configuration follow.

    Refused where a block depends on its number or on other blocks (shared keys and values).
    """

    order: tuple[int, ...]
    kind: ClassVar[str] = "arrange"
    changes: ClassVar[frozenset[str]] = frozenset({LAYERS})
    reads: ClassVar[frozenset[str]] = frozenset({LAYERS})

    def __post_init__(self) -> None:
        checked_layers(self.order, "Arrange")

    def rewrite(self, draft: Draft) -> Draft:
        depth = draft.blueprint.depth
        if not self.order or not set(self.order) <= set(range(depth)):
            raise GramianError(
                f"cannot arrange layers as {self.order} in a network with layers 0 to "
                f"{depth - 1}; expected at least one of them"
            )
        return arranged(draft, self.order)

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        order = [draft.origin[i] for i in self.order]
        config: Any = model.config
        wanted = arranged_config(config, source, order).to_dict()
        kept = {key: getattr(config, key) for key in _differing(config, wanted)}
        blocks = model.get_submodule(source.layers_path)
        assert isinstance(blocks, nn.ModuleList)
        for key in kept:
            setattr(config, key, wanted[key])
        model.set_submodule(source.layers_path, nn.ModuleList([blocks[i] for i in order]))

        def restore() -> None:
            model.set_submodule(source.layers_path, blocks)
            for key, value in kept.items():
                setattr(config, key, value)

        stack.callback(restore)

    def describe(self) -> str:
        return f"arrange layers as {', '.join(map(str, self.order))}"


def _differing(config: Any, wanted: dict[str, Any]) -> list[str]:
    return [key for key, value in config.to_dict().items() if value != wanted.get(key)]
