"""A bridge as one dense layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.bridge.saved import SavedBridge


@dataclass(frozen=True, eq=False)
class Layer:
    """``y = x W^T + b`` in float32, and whether rows are scaled to length 1 afterwards."""

    weight: Tensor
    """(out, in)."""
    bias: Tensor | None
    """(out,), or None where the map has none."""
    normalise: bool

    @classmethod
    def of(cls, bridge: SavedBridge) -> Layer:
        """The map of a bridge, computed in float64 and rounded once."""
        zero = torch.zeros(bridge.source.dim, dtype=torch.float64)
        bias = bridge.map.to(dtype=torch.float64)(zero)
        weight = bridge.map.to_dense(torch.float64)
        return cls(
            weight.to(torch.float32).contiguous(),
            bias.to(torch.float32) if bool(bias.any()) else None,
            bridge.normalise,
        )

    @property
    def dims(self) -> tuple[int, int]:
        """Widths of a row before and after."""
        return self.weight.shape[1], self.weight.shape[0]
