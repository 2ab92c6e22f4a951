"""How large the features of a network are, and how much of them reaches what reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.moments import MomentSet
from gramian.networks.attention_heads import AttentionHeads, attention_heads
from gramian.networks.blueprint import Matrix, Norm, Reader
from gramian.networks.draft import Draft
from gramian.networks.moves.axis import spread
from gramian.networks.moves.fold_norm import gain_of
from gramian.networks.moves.select_neurons import neurons
from gramian.networks.moves.stream import is_tied_head

FOLDS = ("train", "select")


@dataclass(frozen=True)
class Weighing:
    """Mean squares of features, from moments or else from the lengths of the rows that make
    them, and mean squares of what they add to what reads them."""

    draft: Draft
    """The network with the layers that stay."""
    moments: MomentSet | None

    def places(self) -> Iterator[tuple[str, Norm | None, tuple[Matrix, ...]]]:
        """Where the stream is read: site, norm before it, matrices."""
        found: dict[str, list[Reader]] = {}
        for reader in self.draft.blueprint.stream_readers():
            found.setdefault(reader.site, []).append(reader)
        for site, readers in found.items():
            yield site, readers[0].norm, tuple(reader.matrix for reader in readers)

    def at_source(self, site: str) -> str:
        """A site as the source numbers its layers."""
        layer, _, kind = site.partition(".")
        return f"{self.draft.origin[int(layer)]}.{kind}" if kind else site

    def effects(self, site: str, norm: Norm | None, matrices: tuple[Matrix, ...]) -> Tensor:
        """(width,) ``E x_j^2 |W_j|^2``: the mean square that each feature alone would give."""
        return self.read(site, norm) * sum_of_squares([self.weight(m) for m in matrices])

    def read(self, site: str, norm: Norm | None) -> Tensor:
        """(width,) mean squares of what is read at a place of the stream."""
        if self.moments is not None and site != "final":
            return self.square(site)
        inside = self.inside(site, norm)
        if norm is None:
            return inside
        gain = gain_of(norm, self.draft.tensor(norm.weight))
        return inside / inside.mean() * gain.square()

    def inside(self, site: str, norm: Norm | None) -> Tensor:
        """(width,) mean squares of the stream, up to a factor, as the norm before a place has
        divided it."""
        if self.moments is None:
            return self.written()
        if site == "final" or norm is None:
            return self.square(site)
        # LN(x) = g (x - mean) / std + b: what is left of the gain and the bias.
        found = self.moments.moments(self.at_source(site), fold=FOLDS, sinks=True)
        biased = norm.bias is not None and norm.bias in self.draft.tensors
        shift = self.draft.tensor(str(norm.bias)).double() if biased else 0.0
        gain = gain_of(norm, self.draft.tensor(norm.weight))
        squares = found.variances / found.count + (found.mean - shift).square()
        return torch.where(gain != 0, squares / gain.square(), 0.0)

    def square(self, site: str) -> Tensor:
        """Mean squares of a site of the source, from moments."""
        assert self.moments is not None
        found = self.moments.moments(self.at_source(site), fold=FOLDS, sinks=True)
        return found.variances / found.count + found.mean.square()

    def written(self) -> Tensor:
        """(width,) squared lengths of the rows that write each feature, embeddings by the mean of
        theirs."""
        plan = self.draft.blueprint
        tables = [self.draft.tensor(name).double() for name in plan.embeddings]
        found = torch.stack([table.square().mean(0) for table in tables]).sum(0)
        for writer in plan.stream_writers():
            found = found + self.weight(writer.matrix).square().sum(1)
        return found

    def branch(self, norm: Norm) -> Tensor:
        """(width,) squared lengths of the rows before a norm of what is added."""
        writers = (w for w in self.draft.blueprint.stream_writers() if w.norm == norm)
        return sum_of_squares([self.weight(writer.matrix).T for writer in writers])

    def neurons(self, layer: int) -> Tensor:
        """(neurons,) mean squares of what each adds to the stream."""
        readers, writer, width = neurons(self.draft.blueprint, self.draft.blueprint.layers[layer])
        if self.moments is not None:
            squares = self.square(f"{layer}.mlp_mid")
        else:
            squares = torch.ones(width, dtype=torch.float64)
            for matrix in readers:  # a gate and what it gates, maybe in one matrix
                halves = self.weight(matrix).square().sum(1).view(-1, width)
                squares = squares * halves.prod(0)
        return squares * self.weight(writer).square().sum(0)

    def heads(self, layer: int) -> Tensor:
        """(query heads,) mean squares of what each adds to the stream."""
        shape = self.shape(layer)
        if self.moments is not None:
            squares = self.square(f"{layer}.z")
        else:
            squares = self._values(shape)
        effect = squares * self.weight(shape.writer).square().sum(0)
        return effect.view(shape.count, shape.width).sum(1)

    def shape(self, layer: int) -> AttentionHeads:
        """Where the heads of a layer are."""
        return attention_heads(self.draft.blueprint, self.draft.config, layer)

    def weight(self, matrix: Matrix) -> Tensor:
        """A weight (out, in) in float64; a tied head is the token table."""
        tied = is_tied_head(self.draft, matrix)
        name = self.draft.blueprint.embeddings[0] if tied else matrix.weight
        stored = self.draft.tensor(name).double()
        return stored.T if matrix.inputs_first else stored

    def _values(self, shape: AttentionHeads) -> Tensor:
        """Squared lengths of the rows that make the values every query head adds up."""
        shared = [head // shape.group for head in range(shape.count)]
        if len(shape.readers) == 3:
            rows = self.weight(shape.readers[2])
        else:
            tap, every = shape.taps[2], self.weight(shape.readers[0])
            assert tap.columns is not None
            grouped = every.view(tap.groups, -1, every.shape[1])
            rows = grouped[:, tap.columns[0] : tap.columns[1]].reshape(-1, every.shape[1])
        return rows.square().sum(1)[spread(shared, shape.width)]


def sum_of_squares(weights: list[Tensor]) -> Tensor:
    """(in,) squared lengths of the columns of all of them."""
    return torch.stack([weight.square().sum(0) for weight in weights]).sum(0)


def strongest(scores: Tensor, count: int) -> tuple[int, ...]:
    """The ``count`` highest, in the order in which they stand; of equals the first."""
    order = scores.argsort(descending=True, stable=True)
    return tuple(sorted(order[:count].tolist()))
