"""Attention that caches coordinates in place of keys and values, with the rest of it unchanged."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn


class Latents(nn.Module):
    """A projection to keys or values in two steps: what ``down`` gives is cached.

    Every group of heads is rebuilt from coordinates of its own, ``ranks[g]`` of them; the bias is
    added to what was rebuilt.
    """

    def __init__(
        self, wide: int, high: int, *, ranks: Sequence[int], bias: bool, **where: Any
    ) -> None:
        super().__init__()
        if high % len(ranks):
            raise ValueError(f"{len(ranks)} groups do not divide {high} features")
        each = high // len(ranks)
        self.ranks = list(ranks)
        self.down = nn.Linear(wide, sum(ranks), bias=False, **where)
        self.up = nn.ModuleList(nn.Linear(rank, each, bias=False, **where) for rank in ranks)
        self.bias = nn.Parameter(torch.empty(high, **where)) if bias else None
        self.seen: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        latents: Tensor = self.down(x)
        self.seen = latents
        return self.rebuild(latents)

    def rebuild(self, latents: Tensor) -> Tensor:
        """Keys before their rotation, or values: (..., high) from (..., sum of ranks)."""
        parts = latents.split(self.ranks, dim=-1)
        made = torch.cat([up(part) for up, part in zip(self.up, parts, strict=True)], dim=-1)
        return made if self.bias is None else made + self.bias


class FoldedValues(nn.Module):
    """A projection to coordinates of values, which the output matrix reads as they are.

    They stand at the front of every head that shares them, with zeros behind.
    """

    def __init__(
        self, wide: int, high: int, *, ranks: Sequence[int], heads: int, bias: bool, **where: Any
    ) -> None:
        super().__init__()
        # The output matrix has taken what a bias of the values comes to.
        self.ranks, self.shared, self.width = _folded(high, ranks, heads)
        self.down = nn.Linear(wide, sum(ranks), bias=False, **where)
        self.seen: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        latents: Tensor = self.down(x)
        self.seen = latents
        return self.rebuild(latents)

    def rebuild(self, latents: Tensor) -> Tensor:
        """Heads (..., high) from (..., sum of ranks)."""
        parts = latents.split(self.ranks, dim=-1)
        heads = [nn.functional.pad(part, (0, self.width - part.shape[-1])) for part in parts]
        return torch.stack(heads, dim=-2).repeat_interleave(self.shared, dim=-2).flatten(-2)


class FoldedOutput(nn.Module):
    """An output matrix ``up`` that reads coordinates of values, at the front of every head."""

    def __init__(
        self, wide: int, high: int, *, ranks: Sequence[int], heads: int, bias: bool, **where: Any
    ) -> None:
        super().__init__()
        self.ranks, self.shared, self.width = _folded(wide, ranks, heads)
        self.up = nn.Linear(sum(ranks) * self.shared, high, bias=bias, **where)

    def forward(self, x: Tensor) -> Tensor:
        groups = x.unflatten(-1, (len(self.ranks), self.shared, self.width))
        fronts = [groups[..., g, :, :rank].flatten(-2) for g, rank in enumerate(self.ranks)]
        result: Tensor = self.up(torch.cat(fronts, dim=-1))
        return result


class RotatedKeys(nn.Linear):
    """A projection to keys that are cached in fewer coordinates after they have been rotated.

    ``encode`` and ``decode`` hold two matrices for every head.
    """

    def __init__(
        self, wide: int, high: int, *, ranks: Sequence[int], bias: bool, **where: Any
    ) -> None:
        super().__init__(wide, high, bias=bias, **where)
        if high % len(ranks):
            raise ValueError(f"{len(ranks)} heads do not divide {high} features")
        each = high // len(ranks)
        self.ranks = list(ranks)
        self.encode = nn.ParameterList(torch.empty(rank, each, **where) for rank in ranks)
        self.decode = nn.ParameterList(torch.empty(each, rank, **where) for rank in ranks)

    def reduce(self, keys: Tensor) -> Tensor:
        """(batch, length, sum of ranks) from keys (batch, heads, length, width)."""
        return torch.cat([keys[:, h] @ e.T for h, e in enumerate(self.encode)], dim=-1)

    def rebuild(self, latents: Tensor) -> Tensor:
        """Keys (batch, heads, length, width) from (batch, length, sum of ranks)."""
        parts = latents.split(self.ranks, dim=-1)
        made = [part @ d.T for part, d in zip(parts, self.decode, strict=True)]
        return torch.stack(made, dim=1)


def _folded(features: int, ranks: Sequence[int], heads: int) -> tuple[list[int], int, int]:
    """Ranks, heads in a group, features of a head; refused where they do not fit."""
    if features % heads or heads % len(ranks) or max(ranks) > features // heads:
        raise ValueError(
            f"{len(ranks)} groups with up to {max(ranks)} coordinates do not fit {heads} heads in "
            f"{features} features"
        )
    return list(ranks), heads // len(ranks), features // heads


class Rotary:
    """What one layer does to its queries and keys at every position."""

    def __init__(self, embedding: nn.Module, attention: nn.Module, layer_type: str | None) -> None:
        self.embedding, self.attention, self.layer_type = embedding, attention, layer_type

    def __call__(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Rotate queries or keys (batch, heads, length, width) at positions (batch, length)."""
        extra = () if self.layer_type is None else (self.layer_type,)
        cos, sin = self.embedding(heads, positions, *extra)
        # Some architectures rotate the first features alone.
        wide: Any = getattr(self.attention, "rotary_ndims", heads.shape[-1])
        turned, rest = heads[..., :wide], heads[..., wide:]
        code: Any = sys.modules[_original(self.attention).__module__]
        _, turned = code.apply_rotary_pos_emb(turned, turned, cos, sin)
        return torch.cat((turned, rest), dim=-1) if rest.shape[-1] else turned


