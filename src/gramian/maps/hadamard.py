"""The Walsh-Hadamard rotation, stored as a size and applied by the fast transform."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps.involution import Involution
from gramian.maps.tags import Tag

RADIX = 32
"""Order of the matrices of signs that one step multiplies by."""


@dataclass(frozen=True, eq=False, repr=False)
class Hadamard(Involution):
    """``y = H x / sqrt(features)`` with ``H`` the matrix of signs of Sylvester's order.

    ``features`` is a power of two; stores nothing. Orthogonal and symmetric, so it is its own
    inverse. Applied in O(features log features) a row; half precision is summed in float32.
    The matrix is ``scipy.linalg.hadamard(features) / sqrt(features)``.
    """

    inherent = frozenset({Tag.ORTHOGONAL, Tag.SYMMETRIC})

    def _check_size(self) -> None:
        size = self.features
        if size < 1 or size & (size - 1):
            raise GramianError(
                f"features is {size}, expected a power of two; pad to {padded(max(size, 1))} "
                "with Sparse.padding first"
            )

    def _apply(self, x: Tensor) -> Tensor:
        # H_d = H_r (x) H_{d/r}: multiply by H_r across blocks of d/r, then go on inside the blocks
        wide = torch.promote_types(x.dtype, torch.float32)
        y, left = x.to(wide).reshape(-1, self.features), self.features
        while left > 1:
            radix = min(left, RADIX)
            left //= radix
            signs = _signs(radix).to(y)
            if left > 1:
                y = signs @ y.reshape(-1, radix, left)
            else:
                y = y.reshape(-1, radix) @ signs
        return (y.reshape(x.shape) / math.sqrt(self.features)).to(x.dtype)

    def _dense(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        return self._apply(torch.eye(self.features, dtype=dtype, device=device))


def padded(features: int) -> int:
    """The smallest power of two that is not smaller."""
    return 1 << (features - 1).bit_length()


@cache
def _signs(order: int) -> Tensor:
    """Sylvester's matrix of signs: entry (i, j) is -1 to the number of common bits of i and j."""
    signs = torch.ones(1, 1)
    while len(signs) < order:
        signs = torch.cat((torch.cat((signs, signs), 1), torch.cat((signs, -signs), 1)))
    return signs
