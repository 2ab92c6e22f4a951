"""Two block-diagonal matrices with a transposition before each second step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps.arrays import as_floats, together
from gramian.maps.block_diagonal import BlockDiagonal
from gramian.maps.chain import Chain
from gramian.maps.linear_map import LinearMap
from gramian.maps.permutation import Permutation


@dataclass(frozen=True, eq=False, repr=False)
class Monarch(LinearMap):
    """``W[(o, l), (k, i)] = sum_r left[l, o, k, r] right[k, l, r, i]`` (Dao et al., 2204.00595).

    Every slice of fixed ``l`` and ``k`` has rank r at most; r = 1 is the Monarch matrix of the
    paper. ``left`` is (L, out / L, K, r), ``right`` is (K, L, r, in / K): K groups of inputs are
    mapped to L numbers (r of them) each, these are transposed, and L groups make the outputs. The
    transpose is a `Chain` of its factors: there the groups of the inputs are the strided ones.
    """

    left: Tensor
    right: Tensor

    tensor_names = ("left", "right")

    def __post_init__(self) -> None:
        left, right = together(as_floats(self.left, "left", 4), as_floats(self.right, "right", 4))
        groups, _, pieces, rank = left.shape
        if tuple(right.shape[:3]) != (pieces, groups, rank) or not left.numel() * right.numel():
            raise GramianError(
                f"left has shape {tuple(left.shape)} and right {tuple(right.shape)}, expected "
                "(L, out / L, K, r) and (K, L, r, in / K)"
            )
        object.__setattr__(self, "left", left)
        object.__setattr__(self, "right", right)
        super().__post_init__()

    @property
    def grid(self) -> tuple[int, int]:
        """(L, K)."""
        return (self.left.shape[0], self.left.shape[2])

    @property
    def rank(self) -> int:
        """The rank of each slice at most."""
        return self.left.shape[3]

    @property
    def in_features(self) -> int:
        return self.right.shape[0] * self.right.shape[3]

    @property
    def out_features(self) -> int:
        return self.left.shape[0] * self.left.shape[1]

    @property
    def T(self) -> LinearMap:
        return Chain(self.factored().T.factors, tags=self.tags)

    def factored(self) -> Chain:
        """The same map as ``P' L P R``: permutations and block-diagonal matrices."""
        groups, pieces = self.grid
        device = self.left.device
        inner = torch.arange(pieces * groups * self.rank, device=device)
        outer = torch.arange(self.out_features, device=device)
        return Chain(
            (
                Permutation(outer.reshape(groups, -1).T.flatten()),
                BlockDiagonal(self.left.flatten(2)),
                Permutation(inner.reshape(pieces, groups, -1).transpose(0, 1).flatten()),
                BlockDiagonal(self.right.flatten(1, 2)),
            )
        )

    def _apply(self, x: Tensor) -> Tensor:
        given = x.reshape(*x.shape[:-1], self.grid[1], self.right.shape[3])
        inner = torch.einsum("...ki,klri->...lkr", given, self.right.to(x.dtype))
        y = torch.einsum("...lkr,lokr->...ol", inner, self.left.to(x.dtype))
        return y.flatten(-2)

    def _dense(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        slices = torch.einsum("lokr,klri->olki", self.left.to(dtype), self.right.to(dtype))
        return slices.reshape(self.shape)

    def _inverse(self) -> LinearMap:
        return self.factored().inverse()

    def _pinv(self, rtol: float | None) -> LinearMap:
        return self.factored().pinv(rtol)

    def _detail(self) -> str:
        return f", {self.grid[0]} x {self.grid[1]} slices of rank {self.rank}"