def rotary_of(model: nn.Module, attention: nn.Module, layer: int) -> Rotary | None:
    """What an attention of a model rotates queries and keys with; None where it does not.

    Raises
    ------
    ValueError : several embeddings, or code that rotates in another way.
    """
    config: Any = model.config
    named = (name for name, _ in model.named_modules() if name.rpartition(".")[2] == "rotary_emb")
    found = [model.get_submodule(name) for name in named]
    if not found or getattr(config, "alibi", False):
        return None
    code = sys.modules[_original(attention).__module__]
    if len(found) > 1 or not hasattr(code, "apply_rotary_pos_emb"):
        raise ValueError(
            f"how a {config.model_type} network rotates its queries and keys is not known; "
            "expected one rotary embedding for all layers"
        )
    forward: Any = found[0].forward
    several = "layer_type" in inspect.signature(forward).parameters
    return Rotary(found[0], attention, config.layer_types[layer] if several else None)


def _original(module: nn.Module) -> Any:
    """The class of transformers that a module is of, or derived from."""
    return next(one for one in type(module).__mro__ if one.__module__.startswith("transformers."))


class LatentView:
    """Stands for the cache in one call of an attention: it stores coordinates in it and gives
    keys and values out."""

    def __init__(self, attention: Any, cache: Any, positions: Tensor | None) -> None:
        self.attention, self.cache, self.positions = attention, cache, positions

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cache, name)

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *rest: Any, **named: Any
    ) -> tuple[Tensor, Tensor]:
        """What ``Cache.update`` gives, the past rebuilt from what is stored."""
        made_k, made_v = self.attention.k_proj, self.attention.v_proj
        small_k, small_v = keys, values
        if isinstance(made_k, RotatedKeys):
            latents = made_k.reduce(keys)
            keys, small_k = made_k.rebuild(latents), latents[:, None]
        elif isinstance(made_k, Latents):
            small_k = _taken(made_k)
        if isinstance(made_v, (Latents, FoldedValues)):
            small_v = _taken(made_v)
        if self.cache is None:
            return keys, values
        if getattr(self.cache, "is_compileable", False):
            raise ValueError("latents are cached as they come; expected a cache that grows")
        held_k, held_v = self.cache.update(small_k, small_v, layer, *rest, **named)
        past = held_k.shape[-2] - keys.shape[-2]
        if past == 0:
            return keys, values
        if small_k is keys:
            keys = held_k
        else:
            keys = torch.cat((self._keys(made_k, held_k[:, 0, :past]), keys), dim=-2)
        if small_v is values:
            values = held_v
        else:
            old = _heads(made_v.rebuild(held_v[:, 0, :past]), values.shape[-1])
            values = torch.cat((old, values), dim=-2)
        return keys, values

    def _keys(self, made: Any, latents: Tensor) -> Tensor:
        """The keys of the past as attention wants them: normalised, rotated."""
        if isinstance(made, RotatedKeys):
            return made.rebuild(latents)
        attention = self.attention
        keys = made.rebuild(latents)
        norm: Any = getattr(attention, "k_norm", None) or getattr(attention, "k_layernorm", None)
        whole = norm is not None and norm.weight.shape[0] == keys.shape[-1]
        if whole:
            keys = norm(keys)
        heads = _heads(keys, attention.head_dim)
        if norm is not None and not whole:
            heads = norm(heads)
        rotary = attention.latent_rotary[0]
        if rotary is None:
            return heads
        if self.positions is None:
            raise ValueError("this attention is not told positions, so that it cannot rotate keys")
        # Tokens of one sequence follow one another, so the past counts back from the present.
        before = torch.arange(latents.shape[-2], 0, -1, device=heads.device)
        rotated: Tensor = rotary(heads, self.positions[:, :1] - before)
        return rotated


def _taken(made: Any) -> Tensor:
    """The coordinates that a projection has just made, (batch, 1, length, sum of ranks)."""
    latents, made.seen = made.seen, None
    assert isinstance(latents, Tensor)
    return latents[:, None]


def _heads(features: Tensor, width: int) -> Tensor:
    """(batch, heads, length, width) from (batch, length, features)."""
    heads: Tensor = features.unflatten(-1, (-1, width)).transpose(1, 2)
    return heads


def hand_view(attention: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """A forward hook that gives an attention a view in the place of its cache."""
    cache = named.pop("past_key_values", None)
    cache = named.pop("cache", cache)
    view = LatentView(attention, cache, named.get("position_ids"))
    return args, {**named, "cache": view}


CACHED: dict[str, Any] = {
    "latents": Latents,
    "folded_values": FoldedValues,
    "folded_output": FoldedOutput,
    "rotated_keys": RotatedKeys,
}
"""Kind of structure -> its module, of those that change what is cached."""


def cache_latents(model: nn.Module, table: Mapping[str, Mapping[str, Any]]) -> None:
    """Let every attention of the table cache coordinates.

    Raises
    ------
    ValueError : an attention that does not work in the way that is known.
    """
    owners = {path.rpartition(".")[0] for path, one in table.items() if one["kind"] in CACHED}
    for path in sorted(owners):
        attention: Any = model.get_submodule(path)
        parts = ("k_proj", "v_proj", "head_dim", "layer_idx")
        forward = inspect.signature(_original(attention).forward).parameters
        if not all(hasattr(attention, name) for name in parts) or "hidden_states" not in forward:
            raise ValueError(f"{path} is a {type(attention).__name__}, which is not known")
        # In a tuple, so that it is not a part of the attention.
        attention.latent_rotary = (rotary_of(model, attention, attention.layer_idx),)
        attention.register_forward_pre_hook(hand_view, with_kwargs=True)
