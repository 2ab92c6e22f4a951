"""Equal blocks on the diagonal, zero elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps.arrays import as_floats, epsilon, noise
from gramian.maps.linear_map import LinearMap


@dataclass(frozen=True, eq=False, repr=False)
class BlockDiagonal(LinearMap):
    """``y`` is each block times its own piece of ``x``; ``blocks`` are (count, out, in)."""

    blocks: Tensor

    tensor_names = ("blocks",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", as_floats(self.blocks, "blocks", 3))
        if not self.blocks.numel():
            raise GramianError(f"blocks have shape {tuple(self.blocks.shape)}, expected no zero")
        super().__post_init__()

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return self.blocks.shape[0]

    @property
    def in_features(self) -> int:
        return self.count * self.blocks.shape[2]

    @property
    def out_features(self) -> int:
        return self.count * self.blocks.shape[1]

    @property
    def T(self) -> BlockDiagonal:
        return BlockDiagonal(self.blocks.transpose(1, 2), tags=self.tags)

    def _apply(self, x: Tensor) -> Tensor:
        pieces = x.reshape(*x.shape[:-1], self.count, self.blocks.shape[2])
        y = torch.einsum("...ki,koi->...ko", pieces, self.blocks.to(x.dtype))
        return y.flatten(-2)

    def _dense(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        count, out, inn = self.blocks.shape
        # Block k of rows and block j of columns: zero unless k = j.
        same = torch.eye(count, dtype=dtype, device=device)
        weight = torch.einsum("koi,kj->koji", self.blocks.to(dtype), same)
        return weight.reshape(count * out, count * inn)

    def _inverse(self) -> BlockDiagonal:
        blocks = self.blocks.double()
        inverse, failed = torch.linalg.inv_ex(blocks)
        # The norm of the whole is the largest of a block.
        norms = [torch.linalg.matrix_norm(m, 1).max() for m in (blocks, inverse)]
        condition = float("inf") if bool(failed.any()) else float(norms[0] * norms[1])
        if not condition * epsilon(self.dtype) < 1:
            raise GramianError(
                f"{self!r} has no inverse: its condition number is {condition:.1e} in a dtype "
                f"of precision {epsilon(self.dtype):.1e}; use pinv(), or regularise first"
            )
        return BlockDiagonal(inverse.to(self.blocks.dtype))

    def _pinv(self, rtol: float | None) -> BlockDiagonal:
        left, values, right = torch.linalg.svd(self.blocks.double(), full_matrices=False)
        cut = (noise(self.dtype, *self.shape) if rtol is None else rtol) * values.max()
        reciprocal = torch.where(values > cut, values.reciprocal(), torch.zeros_like(values))
        blocks = right.transpose(1, 2) * reciprocal[:, None, :] @ left.transpose(1, 2)
        return BlockDiagonal(blocks.to(self.blocks.dtype))

    def _detail(self) -> str:
        return f", {self.count} blocks"
