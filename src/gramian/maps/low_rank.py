"""A product of two thin matrices, never multiplied out."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear

from gramian.errors import GramianError
from gramian.maps.arrays import as_floats, noise, spectral, together
from gramian.maps.dense import Dense
from gramian.maps.linear_map import LinearMap


@dataclass(frozen=True, eq=False, repr=False)
class LowRank(LinearMap):
    """``y = (x @ down.T) @ up.T``, so ``W = up @ down``.

    ``up`` (out, rank) and ``down`` (rank, in) in one dtype; rank 0 is the zero map.
    """

    up: Tensor
    down: Tensor

    tensor_names = ("up", "down")

    def __post_init__(self) -> None:
        up, down = together(as_floats(self.up, "up", 2), as_floats(self.down, "down", 2))
        if up.shape[1] != down.shape[0] or not up.shape[0] or not down.shape[1]:
            raise GramianError(
                f"up has shape {tuple(up.shape)} and down {tuple(down.shape)}, "
                "expected (out, rank) and (rank, in)"
            )
        object.__setattr__(self, "up", up)
        object.__setattr__(self, "down", down)
        super().__post_init__()

    @property
    def in_features(self) -> int:
        return self.down.shape[1]

    @property
    def out_features(self) -> int:
        return self.up.shape[0]

    @property
    def rank(self) -> int:
        """The inner dimension: the rank of the map at most."""
        return self.up.shape[1]

    @property
    def T(self) -> LowRank:
        return LowRank(self.down.T, self.up.T, tags=self.tags)

    def _apply(self, x: Tensor) -> Tensor:
        return linear(linear(x, self.down.to(x.dtype)), self.up.to(x.dtype))

    def _dense(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        return self.up.to(dtype) @ self.down.to(dtype)

    def _inverse(self) -> LinearMap:
        if self.rank < self.in_features:
            raise GramianError(
                f"{self!r} has no inverse: its rank is {self.rank} at most; use pinv()"
            )
        inverse = Dense(self.up.double() @ self.down.double()).inverse()
        return inverse.to(dtype=self.up.dtype)

    def _pinv(self, rtol: float | None) -> LowRank:
        # up = Qu Ru, downᵀ = Qd Rd, Ru Rdᵀ = X S Yᵀ:  W⁺ = (Qd Y S⁻¹) (Qu X)ᵀ
        q_up, r_up = torch.linalg.qr(self.up.double())
        q_down, r_down = torch.linalg.qr(self.down.double().T)
        left, values, right = torch.linalg.svd(r_up @ r_down.T, full_matrices=False)
        if rtol is None:
            cut = noise(self.up.dtype, *self.shape) * spectral(r_up) * spectral(r_down)
        else:
            cut = rtol * max(values.tolist(), default=0.0)
        kept = values > cut
        up = q_down @ (right[kept].T / values[kept])
        down = (q_up @ left[:, kept]).T
        return LowRank(up.to(self.up.dtype), down.to(self.up.dtype))

    def _detail(self) -> str:
        return f", rank {self.rank}"
