"""Blocks folded into the one before them by weights alone, while the last state stays close."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.data import Documents
from gramian.errors import GramianError
from gramian.networks import CombineLayers, capture
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.collect import batches
from gramian.networks.draft import Draft
from gramian.networks.moves import as_if
from gramian.registry import method

LADDER = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0)
"""Thresholds tried in turn, until one gives as many blocks as are to go."""


@dataclass(frozen=True)
class Folded:
    """The merges that were accepted."""

    moves: tuple[CombineLayers, ...]
    threshold: float
    cosine: float
    """Of the last states on the documents, with all merges made."""
    layers: tuple[int, ...]
    """The blocks of the source that went."""


@method("laco", job="compress", paper="2402.11187")
def fold_layers(
    checkpoint: Checkpoint,
    docs: Documents,
    remove: int,
    *,
    span: int = 4,
    interval: int = 2,
    threshold: float | None = None,
    tokens: int = 512,
    length: int = 128,
) -> Folded:
    """LaCo: fold blocks into the one below them, from the top down, checked on a few documents.

    A block's tensors become ``theta_l + sum_k (theta_{l+k} - theta_l)`` over the ``span - 1``
    blocks above it, which go. The merge is kept if the mean cosine between the last states of the
    network so and of the source stays above the threshold; then the next is tried ``interval``
    blocks lower, otherwise one block lower. The paper's merges are all of one span (4 of the 32
    blocks of a 7B model); here a narrower one is tried where a wider one is refused, down to two
    blocks, of which the upper then stays as it is. No moments are read.

    Parameters
    ----------
    remove : blocks to remove in all; the last merge takes as few as are left.
    threshold : of the cosine; None takes the largest of a fixed ladder that reaches ``remove``.
    tokens, length : of the documents, in windows; the first of each window is not compared.

    Raises
    ------
    GramianError : the threshold does not reach ``remove``, numbers out of range, no text.
    """
    depth = checkpoint.blueprint.depth
    if not 0 < remove < depth:
        raise GramianError(f"remove is {remove}, expected from 1 to {depth - 1} of {depth} blocks")
    if span < 2 or interval < 1:
        raise GramianError(
            f"span is {span} and interval {interval}, expected at least 2 and at least 1"
        )
    if threshold is not None and not -1 <= threshold <= 1:
        raise GramianError(f"threshold is {threshold}, expected a cosine from -1 to 1")
    judge = _Judge.of(checkpoint, docs, tokens, length)
    ladder = LADDER if threshold is None else (threshold,)
    for limit in ladder:
        moves = _walk(judge, depth, remove, span, interval, limit)
        if sum(len(move.layers) - 1 for move in moves) == remove:
            draft = judge.draft
            for move in moves:
                draft = move.rewrite(draft)
            gone = tuple(sorted(set(range(depth)) - set(draft.origin)))
            return Folded(moves, limit, judge.cosine(moves), gone)
    gone_in_all = sum(len(move.layers) - 1 for move in moves)
    raise GramianError(
        f"merges of up to {span} blocks with a cosine above {ladder[-1]:g} remove {gone_in_all} "
        f"blocks, not {remove}; give a lower threshold, a smaller interval or a wider span"
    )


def _walk(
    judge: _Judge, depth: int, remove: int, span: int, interval: int, limit: float
) -> tuple[CombineLayers, ...]:
    """The merges that pass, from the top down."""
    moves: tuple[CombineLayers, ...] = ()
    left, here = remove, depth - 2
    while here >= 0 and left > 0:
        most = min(span - 1, depth - (remove - left) - here - 1, left)
        for count in range(most, 0, -1):
            layers = tuple(range(here, here + count + 1))
            tried = (*moves, CombineLayers(layers, (1.0 - count, *[1.0] * count)))
            if judge.cosine(tried) > limit:
                moves, left = tried, left - count
                here = min(here - interval, depth - (remove - left) - 2)
                break
        else:
            here -= 1
    return moves


class _Judge:
    """The source's last states on a few windows, and how far merges turn them."""

    def __init__(self, checkpoint: Checkpoint, windows: Sequence[tuple[Tensor, Tensor]]) -> None:
        self.checkpoint, self.windows = checkpoint, windows
        self.draft = Draft.of(checkpoint)
        self.states = self._states()
        self._known: dict[tuple[CombineLayers, ...], float] = {}

    @classmethod
    def of(cls, checkpoint: Checkpoint, docs: Documents, tokens: int, length: int) -> _Judge:
        length = min(length, checkpoint.positions or length)
        found = [
            (batch.ids, batch.mask)
            for batch in batches(checkpoint, docs, tokens=tokens, length=length)
        ]
        if not found:
            raise GramianError("the documents hold no token to compare the networks on")
        return cls(checkpoint, found)

    def cosine(self, moves: tuple[CombineLayers, ...]) -> float:
        """Mean cosine of the last states, with these merges and without."""
        if moves not in self._known:
            model, blueprint = self.checkpoint.model, self.checkpoint.blueprint
            with as_if(model, blueprint, self.draft, moves):
                states = self._states()
            found = torch.nn.functional.cosine_similarity(states, self.states, dim=1)
            self._known[moves] = float(found.mean())
        return self._known[moves]

    def _states(self) -> Tensor:
        model, blueprint = self.checkpoint.model, self.checkpoint.blueprint
        rows = []
        for ids, mask in self.windows:
            kept = mask.clone()
            kept[:, 0] = False
            seen = capture(model, blueprint, ["final"], ids, mask).rows["final"]
            rows.append(seen[kept.to(seen.device)].double())
        return torch.cat(rows)
