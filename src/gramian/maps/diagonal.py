"""One factor per dimension."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps.arrays import as_floats
from gramian.maps.linear_map import LinearMap
from gramian.maps.tags import Tag


@dataclass(frozen=True, eq=False, repr=False)
class Diagonal(LinearMap):
    """``y = x * diagonal`` with ``diagonal`` of shape (features,)."""

    diagonal: Tensor

    inherent = frozenset({Tag.SYMMETRIC})
    tensor_names = ("diagonal",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "diagonal", as_floats(self.diagonal, "diagonal", 1))
        if not len(self.diagonal):
            raise GramianError("diagonal is empty, expected one factor or more")
        super().__post_init__()

    @property
    def in_features(self) -> int:
        return len(self.diagonal)

    @property
    def out_features(self) -> int:
        return len(self.diagonal)

    @property
    def T(self) -> Diagonal:
        return self

    def _apply(self, x: Tensor) -> Tensor:
        return x * self.diagonal.to(x.dtype)

    def _dense(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.diag(self.diagonal.to(dtype))

    def _inverse(self) -> Diagonal:
        reciprocal = self.diagonal.reciprocal()
        bad = torch.nonzero(~reciprocal.isfinite() | ~self.diagonal.isfinite()).flatten()
        if len(bad):
            entry = int(bad[0])
            raise GramianError(
                f"{self!r} has no inverse: entry {entry} is {self.diagonal[entry].item():g} "
                f"({len(bad)} such of {len(self.diagonal)}); use pinv()"
            )
        return Diagonal(reciprocal)

    def _pinv(self, rtol: float | None) -> Diagonal:
        size = self.diagonal.abs()
        reciprocal = self.diagonal.reciprocal()
        kept = (size > (rtol or 0.0) * size.max()) & reciprocal.isfinite()
        return Diagonal(torch.where(kept, reciprocal, torch.zeros_like(reciprocal)))
