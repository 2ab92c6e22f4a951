"""Blocks that share bases by row and by column, each with weights of its own."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps.arrays import as_floats, together
from gramian.maps.block_diagonal import BlockDiagonal
from gramian.maps.dense import Dense
from gramian.maps.linear_map import LinearMap
from gramian.maps.low_rank import LowRank


@dataclass(frozen=True, eq=False, repr=False)
class Blast(LinearMap):
    """Block (i, j) is ``left[i] diag(gains[i, j]) right[j]`` (Lee et al., 2410.21262).

    ``left`` is (rows, out / rows, rank), ``gains`` (rows, columns, rank) and ``right``
    (columns, rank, in / columns). Gains of one make a low-rank map.
    """

    left: Tensor
    gains: Tensor
    right: Tensor

    tensor_names = ("left", "gains", "right")

    def __post_init__(self) -> None:
        names = self.tensor_names
        left, gains, right = together(*(as_floats(getattr(self, n), n, 3) for n in names))
        rows, columns, rank = gains.shape
        fits = (left.shape[0], left.shape[2]) == (rows, rank)
        fits &= tuple(right.shape[:2]) == (columns, rank)
        if not fits or not left.numel() * gains.numel() * right.numel():
            raise GramianError(
                f"left has shape {tuple(left.shape)}, gains {tuple(gains.shape)} and right "
                f"{tuple(right.shape)}, expected (rows, out / rows, rank), (rows, columns, rank) "
                "and (columns, rank, in / columns)"
            )
        for name, tensor in zip(names, (left, gains, right), strict=True):
            object.__setattr__(self, name, tensor)
        super().__post_init__()

    @property
    def grid(self) -> tuple[int, int]:
        """(rows, columns) of blocks."""
        return (self.gains.shape[0], self.gains.shape[1])

    @property
    def rank(self) -> int:
        """The rank of each block at most."""
        return self.gains.shape[2]

    @property
    def in_features(self) -> int:
        return self.right.shape[0] * self.right.shape[2]

    @property
    def out_features(self) -> int:
        return self.left.shape[0] * self.left.shape[1]

    @property
    def T(self) -> Blast:
        return Blast(
            self.right.transpose(1, 2),
            self.gains.transpose(0, 1),
            self.left.transpose(1, 2),
            tags=self.tags,
        )

    def _apply(self, x: Tensor) -> Tensor:
        given = x.reshape(*x.shape[:-1], self.grid[1], self.right.shape[2])
        inner = torch.einsum("...ci,cri->...cr", given, self.right.to(x.dtype))
        mixed = torch.einsum("...cr,bcr->...br", inner, self.gains.to(x.dtype))
        return torch.einsum("...br,bor->...bo", mixed, self.left.to(x.dtype)).flatten(-2)

    def _dense(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        left, gains, right = (t.to(dtype) for t in (self.left, self.gains, self.right))
        scaled = torch.einsum("bor,bcr->bocr", left, gains)
        return torch.einsum("bocr,cri->boci", scaled, right).reshape(self.shape)

    def _inverse(self) -> LinearMap:
        if min(self.grid) * self.rank < self.in_features:
            raise GramianError(
                f"{self!r} has no inverse: its rank is {min(self.grid) * self.rank} at most; "
                "use pinv()"
            )
        return Dense(self.to_dense(torch.float64)).inverse().to(dtype=self.dtype)

    def _pinv(self, rtol: float | None) -> LinearMap:
        rows, columns = self.grid
        if min(rows, columns) * self.rank >= min(self.shape):
            return Dense(self.to_dense()).pinv(rtol)
        # W = diag(left) G, G the gained right parts; or, with fewer columns, G diag(right)
        left, right = (BlockDiagonal(t).to_dense() for t in (self.left, self.right))
        spread = torch.zeros(rows * self.rank, columns * self.rank).to(self.gains)
        view = spread.view(rows, self.rank, columns, self.rank)
        view.diagonal(dim1=1, dim2=3).copy_(self.gains)
        if rows <= columns:
            return LowRank(left, spread @ right).pinv(rtol)
        return LowRank(left @ spread, right).pinv(rtol)

    def _detail(self) -> str:
        return f", {self.grid[0]} x {self.grid[1]} blocks of rank {self.rank}"
