"""The keys or the values of one layer, and the directions in which their groups are cut."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.compress.kv.layers import Kind
from gramian.maps import Affine, LinearMap, LowRank
from gramian.moments import Moments
from gramian.solvers.latent import Latent
from gramian.solvers.spectrum import about


@dataclass(frozen=True, eq=False)
class Cut:
    """The keys or the values of one layer, and the directions of each group of their heads."""

    layer: int
    kind: Kind
    groups: tuple[Latent, ...]
    kept: Tensor
    """(width,) what is put back whatever the rank: the mean of the rows, or their bias."""
    weight: float
    """What a unit of what is lost counts beside that of other cuts."""

    @property
    def width(self) -> int:
        """Features of all heads."""
        return len(self.kept)

    def map(self, ranks: tuple[int, ...]) -> LinearMap:
        """``P (y - m) + m`` with ``P`` of these ranks, one for each group, as thin factors."""
        pairs = list(zip(self.groups, ranks, strict=True))
        up = torch.block_diag(*(group.decode[:, :rank] for group, rank in pairs))
        down = torch.block_diag(*(group.encode[:rank] for group, rank in pairs))
        map = LowRank(up, down)
        return Affine(map, self.kept - map(self.kept)) if bool(self.kept.any()) else map

    def lost(self, ranks: tuple[int, ...]) -> float:
        """What ranks lose, weighted."""
        pairs = zip(self.groups, ranks, strict=True)
        return self.weight * sum(group.lost(rank) for group, rank in pairs)

    def error(self, rows: Moments, ranks: tuple[int, ...]) -> float:
        """Expected squared error over the expected squared length, for rows of these moments."""
        # E|(I - P)(y - m)|^2 / E|y|^2
        pairs = zip(self.groups, ranks, strict=True)
        projector = torch.block_diag(*(group.projector(rank) for group, rank in pairs))
        missing = torch.eye(self.width, dtype=torch.float64) - projector
        left = about(rows, self.kept)
        return float(((missing @ left) * missing).sum()) / float(rows.raw().trace())
