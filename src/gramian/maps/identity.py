"""The map that changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps.linear_map import LinearMap
from gramian.maps.tags import Tag


@dataclass(frozen=True, eq=False, repr=False)
class Identity(LinearMap):
    """``y = x`` on ``features`` dimensions; stores nothing."""

    features: int

    inherent = frozenset(Tag)

    def __post_init__(self) -> None:
        if isinstance(self.features, bool) or not isinstance(self.features, int):
            raise GramianError(f"features is {self.features!r}, expected an integer")
        if self.features < 1:
            raise GramianError(f"features is {self.features}, expected 1 or more")
        super().__post_init__()

    @property
    def in_features(self) -> int:
        return self.features

    @property
    def out_features(self) -> int:
        return self.features

    @property
    def T(self) -> Identity:
        return self

    def _apply(self, x: Tensor) -> Tensor:
        return x

    def _dense(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.eye(self.features, dtype=dtype, device=device)

    def _inverse(self) -> Identity:
        return self

    def _pinv(self, rtol: float | None) -> Identity:
        return self

    @classmethod
    def assemble(
        cls,
        shape: tuple[int, int],
        tensors: Mapping[str, Tensor],
        parts: Mapping[str, LinearMap],
        tags: AbstractSet[Tag],
    ) -> Self:
        return cls(shape[0], tags=tags)
