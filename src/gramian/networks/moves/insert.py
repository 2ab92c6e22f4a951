"""Put blocks in between that change nothing yet."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from gramian.errors import GramianError
from gramian.networks.blueprint import Blueprint
from gramian.networks.draft import Draft, Lazy
from gramian.networks.moves.arrangement import arranged
from gramian.networks.moves.drop_layers import checked_layers
from gramian.networks.moves.protocol import LAYERS


@dataclass(frozen=True)
class Insert:
    """Put a silent copy of a block behind it: a copy whose matrices that write into the residual
    stream, and their biases, are zero.

    ``after=(3, 3, 7)`` puts two behind block 3 and one behind block 7. ``x + 0 = x``, so the
    outputs are the same to the bit; the zeros get gradients, so training starts from there.
    Refused where the stream itself is normalised after every addition.
    """

    after: tuple[int, ...]
    kind: ClassVar[str] = "insert"
    changes: ClassVar[frozenset[str]] = frozenset({LAYERS})
    reads: ClassVar[frozenset[str]] = frozenset({LAYERS})

    def __post_init__(self) -> None:
        checked_layers(self.after, "Insert")

    def rewrite(self, draft: Draft) -> Draft:
        plan = draft.blueprint
        if not self.after or not set(self.after) <= set(range(plan.depth)):
            raise GramianError(
                f"cannot insert blocks behind {self.after} in a network with layers 0 to "
                f"{plan.depth - 1}; expected at least one of them"
            )
        stuck = [n.name for n in plan.stream_norms() if n.place == "stream"]
        stuck += [n.name for n in plan.stream_norms() if n.place == "branch" and n.bias]
        if stuck:
            raise GramianError(
                f"norm {stuck[0]!r} of this {plan.model_type} network gives something else than "
                "zero for a branch that writes nothing, so no block is silent there"
            )
        counts = Counter(self.after)
        order = [i for i in range(plan.depth) for _ in range(1 + counts[i])]
        silent = [k for k in range(1, len(order)) if order[k] == order[k - 1]]
        new = arranged(draft, order)
        zeros: dict[str, Lazy] = {}
        for position in silent:
            for writer in new.blueprint.writers(position):
                giving = new.giving(writer.matrix)
                for name in (giving.weight, giving.bias):
                    if name in new.tensors:
                        zeros[name] = _zeros(new.tensors[name])
        return new.with_tensors(zeros)

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        """Nothing: the network's function stays what it was."""

    def describe(self) -> str:
        return f"insert silent copies behind layers {', '.join(map(str, self.after))}"


def _zeros(old: Lazy) -> Lazy:
    return lambda: torch.zeros_like(old())
