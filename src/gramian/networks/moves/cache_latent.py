"""Cache coordinates in place of keys or values."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.maps import LinearMap, LowRank
from gramian.networks.blueprint import Blueprint
from gramian.networks.draft import Draft
from gramian.networks.moves.cached_projection import CachedProjection
from gramian.networks.moves.fold_projection import FoldProjection
from gramian.networks.moves.protocol import LAYERS, MATRICES, READERS, STREAM
from gramian.networks.moves.weights import applied, checked_map, parts
from gramian.networks.rotary import attention_path
from gramian.networks.sites import parse


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
        fits = isinstance(linear, LowRank) and linear.rank == sum(self.ranks)
        if not fits or min(self.ranks) < 1:
            raise GramianError(
                f"CacheLatent takes LowRank(up, down) of rank {' + '.join(map(str, self.ranks))} "
                f"and got {self.map!r}"
            )
        if self.fold and not self.site.endswith(".v"):
            raise GramianError(f"CacheLatent({self.site!r}): only values can be folded")

    def rewrite(self, draft: Draft) -> Draft:
        made = CachedProjection.of(draft, self.site, self.map, self.ranks)
        if self.site.endswith(".k_rope"):
            return made.rotated()
        return made.folded() if self.fold else made.rebuilt()

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        if not self.site.endswith(".k_rope"):
            FoldProjection(self.site, self.map).hooks(model, source, draft, stack)
            return
        index = parse(self.site).layer
        assert index is not None
        layer = source.layers[draft.origin[index]]
        _map_rotated(model.get_submodule(attention_path(layer)), self.map, stack)

    def describe(self) -> str:
        how = ", read by the output matrix" if self.fold else ""
        return f"cache {sum(self.ranks)} of {self.map.in_features} numbers of {self.site}{how}"


class _MappedKeys:
    """Stands for the cache of an attention, and maps the keys that it is given."""

    def __init__(self, map: LinearMap, cache: Any) -> None:
        self.map, self.cache = map, cache

    def update(self, keys: Tensor, values: Tensor, *rest: Any, **named: Any) -> Any:
        flat = applied(self.map, keys.transpose(1, 2).flatten(-2))
        mapped = flat.unflatten(-1, (keys.shape[1], -1)).transpose(1, 2)
        if self.cache is None:
            return mapped, values
        return self.cache.update(mapped, values, *rest, **named)


def _map_rotated(attention: nn.Module, map: LinearMap, stack: ExitStack) -> None:
    """Until the stack closes, an attention reads its keys mapped, as they are cached."""

    def before(_module: nn.Module, args: Any, named: dict[str, Any]) -> Any:
        return args, {**named, "cache": _MappedKeys(map, named.get("cache"))}

    stack.callback(attention.register_forward_pre_hook(before, with_kwargs=True).remove)
