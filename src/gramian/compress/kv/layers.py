"""The keys and values of one layer: their weights, their moments, and what reads them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from gramian.maps import Affine, Dense, LinearMap
from gramian.moments import Moments
from gramian.networks import Checkpoint
from gramian.networks.attention_heads import AttentionHeads, attention_heads
from gramian.networks.blueprint import Layer
from gramian.networks.draft import Draft
from gramian.networks.projections import Projection, projection
from gramian.networks.rotary import rotary_of, rotary_tables
from gramian.solvers.rotary import rotary, rotary_mean

Kind = Literal["k", "v"]


@dataclass(frozen=True, eq=False)
class Rotation:
    """A rotary embedding: its tables over positions, and the turn that the sines multiply."""

    cos: Tensor
    """(positions, head width) float64."""
    sin: Tensor
    turn: Tensor

    def average(self, second: Tensor) -> Tensor:
        return rotary(second, self.cos, self.sin, self.turn)

    def mean(self, mean: Tensor) -> Tensor:
        return rotary_mean(mean, self.cos, self.sin, self.turn)


@dataclass(frozen=True, eq=False)
class AttentionLayer:
    """What one layer caches, seen from the moments of its input."""

    checkpoint: Checkpoint
    layer: Layer
    heads: AttentionHeads
    rotation: Rotation | None
    """None without a rotary embedding: then nothing happens to the keys behind their matrix."""

    @classmethod
    def of(cls, checkpoint: Checkpoint, index: int, rotation: Rotation | None) -> AttentionLayer:
        blueprint = checkpoint.blueprint
        heads = attention_heads(blueprint, checkpoint.config, index)
        return cls(checkpoint, blueprint.layers[index], heads, rotation)

    @property
    def site(self) -> str:
        """What queries, keys and values are made from."""
        return f"{self.checkpoint.blueprint.main.prefix}{self.layer.index}.attn_in"

    @property
    def normed(self) -> bool:
        """Whether a norm stands between the matrices and the rotation of queries and keys."""
        return bool(self.layer.inner_norms)

    def width(self, kind: Kind) -> int:
        return self.layer.taps[kind].width

    def made(self, kind: str) -> Affine:
        """What makes queries, keys or values: weight (width, in) and bias, float64."""
        found = self._projection(kind)
        state = self._state
        weight = found.weight(state[found.matrix.weight])
        return Affine(Dense(weight), found.bias(state.get(found.matrix.bias)))

    def has_slot(self, kind: Kind) -> bool:
        """Whether a constant can be added: there is a bias, or a switch that opens one."""
        matrix = self._projection(kind).matrix
        return matrix.has_bias or matrix.bias_flag is not None

    def has_bias(self, kind: Kind) -> bool:
        return self._projection(kind).matrix.has_bias

    def folds(self, map: LinearMap, ranks: tuple[int, ...]) -> bool:
        """Whether the output matrix can read coordinates of values and be no larger than it is:
        no head has more of them than it has features, and there is a bias for what is put back."""
        writer = self.heads.writer
        slot = writer.has_bias or writer.bias_flag is not None
        constant = isinstance(map, Affine) or self.has_bias("v")
        return max(ranks) <= self.heads.width and (slot or not constant)

    def heads_of(self, head: int) -> range:
        """The query heads that read a head of keys and values."""
        return range(head * self.heads.group, (head + 1) * self.heads.group)

    def query_metric(self, moments: Moments, head: int) -> Tensor:
        """``E[q q^T]`` summed over the query heads that read a head of keys, (d, d).

        Seen from a key: with a rotary embedding it is averaged over how far back the key lies,
        every distance up to the window alike.
        """
        queries = moments.through(self.made("q"))
        total = torch.zeros(self.heads.width, self.heads.width, dtype=torch.float64)
        for one in self.heads_of(head):
            total += queries.select(self._features(one)).raw() / queries.count
        return total if self.rotation is None else self.rotation.average(total)

    def output_metric(self, head: int) -> Tensor:
        """``W_o^T W_o`` summed over the query heads that read a head of values, (d, d)."""
        writer = self.heads.writer
        stored = self._state[writer.weight].double()
        weight = stored.T if writer.inputs_first else stored
        total = torch.zeros(self.heads.width, self.heads.width, dtype=torch.float64)
        for one in self.heads_of(head):
            block = weight[:, self._features(one)]
            total += block.T @ block
        return total

    def _features(self, head: int) -> Tensor:
        return self.heads.columns([head])

    def _projection(self, kind: str) -> Projection:
        blueprint = self.checkpoint.blueprint
        return projection(blueprint, f"{blueprint.main.prefix}{self.layer.index}.{kind}")

    @cached_property
    def _state(self) -> dict[str, Tensor]:
        names = {self._projection(kind).matrix for kind in "qkv"}
        wanted = {matrix.weight for matrix in names} | {matrix.bias for matrix in names}
        wanted.add(self.heads.writer.weight)
        draft = Draft.of(self.checkpoint)
        return {name: draft.tensor(name) for name in wanted if name in draft.tensors}


def rotation_of(checkpoint: Checkpoint, index: int, positions: int) -> Rotation | None:
    """The rotary embedding of a layer over the first ``positions``; None where it has none."""
    layer = checkpoint.blueprint.layers[index]
    found = rotary_of(checkpoint.model, layer)
    if found is None:
        return None
    width = attention_heads(checkpoint.blueprint, checkpoint.config, index).width
    return Rotation(*rotary_tables(found, width, positions))
