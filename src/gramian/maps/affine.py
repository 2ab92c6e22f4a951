"""A linear map and a bias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.maps.arrays import as_floats
from gramian.maps.linear_map import LinearMap

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator


@dataclass(frozen=True, eq=False, repr=False)
class Affine(LinearMap):
    """``y = map(x) + bias`` with ``bias`` of shape (out,). Its tags speak of ``map``."""

    map: LinearMap
    bias: Tensor

    tensor_names = ("bias",)

    def __post_init__(self) -> None:
        if not isinstance(self.map, LinearMap) or isinstance(self.map, Affine):
            raise GramianError(
                f"map is a {type(self.map).__name__}, expected a linear map; "
                "compose two affine maps with @"
            )
        bias = as_floats(self.bias, "bias", 1, self.map.device)
        if len(bias) != self.map.out_features:
            raise GramianError(
                f"bias has {len(bias)} entries, expected {self.map.out_features} for {self.map!r}"
            )
        object.__setattr__(self, "bias", bias)
        object.__setattr__(self, "map", self.map.with_tags(*self.tags))
        object.__setattr__(self, "tags", self.map.tags)
        super().__post_init__()

    @property
    def in_features(self) -> int:
        return self.map.in_features

    @property
    def out_features(self) -> int:
        return self.map.out_features

    @property
    def T(self) -> LinearMap:
        raise GramianError(f"{self!r} has no transpose; its linear part has: map.T")

    def parts(self) -> dict[str, LinearMap]:
        return {"map": self.map}

    def _apply(self, x: Tensor) -> Tensor:
        return self.map._apply(x) + self.bias.to(x.dtype)

    def _dense(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        return self.map._dense(dtype, device)

    def inverse(self) -> Affine:
        """``x = map⁻¹(y - bias)``; errors as for the linear part."""
        return self._inverse()

    def pinv(self, rtol: float | None = None) -> Affine:
        """``x = map⁺(y - bias)``: the least-norm least-squares solution."""
        return self._pinv(rtol)

    def _inverse(self) -> Affine:
        inverse = self.map.inverse()
        return Affine(inverse, -inverse(self.bias))

    def _pinv(self, rtol: float | None) -> Affine:
        inverse = self.map.pinv(rtol)
        return Affine(inverse, -inverse(self.bias))

    def to_linear(self) -> nn.Linear:
        """The same map as a trainable ``nn.Linear`` with a bias and its own memory."""
        linear = super().to_linear()
        linear.bias = nn.Parameter(self.bias.detach().to(linear.weight.dtype, copy=True))
        return linear

    def aslinearoperator(self) -> LinearOperator:
        """Refused: SciPy's operators are linear."""
        raise GramianError(f"{self!r} is not linear; its linear part is: map.aslinearoperator()")

    def _detail(self) -> str:
        return f": {type(self.map).__name__} + bias"
