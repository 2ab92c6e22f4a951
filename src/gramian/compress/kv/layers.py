"""The keys and values of one layer: their weights, their moments, and what reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, LinearMap
from gramian.moments import Moments
from gramian.networks import Checkpoint
from gramian.networks.attention_heads import AttentionHeads, attention_heads
from gramian.networks.blueprint import Layer
from gramian.networks.draft import Draft
from gramian.networks.projections import Projection, projection
from gramian.networks.rotary import attention_path, rotary_of, rotary_tables
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

    draft: Draft
    layer: Layer
    heads: AttentionHeads
    rotation: Rotation | None
    """None without a rotary embedding: then nothing happens to the keys behind their matrix."""

    @classmethod
    def of(cls, draft: Draft, index: int, rotation: Rotation | None) -> AttentionLayer:
        heads = attention_heads(draft.blueprint, draft.config, index)
        return cls(draft, draft.blueprint.layers[index], heads, rotation)

    @property
    def site(self) -> str:
        """What queries, keys and values are made from."""
        return f"{self.draft.blueprint.main.prefix}{self.layer.index}.attn_in"

    @property
    def normed(self) -> bool:
        """Whether a norm stands between the matrices and the rotation of queries and keys."""
        return bool(self.layer.inner_norms)

    @property
    def scaling(self) -> float:
        """What the products of queries and keys are multiplied with."""
        attention = self.draft.empty.get_submodule(attention_path(self.layer))
        return float(getattr(attention, "scaling", self.heads.width**-0.5))

    def width(self, kind: Kind) -> int:
        return self.layer.taps[kind].width

    def made(self, kind: str) -> Affine:
        """What makes queries, keys or values: weight (width, in) and bias, float64.

        Raises
        ------
        GramianError : it is stored in another structure already.
        """
        found = self._projection(kind)
        if found.matrix.weight not in self.draft.tensors:
            raise GramianError(
                f"{found.tap.path} is not stored as one matrix any more; cut the cache of the "
                "network as it was before, then the rest"
            )
        weight = found.weight(self.draft.tensor(found.matrix.weight))
        bias = self.draft.tensors.get(found.matrix.bias)
        return Affine(Dense(weight), found.bias(None if bias is None else bias()))

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

    def query_metrics(self, moments: Moments) -> list[Tensor]:
        """For every head of keys ``E[q q^T]``, (d, d), summed over the query heads that read it.

        Seen from a key: with a rotary embedding it is averaged over how far back the key lies,
        every distance within a window alike.
        """
        queries = moments.through(self.made("q"))
        found = []
        for head in range(self.heads.keys):
            total = torch.zeros(self.heads.width, self.heads.width, dtype=torch.float64)
            for one in self.heads_of(head):
                total += queries.select(self._features(one)).raw() / queries.count
            found.append(total if self.rotation is None else self.rotation.average(total))
        return found

    def output_metrics(self) -> list[Tensor]:
        """For every head of values ``W_o^T W_o``, (d, d), summed over the query heads that read
        it."""
        writer = self.heads.writer
        stored = self.draft.tensor(writer.weight).double()
        weight = stored.T if writer.inputs_first else stored
        found = []
        for head in range(self.heads.keys):
            total = torch.zeros(self.heads.width, self.heads.width, dtype=torch.float64)
            for one in self.heads_of(head):
                block = weight[:, self._features(one)]
                total += block.T @ block
            found.append(total)
        return found

    def _features(self, head: int) -> Tensor:
        return self.heads.columns([head])

    def _projection(self, kind: str) -> Projection:
        blueprint = self.draft.blueprint
        return projection(blueprint, f"{blueprint.main.prefix}{self.layer.index}.{kind}")


def rotation_of(checkpoint: Checkpoint, index: int, positions: int) -> Rotation | None:
    """The rotary embedding of a layer over the first ``positions``; None where it has none."""
    layer = checkpoint.blueprint.layers[index]
    found = rotary_of(checkpoint.model, layer)
    if found is None:
        return None
    width = attention_heads(checkpoint.blueprint, checkpoint.config, index).width
    return Rotation(*rotary_tables(found, width, positions))
