"""A projection whose output is cached as coordinates: its tensors and its structure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import LinearMap, LowRank
from gramian.networks.attention_heads import AttentionHeads, attention_heads
from gramian.networks.draft import Draft, Lazy
from gramian.networks.moves.weights import applied, parts, require_square, with_bias
from gramian.networks.projections import Projection, projection
from gramian.networks.sites import parse
from gramian.networks.structures import structures_of


@dataclass(frozen=True)
class CachedProjection:
    """A draft, a projection in it, and the map that makes and reads its coordinates."""

    draft: Draft
    map: LinearMap
    site: str
    ranks: tuple[int, ...]
    projection: Projection
    heads: AttentionHeads
    linear: LowRank

    @classmethod
    def of(
        cls, draft: Draft, site: str, map: LinearMap, ranks: tuple[int, ...]
    ) -> CachedProjection:
        """What makes a site ``<layer>.k``, ``<layer>.v`` or ``<layer>.k_rope``.

        Raises
        ------
        GramianError : a matrix that makes several sites or has another structure, ranks that do
            not fit the heads, a map of another width.
        """
        rotated = site.endswith(".k_rope")
        found = projection(draft.blueprint, site.removesuffix("_rope"))
        path = found.tap.path
        if found.tap.columns is not None or path.rpartition(".")[2] not in ("k_proj", "v_proj"):
            raise GramianError(
                f"the keys and values of a {draft.blueprint.model_type} network come from "
                f"{path}, which makes more than one of them: there is no attention that caches "
                "their coordinates; multiply the factors out (dense=True, --dense)"
            )
        if path in structures_of(draft.config):
            raise GramianError(f"{path} has another structure already; give one move for it")
        require_square(map, found.tap.width, site)
        layer = parse(found.site).layer
        assert layer is not None
        heads = attention_heads(draft.blueprint, draft.config, layer)
        if heads.keys % len(ranks) or (rotated and len(ranks) != heads.keys):
            raise GramianError(
                f"{site}: ranks for {len(ranks)} groups of {heads.keys} heads; expected "
                + ("one for each head" if rotated else "groups of equal numbers of heads")
            )
        linear, _ = parts(map)
        assert isinstance(linear, LowRank)
        made = cls(draft, map, site, ranks, found, heads, linear)
        up, down = made.blocks(linear.up, rows=True), made.blocks(linear.down, rows=False)
        if not (
            torch.block_diag(*up).equal(linear.up) and torch.block_diag(*down).equal(linear.down)
        ):
            raise GramianError(
                f"the factors for {site} mix groups of heads; expected one block for each of "
                f"{len(ranks)} groups and zeros elsewhere"
            )
        return made

    @property
    def path(self) -> str:
        return self.projection.tap.path

    def blocks(self, tensor: Tensor, rows: bool) -> list[Tensor]:
        """The blocks of ``up`` (rows are features) or of ``down`` (columns are)."""
        features = self.linear.in_features // len(self.ranks)
        across = tensor.split(features, 0 if rows else 1)
        return [part.split(list(self.ranks), 1 if rows else 0)[g] for g, part in enumerate(across)]

    def rebuilt(self) -> Draft:
        """``down`` and one ``up`` for each group, the bias behind them."""
        draft = self.draft
        if parts(self.map)[1] is not None:
            draft = with_bias(draft, self.projection.matrix, self.site)
        bias = draft.tensors.get(self.projection.matrix.bias)
        tensors = self.without(draft)
        like = draft.tensors[self.projection.matrix.weight]
        tensors[f"{self.path}.down.weight"] = self.coordinates(like)
        for g, block in enumerate(self.blocks(self.linear.up, rows=True)):
            tensors[f"{self.path}.up.{g}.weight"] = _like(block, like)
        if bias is not None:
            tensors[f"{self.path}.bias"] = lambda: applied(self.map, bias())
        return self.marked(draft, tensors, {self.path: {"kind": "latents"}})

    def folded(self) -> Draft:
        """``down`` for the values, and an output matrix that reads what it gives."""
        heads, ranks = self.heads, self.ranks
        if max(ranks) > heads.width:
            raise GramianError(
                f"{self.site}: {max(ranks)} coordinates in heads of {heads.width} features "
                "cannot be folded: the output matrix would grow"
            )
        draft, shift = self.draft, self.shift()
        writer = heads.writer
        output = writer.weight.removesuffix(".weight")
        if output in structures_of(draft.config):
            raise GramianError(f"{output} has another structure, so no values fold into it")
        if shift is not None:
            draft = with_bias(draft, writer, self.site)
        tensors = self.without(draft)
        like, out = draft.tensors[self.projection.matrix.weight], draft.tensors[writer.weight]
        tensors[f"{self.path}.down.weight"] = self.coordinates(like)
        old = tensors.pop(writer.bias, None)
        tensors.pop(writer.weight)
        tensors[f"{output}.up.weight"] = lambda: self.read_by(out())
        if old is not None:
            tensors[f"{output}.up.bias"] = lambda: (
                old() + (0 if shift is None else self.written(out(), shift()))
            )
        return self.marked(
            draft,
            tensors,
            {
                self.path: {"kind": "folded_values", "heads": heads.keys},
                output: {"kind": "folded_output", "heads": heads.count},
            },
        )

    def rotated(self) -> Draft:
        """The projection as it was, and two matrices for each head."""
        like = self.draft.tensors[self.projection.matrix.weight]
        tensors = dict(self.draft.tensors)
        for h, block in enumerate(self.blocks(self.linear.down, rows=False)):
            tensors[f"{self.path}.encode.{h}"] = _like(block, like)
        for h, block in enumerate(self.blocks(self.linear.up, rows=True)):
            tensors[f"{self.path}.decode.{h}"] = _like(block, like)
        return self.marked(self.draft, tensors, {self.path: {"kind": "rotated_keys"}})

    def shift(self) -> Lazy | None:
        """What the map makes of the bias of the values; None where there is none."""
        bias = self.draft.tensors.get(self.projection.matrix.bias)
        constant = parts(self.map)[1]
        if bias is None:
            return None if constant is None else lambda: constant
        return lambda: self.map.to(dtype=torch.float64)(bias().double())

    def coordinates(self, weight: Lazy) -> Lazy:
        """``down W``, (ranks, in)."""

        def made() -> Tensor:
            stored = weight()
            small = self.linear.down.double() @ self.projection.weight(stored)
            return small.to(stored).contiguous()

        return made

    def read_by(self, output: Tensor) -> Tensor:
        """The output matrix on coordinates: a block ``W_h up_g`` for every query head."""
        weight = (output.T if self.heads.writer.inputs_first else output).double()
        width, blocks = self.heads.width, self.blocks(self.linear.up.double(), rows=True)
        found = []
        for head in range(self.heads.count):
            key = head // self.heads.group
            group, inside = divmod(key, self.heads.keys // len(blocks))
            up = blocks[group][inside * width : (inside + 1) * width]
            found.append(weight[:, head * width : (head + 1) * width] @ up)
        return torch.cat(found, dim=1).to(output).contiguous()

    def written(self, output: Tensor, value: Tensor) -> Tensor:
        """What the output matrix makes of one value in every head: attention weights sum to 1."""
        weight = (output.T if self.heads.writer.inputs_first else output).double()
        heads = value.double().view(self.heads.keys, -1).repeat_interleave(self.heads.group, 0)
        return (weight @ heads.flatten()).to(output)

    def without(self, draft: Draft) -> dict[str, Lazy]:
        """All tensors but those of the projection."""
        matrix = self.projection.matrix
        gone = (matrix.weight, matrix.bias)
        return {name: make for name, make in draft.tensors.items() if name not in gone}

    def marked(
        self, draft: Draft, tensors: dict[str, Lazy], found: dict[str, dict[str, Any]]
    ) -> Draft:
        table = structures_of(draft.config)
        for path, structure in found.items():
            table[path] = {**structure, "ranks": list(self.ranks)}
        return draft.with_structures(tensors, table)


def _like(block: Tensor, like: Lazy) -> Lazy:
    return lambda: block.to(like()).contiguous()
