"""A sum of maps, kept lazy."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps.dense import Dense
from gramian.maps.linear_map import LinearMap
from gramian.maps.tags import Tag


@dataclass(frozen=True, eq=False, repr=False)
class Sum(LinearMap):
    """``Sum((f, g))(x) = f(x) + g(x)``, for example blocks on the diagonal and a low-rank rest.

    Inner sums are flattened. Symmetric when all its terms are.
    """

    terms: tuple[LinearMap, ...]

    def __post_init__(self) -> None:
        terms: list[LinearMap] = []
        for term in self.terms:
            if not isinstance(term, LinearMap) or "bias" in term.tensor_names:
                raise GramianError(
                    f"a Sum cannot hold a {type(term).__name__}, expected linear maps"
                )
            terms += term.terms if isinstance(term, Sum) else [term]
        if not terms:
            raise GramianError("a Sum needs at least one term")
        for term in terms[1:]:
            if term.shape != terms[0].shape:
                raise GramianError(
                    f"{term!r} cannot be added to {terms[0]!r}: {term.out_features} x "
                    f"{term.in_features}, expected {terms[0].out_features} x "
                    f"{terms[0].in_features}"
                )
        object.__setattr__(self, "terms", tuple(terms))
        if all(Tag.SYMMETRIC in term.tags for term in terms):
            object.__setattr__(self, "tags", frozenset(self.tags) | {Tag.SYMMETRIC})
        super().__post_init__()

    @property
    def in_features(self) -> int:
        return self.terms[0].in_features

    @property
    def out_features(self) -> int:
        return self.terms[0].out_features

    @property
    def T(self) -> Sum:
        return Sum(tuple(term.T for term in self.terms), tags=self.tags)

    def parts(self) -> dict[str, LinearMap]:
        return {str(i): term for i, term in enumerate(self.terms)}

    def _apply(self, x: Tensor) -> Tensor:
        y = self.terms[0]._apply(x)
        for term in self.terms[1:]:
            y = y + term._apply(x)
        return y

    def _dense(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        weight = self.terms[0]._dense(dtype, device)
        for term in self.terms[1:]:
            weight = weight + term._dense(dtype, device)
        return weight

    def _inverse(self) -> LinearMap:
        inverse = Dense(self.to_dense(torch.float64)).inverse()
        return inverse if self.dtype is None else inverse.to(dtype=self.dtype)

    def _pinv(self, rtol: float | None) -> LinearMap:
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
        return ": " + " + ".join(type(term).__name__ for term in self.terms)
