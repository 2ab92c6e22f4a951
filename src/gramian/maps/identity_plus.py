"""The identity and a low-rank update: erasers, projections, adapters."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps.arrays import noise, spectral
from gramian.maps.linear_map import LinearMap
from gramian.maps.low_rank import LowRank


@dataclass(frozen=True, eq=False, repr=False)
class IdentityPlus(LinearMap):
    """``y = x + update(x)`` with a square `LowRank` update: ``W = I + up @ down``."""

    update: LowRank

    def __post_init__(self) -> None:
        if not isinstance(self.update, LowRank):
            raise GramianError(
                f"update is a {type(self.update).__name__}, expected a LowRank(up, down)"
            )
        if self.update.in_features != self.update.out_features:
            raise GramianError(f"update is {self.update!r}, expected a square one")
        super().__post_init__()

    @property
    def in_features(self) -> int:
        return self.update.in_features

    @property
    def out_features(self) -> int:
        return self.update.in_features

    @property
    def T(self) -> IdentityPlus:
        return IdentityPlus(self.update.T, tags=self.tags)

    def parts(self) -> dict[str, LinearMap]:
        return {"update": self.update}

    def _apply(self, x: Tensor) -> Tensor:
        return x + self.update._apply(x)

    def _dense(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        eye = torch.eye(self.in_features, dtype=dtype, device=device)
        return eye + self.update._dense(dtype, device)

    def _core(self) -> tuple[Tensor, Tensor]:
        """Orthonormal q (d, k), k <= 2 rank, and c (k, k) with W = I + q (c - I) qᵀ."""
        up, down = self.update.up.double(), self.update.down.double()
        q = torch.linalg.qr(torch.cat((up, down.T), dim=1)).Q
        eye = torch.eye(q.shape[1], dtype=q.dtype, device=q.device)
        return q, eye + (q.T @ up) @ (down @ q)

    def _noise(self, values: Tensor) -> float:
        """Singular values of the core up to this are rounding of the factors."""
        scale = spectral(self.update.up.double()) * spectral(self.update.down.double())
        return noise(self.update.up.dtype, len(values)) * max(1.0, float(values[0]), scale)

    def _inverse(self) -> IdentityPlus:
        if not self.update.rank:
            return self
        values = torch.linalg.svdvals(self._core()[1])
        smallest, cut = float(values[-1]), self._noise(values)
        if not smallest > cut:
            raise GramianError(
                f"{self!r} has no inverse: its smallest singular value is {smallest:.1e} with a "
                f"rounding noise of {cut:.1e}; use pinv()"
            )
        dtype = self.update.up.dtype
        up, down = self.update.up.double(), self.update.down.double()
        eye = torch.eye(self.update.rank, dtype=up.dtype, device=up.device)
        # Woodbury: (I + U D)⁻¹ = I - U (I + D U)⁻¹ D
        solved = torch.linalg.solve(eye + down @ up, down)
        return IdentityPlus(LowRank(-up.to(dtype), solved.to(dtype)))

    def _pinv(self, rtol: float | None) -> IdentityPlus:
        if not self.update.rank:
            return self
        # W = (I - q qᵀ) + q c qᵀ, two blocks that do not meet:  W⁺ = I + q (c⁺ - I) qᵀ
        q, core = self._core()
        left, values, right = torch.linalg.svd(core)
        largest = max(float(q.shape[1] < self.in_features), float(values[0]))
        kept = values > (self._noise(values) if rtol is None else rtol * largest)
        inner = (right[kept].T / values[kept]) @ left[:, kept].T
        change = inner - torch.eye(len(values), dtype=q.dtype, device=q.device)
        left, values, right = torch.linalg.svd(change)
        kept = values > noise(torch.float64, len(values)) * values[0]
        up, down = q @ (left[:, kept] * values[kept]), right[kept] @ q.T
        return IdentityPlus(LowRank(up.to(self.dtype), down.to(self.dtype)))

    def _detail(self) -> str:
        return f", rank {self.update.rank}"
