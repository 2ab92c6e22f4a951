"""The map that changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.maps.involution import Involution
from gramian.maps.tags import Tag


@dataclass(frozen=True, eq=False, repr=False)
class Identity(Involution):
    """``y = x`` on ``features`` dimensions; stores nothing."""

    inherent = frozenset(Tag)

    def _apply(self, x: Tensor) -> Tensor:
        return x

    def _dense(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.eye(self.features, dtype=dtype, device=device)
