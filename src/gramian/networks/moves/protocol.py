"""What a move is, and how the unchanged network is made to compute what moves should make of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import ClassVar, Protocol

from torch import nn

from gramian.networks.blueprint import Blueprint
from gramian.networks.draft import Draft

LAYERS, STREAM, READERS, MATRICES = "layers", "stream", "readers", "matrices"
"""What a move may leave other than the network that its stage began with has it: the sequence of
the layers beyond what ``Draft.origin`` tells, the basis of the residual stream, what its readers
are given, the matrices."""


class Move(Protocol):
    """One step of a plan. Layers are numbered as the previous moves left them."""

    kind: ClassVar[str]
    changes: ClassVar[frozenset[str]]
    """What later moves find changed (``layers``, ``stream``, ``readers``, ``matrices``) in a way
    that hooks on the network as it was do not show."""
    reads: ClassVar[frozenset[str]]
    """What this move's hooks speak of."""

    def rewrite(self, draft: Draft) -> Draft:
        """The draft after this move; raises GramianError where the network cannot take it."""
        ...

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        """Make ``model`` (the unchanged source) compute what this move should: the reference
        that the written checkpoint is certified against. ``draft`` is the one before the move."""
        ...

    def describe(self) -> str:
        """One line for a table."""
        ...


@contextmanager
def as_if(
    model: nn.Module, source: Blueprint, start: Draft, moves: tuple[Move, ...]
) -> Iterator[None]:
    """While open, the unchanged ``model`` computes what the moves should make of it."""
    with ExitStack() as stack:
        draft = start
        for move in moves:
            move.hooks(model, source, draft, stack)
            draft = move.rewrite(draft)
        yield


def stages(moves: tuple[Move, ...]) -> tuple[tuple[Move, ...], ...]:
    """Cut the moves where one speaks of what an earlier one has changed.

    Inside a stage every hook may be set on the network as it was when the stage began: a map
    folded after a rotation is given in the rotated basis, so it begins a new stage.
    """
    cut: list[list[Move]] = [[]]
    changed: frozenset[str] = frozenset()
    for move in moves:
        if move.reads & changed:
            cut.append([])
            changed = frozenset()
        cut[-1].append(move)
        changed |= move.changes
    return tuple(tuple(stage) for stage in cut)
