"""What a map is made of: tensors, inner maps, and the rest as JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps.arrays import FLOATS, promoted
from gramian.maps.tags import Tag

if TYPE_CHECKING:
    from gramian.maps.linear_map import LinearMap


@dataclass(frozen=True, eq=False, repr=False)
class Stored(ABC):
    """The state of a `LinearMap`, named so that it can be moved, cast, saved and rebuilt."""

    tags: AbstractSet[Tag] = field(default=frozenset(), kw_only=True)

    tensor_names: ClassVar[tuple[str, ...]] = ()
    """Fields that hold tensors."""

    @property
    @abstractmethod
    def in_features(self) -> int:
        """Length of the last axis that goes in."""

    @property
    @abstractmethod
    def out_features(self) -> int:
        """Length of the last axis that comes out."""

    @classmethod
    def assemble(
        cls,
        shape: tuple[int, int],
        tensors: Mapping[str, Tensor],
        parts: Mapping[str, LinearMap],
        tags: AbstractSet[Tag],
    ) -> Self:
        """The map of this kind with these tensors and inner maps as its fields."""
        fields: dict[str, Any] = {**tensors, **parts, "tags": tags}
        return cls(**fields)

    def parts(self) -> dict[str, LinearMap]:
        """The maps inside this one, by name."""
        return {}

    @property
    def shape(self) -> tuple[int, int]:
        """(out, in)."""
        return (self.out_features, self.in_features)

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype that holds all its numbers; None for a map without floating point numbers."""
        return promoted(t.dtype for t in self.tensors().values() if t.is_floating_point())

    @property
    def device(self) -> torch.device | None:
        """Where its tensors lie; None for a map without tensors."""
        return next((tensor.device for tensor in self.tensors().values()), None)

    @property
    def parameters(self) -> int:
        """How many numbers it stores."""
        return sum(tensor.numel() for tensor in self.tensors().values())

    def _own(self) -> dict[str, Tensor]:
        return {name: getattr(self, name) for name in self.tensor_names}

    def tensors(self) -> dict[str, Tensor]:
        """All its tensors; those of an inner map are named ``part.name``."""
        result = self._own()
        for name, part in self.parts().items():
            result |= {f"{name}.{key}": tensor for key, tensor in part.tensors().items()}
        return result

    def spec(self) -> dict[str, Any]:
        """All but its tensors, ready for JSON; `map_from` puts both together again."""
        result: dict[str, Any] = {
            "kind": type(self).__name__,
            "shape": list(self.shape),
            "tags": sorted(tag.value for tag in self.tags),
        }
        if parts := self.parts():
            result["parts"] = {name: part.spec() for name, part in parts.items()}
        return result

    def to(
        self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Self:
        """The same map in another dtype or on another device."""
        if dtype is not None and dtype not in FLOATS:
            raise GramianError(f"a map cannot have dtype {dtype}, expected a floating point dtype")
        tensors = {
            name: tensor.to(device=device, dtype=dtype if tensor.is_floating_point() else None)
            for name, tensor in self._own().items()
        }
        parts = {name: part.to(dtype=dtype, device=device) for name, part in self.parts().items()}
        return self.assemble(self.shape, tensors, parts, self.tags)
