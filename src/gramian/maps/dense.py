"""A matrix written out."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear

from gramian.errors import GramianError
from gramian.maps.arrays import as_floats, epsilon, noise
from gramian.maps.linear_map import LinearMap
from gramian.maps.tags import Tag


@dataclass(frozen=True, eq=False, repr=False)
class Dense(LinearMap):
    """``y = x @ weight.T`` with ``weight`` of shape (out, in)."""

    weight: Tensor

    tensor_names = ("weight",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", as_floats(self.weight, "weight", 2))
        if not self.weight.numel():
            raise GramianError(f"weight has shape {tuple(self.weight.shape)}, expected no zero")
        super().__post_init__()

    @property
    def in_features(self) -> int:
        return self.weight.shape[1]

    @property
    def out_features(self) -> int:
        return self.weight.shape[0]

    @property
    def T(self) -> Dense:
        return Dense(self.weight.T, tags=self.tags)

    def _apply(self, x: Tensor) -> Tensor:
        return linear(x, self.weight.to(x.dtype))

    def _dense(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        return self.weight.to(dtype)

    def _inverse(self) -> Dense:
        weight = self.weight.double()
        inverse, failed = torch.linalg.inv_ex(weight)
        norms = torch.linalg.matrix_norm(torch.stack((weight, inverse)), 1)
        condition = float("inf") if int(failed) else float(norms.prod())
        if not condition * epsilon(self.dtype) < 1:
            raise GramianError(
                f"{self!r} has no inverse: its condition number is {condition:.1e} in a dtype "
                f"of precision {epsilon(self.dtype):.1e}; use pinv(), or regularise first"
            )
        if Tag.SYMMETRIC in self.tags:
            inverse = (inverse + inverse.T) / 2
        return Dense(inverse.to(self.weight.dtype))

    def _pinv(self, rtol: float | None) -> Dense:
        cut = noise(self.dtype, *self.shape) if rtol is None else rtol
        symmetric = Tag.SYMMETRIC in self.tags
        inverse = torch.linalg.pinv(self.weight.double(), rtol=cut, hermitian=symmetric)
        return Dense(inverse.to(self.weight.dtype))
