"""Maps that are their own transpose and inverse, and store nothing but their size."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Self

from torch import Tensor

from gramian.errors import GramianError
from gramian.maps.linear_map import LinearMap
from gramian.maps.tags import Tag


@dataclass(frozen=True, eq=False, repr=False)
class Involution(LinearMap):
    """Orthogonal and symmetric on ``features`` dimensions; a kind says how it is applied."""

    features: int

    def __post_init__(self) -> None:
        if isinstance(self.features, bool) or not isinstance(self.features, int):
            raise GramianError(f"features is {self.features!r}, expected an integer")
        self._check_size()
        super().__post_init__()

    def _check_size(self) -> None:
        if self.features < 1:
            raise GramianError(f"features is {self.features}, expected 1 or more")

    @property
    def in_features(self) -> int:
        return self.features

    @property
    def out_features(self) -> int:
        return self.features

    @property
    def T(self) -> Self:
        return self

    def _inverse(self) -> Self:
        return self

    def _pinv(self, rtol: float | None) -> Self:
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
