"""A product of maps, kept lazy."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Self

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps.dense import Dense
from gramian.maps.linear_map import LinearMap
from gramian.maps.low_rank import LowRank
from gramian.maps.tags import Tag, product_tags


@dataclass(frozen=True, eq=False, repr=False)
class Chain(LinearMap):
    """``Chain((h, g, f))`` is ``h @ g @ f`` unmultiplied: f acts first.

    Inner chains are flattened. Orthogonal when all its factors are.
    """

    factors: tuple[LinearMap, ...]

    def __post_init__(self) -> None:
        factors: list[LinearMap] = []
        for factor in self.factors:
            if not isinstance(factor, LinearMap) or "bias" in factor.tensor_names:
                raise GramianError(
                    f"a Chain cannot hold a {type(factor).__name__}, expected linear maps; "
                    "compose maps that have a bias with @"
                )
            factors += factor.factors if isinstance(factor, Chain) else [factor]
        if not factors:
            raise GramianError("a Chain needs at least one factor")
        for left, right in pairwise(factors):
            if left.in_features != right.out_features:
                raise GramianError(
                    f"{left!r} cannot follow {right!r}: it takes {left.in_features} features and "
                    f"gets {right.out_features}"
                )
        object.__setattr__(self, "factors", tuple(factors))
        facts = reduce(product_tags, (factor.tags for factor in factors))
        object.__setattr__(self, "tags", frozenset(self.tags) | facts)
        super().__post_init__()

    @property
    def in_features(self) -> int:
        return self.factors[-1].in_features

    @property
    def out_features(self) -> int:
        return self.factors[0].out_features

    @property
    def T(self) -> Chain:
        return Chain(tuple(factor.T for factor in reversed(self.factors)), tags=self.tags)

    def parts(self) -> dict[str, LinearMap]:
        return {str(i): factor for i, factor in enumerate(self.factors)}

    def _apply(self, x: Tensor) -> Tensor:
        return reduce(lambda rows, factor: factor._apply(rows), reversed(self.factors), x)

    def _dense(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        columns = self.factors[-1]._dense(dtype, device).T
        return reduce(lambda rows, f: f._apply(rows), reversed(self.factors[:-1]), columns).T

    def _narrowest(self) -> int:
        return min(range(1, len(self.factors)), key=lambda i: self.factors[i].out_features)

    def _inverse(self) -> LinearMap:
        if all(factor.in_features == factor.out_features for factor in self.factors):
            return reduce(lambda g, f: g @ f, [f.inverse() for f in reversed(self.factors)])
        width = self.factors[self._narrowest()].out_features
        if width < self.in_features:
            raise GramianError(f"{self!r} has no inverse: it narrows to {width}; use pinv()")
        return Dense(self.to_dense(torch.float64)).inverse().to(dtype=self.dtype)

    def _pinv(self, rtol: float | None) -> LinearMap:
        # (Q M P)⁺ = Pᵀ M⁺ Qᵀ for orthogonal Q, P; a general product has no such rule
        first, *rest = self.factors
        if Tag.ORTHOGONAL in first.tags and rest:
            return Chain(tuple(rest)).pinv(rtol) @ first.T
        *rest, last = self.factors
        if Tag.ORTHOGONAL in last.tags and rest:
            return last.T @ Chain(tuple(rest)).pinv(rtol)
        if len(self.factors) == 1:
            return first.pinv(rtol)
        cut = self._narrowest()
        if self.factors[cut].out_features < min(self.shape):
            up, down = Chain(self.factors[:cut]), Chain(self.factors[cut:])
            return LowRank(up.to_dense(self.dtype), down.to_dense(self.dtype)).pinv(rtol)
        return Dense(self.to_dense()).pinv(rtol)

    @classmethod
    def assemble(
        cls,
        shape: tuple[int, int],
        tensors: Mapping[str, Tensor],
        parts: Mapping[str, LinearMap],
        tags: AbstractSet[Tag],
    ) -> Self:
        return cls(tuple(parts[str(i)] for i in range(len(parts))), tags=tags)

    def _detail(self) -> str:
        return ": " + " @ ".join(type(factor).__name__ for factor in self.factors)
