"""Cache coordinates in place of keys or values."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.maps import Affine, LinearMap, LowRank
from gramian.networks.attention_heads import AttentionHeads, attention_heads
from gramian.networks.blueprint import Blueprint
from gramian.networks.draft import Draft, Lazy
from gramian.networks.moves.fold_projection import FoldProjection
from gramian.networks.moves.protocol import LAYERS, MATRICES, READERS, STREAM
from gramian.networks.moves.weights import applied, checked_map, parts, require_square, with_bias
from gramian.networks.projections import Projection, projection
from gramian.networks.rotary import attention_path
from gramian.networks.sites import parse
from gramian.networks.structures import structures_of


@dataclass(frozen=True)
class CacheLatent:
    """Cache ``down y`` in place of the keys or values ``y``, and attend to ``up (down y) + c``.

    ``site`` is ``<layer>.v``, ``<layer>.k`` (keys before the rotary embedding, which are rotated
    anew whenever they are read) or ``<layer>.k_rope`` (keys behind it, head by head). The map is
    one of all heads, whose factors are blocks: one for each group of heads, of ``ranks[g]``
    coordinates. With ``fold`` the output matrix reads the coordinates of values themselves, of
    which a head must not have more than it has features.

    An ordinary architecture has no place for this: the folder carries modelling code, as it does
    behind :class:`SplitLinear`. See Palu (arXiv:2407.21118), MatryoshkaKV (arXiv:2410.14731).
    """

    site: str
    map: LinearMap
    ranks: tuple[int, ...]
    fold: bool = False
    kind: ClassVar[str] = "cache_latent"
    changes: ClassVar[frozenset[str]] = frozenset({MATRICES})
    reads: ClassVar[frozenset[str]] = frozenset({LAYERS, STREAM, READERS, MATRICES})

    def __post_init__(self) -> None:
        checked_map(self.map, "CacheLatent")
        linear, _ = parts(self.map)
        if not isinstance(linear, LowRank) or linear.rank != sum(self.ranks) or min(self.ranks) < 1:
            raise GramianError(
                f"CacheLatent takes LowRank(up, down) with a rank of {' + '.join(map(str, self.ranks))}"
                f" and got {self.map!r}"
            )

    def rewrite(self, draft: Draft) -> Draft:
        made = _Made.of(draft, self)
        require_square(self.map, made.projection.tap.width, self.site)
        if self.site.endswith(".k_rope"):
            return made.rotated()
        return made.folded() if self.fold else made.rebuilt()

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        if not self.site.endswith(".k_rope"):
            FoldProjection(self.site, self.map).hooks(model, source, draft, stack)
            return
        layer = source.layers[draft.origin[_layer(self.site)]]
        _map_rotated(model.get_submodule(attention_path(layer)), self.map, stack)

    def describe(self) -> str:
        how = ", read by the output matrix" if self.fold else ""
        return f"cache {sum(self.ranks)} of {self.map.in_features} numbers of {self.site}{how}"


@dataclass(frozen=True)
class _Made:
    """A draft, and the projection in it whose output a move caches in another form."""

    draft: Draft
    move: CacheLatent
    projection: Projection
    heads: AttentionHeads
    linear: LowRank

    @classmethod
    def of(cls, draft: Draft, move: CacheLatent) -> _Made:
        site = move.site.replace("k_rope", "k")
        found = projection(draft.blueprint, site)
        path = found.tap.path
        if found.tap.columns is not None or path.rpartition(".")[2] not in ("k_proj", "v_proj"):
            raise GramianError(
                f"the keys and values of a {draft.blueprint.model_type} network come from "
                f"{path}, which makes more than one of them: no cache of coordinates is known "
                "there; multiply the factors out (dense=True, --dense)"
            )
        if path in structures_of(draft.config):
            raise GramianError(f"{path} has another structure already; give one move for it")
        linear, _ = parts(move.map)
        assert isinstance(linear, LowRank)
        heads = attention_heads(draft.blueprint, draft.config, _layer(site))
        if heads.keys % len(move.ranks) or (move.fold and not site.endswith(".v")):
            raise GramianError(
                f"{move.site}: {len(move.ranks)} groups of {heads.keys} heads"
                f"{', folded' if move.fold else ''}; expected a number that divides them, and "
                "values where they are folded"
            )
        if site != move.site and len(move.ranks) != heads.keys:
            raise GramianError(f"{move.site}: expected a rank for each of {heads.keys} heads")
        return cls(draft, move, found, heads, linear)

    @property
    def path(self) -> str:
        return self.projection.tap.path

    def blocks(self, tensor: Tensor, rows: bool) -> list[Tensor]:
        """The blocks of ``up`` (rows are features) or of ``down`` (columns are)."""
        features = self.linear.in_features // len(self.move.ranks)
        across = tensor.split(features, 0 if rows else 1)
        return [
            part.split(list(self.move.ranks), 1 if rows else 0)[g] for g, part in enumerate(across)
        ]

    def rebuilt(self) -> Draft:
        """``down`` and one ``up`` for each group, the bias behind them."""
        draft, _ = self.with_constant(self.draft)
        bias = draft.tensors.get(self.projection.matrix.bias)
        tensors = self.without(draft)
        like = draft.tensors[self.projection.matrix.weight]
        tensors[f"{self.path}.down.weight"] = self.coordinates(like)
        for g, block in enumerate(self.blocks(self.linear.up, rows=True)):
            tensors[f"{self.path}.up.{g}.weight"] = _like(block, like)
        if bias is not None:
            tensors[f"{self.path}.bias"] = lambda: applied(self.move.map, bias())
        return self.marked(draft, tensors, {self.path: {"kind": "latents"}})

    def folded(self) -> Draft:
        """``down`` for the values, and an output matrix that reads what it gives."""
        heads, ranks = self.heads, self.move.ranks
        if max(ranks) > heads.width:
            raise GramianError(
                f"{self.move.site}: {max(ranks)} coordinates in heads of {heads.width} features "
                "cannot be folded: the output matrix would grow"
            )
        draft, shift = self.draft, self.shift()
        writer = heads.writer
        if shift is not None:
            draft = with_bias(draft, writer, self.move.site)
        tensors = self.without(draft)
        like, out = draft.tensors[self.projection.matrix.weight], draft.tensors[writer.weight]
        tensors[f"{self.path}.down.weight"] = self.coordinates(like)
        output = writer.weight.removesuffix(".weight")
        old = tensors.pop(writer.bias, None)
        tensors.pop(writer.weight)
        tensors[f"{output}.up.weight"] = lambda: self.read_by(out())
        if old is not None:
            tensors[f"{output}.up.bias"] = lambda: old() + (
                0 if shift is None else self.written(out(), shift())
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

    def with_constant(self, draft: Draft) -> tuple[Draft, bool]:
        """The draft in which the projection has a bias, where the map has a constant."""
        _, constant = parts(self.move.map)
        if constant is None:
            return draft, False
        return with_bias(draft, self.projection.matrix, self.move.site), True

    def shift(self) -> Lazy | None:
        """What the map makes of the bias of the values; None where there is none."""
        bias = self.draft.tensors.get(self.projection.matrix.bias)
        _, constant = parts(self.move.map)
        if bias is None:
            return None if constant is None else lambda: constant
        return lambda: self.move.map.to(dtype=torch.float64)(bias().double())

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
            table[path] = {**structure, "ranks": list(self.move.ranks)}
        return draft.with_structures(tensors, table)


def _layer(site: str) -> int:
    layer = parse(site).layer
    assert layer is not None
    return layer


def _like(block: Tensor, like: Lazy) -> Lazy:
    return lambda: block.to(like()).contiguous()


class _MappedKeys:
    """Stands for the cache of an attention, and maps the keys that it is given."""

    def __init__(self, map: LinearMap, cache: Any) -> None:
        self.map, self.cache = map, cache

    def update(self, keys: Tensor, values: Tensor, *rest: Any, **named: Any) -> Any:
        flat = applied(self.map, keys.transpose(1, 2).flatten(-2))
        mapped = flat.unflatten(-1, (keys.shape[1], -1)).transpose(1, 2)
        return (mapped, values) if self.cache is None else self.cache.update(mapped, values, *rest, **named)


def _map_rotated(attention: nn.Module, map: LinearMap, stack: ExitStack) -> None:
    """Until the stack closes, an attention reads its keys mapped, as they are cached."""

    def before(_module: nn.Module, args: Any, named: dict[str, Any]) -> Any:
        return args, {**named, "cache": _MappedKeys(map, named.get("cache"))}

    stack.callback(attention.register_forward_pre_hook(before, with_kwargs=True).remove)
