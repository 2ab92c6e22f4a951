"""The way back through a projection head, from its weight alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, LinearMap
from gramian.moments.moments import float64_rows
from gramian.registry import method


@dataclass(frozen=True, eq=False)
class InvertedHead:
    """The pseudo-inverse of a head, and how far it can be trusted."""

    map: LinearMap
    """(hidden, joint): rows behind the head to rows before it; `Affine` where the head has a
    bias."""
    kept: int
    """Singular values above the cut: dimensions of the joint space that can be brought about."""
    condition: float
    """Largest over smallest of those kept: how much louder noise may become."""

    @property
    def lost(self) -> int:
        """Dimensions before the head that are left at zero, since nothing tells of them."""
        return self.map.out_features - self.kept


@method("invert_head", job="bridge", paper="2305.12716")
def invert_head(weight: Any, *, bias: Any = None, cut: float = 0.0) -> InvertedHead:
    """Rows before a projection head from rows behind it, from weights alone.

    ``h = W^+ (f - b)``, the shortest of the rows that the head brings nearest to ``f``, with the
    Moore-Penrose inverse from which singular values up to ``cut`` times the largest are left out.
    Where texts are at hand, ``ridge`` from joint to hidden rows is better conditioned and knows
    what hidden rows look like.

    Parameters
    ----------
    weight : (joint, hidden), as ``nn.Linear`` stores it: ``f = h W^T + b``. A Conv1D of GPT-2 and a
        bare parameter ``h @ P`` store it transposed.
    bias : (joint,), optional. cut : from 0 (rounding only) to below 1.

    Raises
    ------
    GramianError : not a matrix, NaN or infinity, all zero, another bias, or a cut out of range.
    """
    if not 0 <= cut < 1:
        raise GramianError(f"cut is {cut}, expected a number from 0 to below 1")
    matrix = float64_rows(weight, "weight")
    if not matrix.numel():
        raise GramianError(f"weight of shape {tuple(matrix.shape)}, expected (joint, hidden)")
    u, s, vh = torch.linalg.svd(matrix, full_matrices=False)
    # what rounding in the dtype of the weight leaves of a zero
    dtype = weight.dtype if isinstance(weight, torch.Tensor) else matrix.dtype
    unit = torch.finfo(dtype).eps if dtype.is_floating_point else torch.finfo(torch.float64).eps
    kept = int((s > max(cut, max(matrix.shape) * unit) * s[0]).sum())
    if not kept:
        raise GramianError("the weight is all zero: nothing passes the head")
    inverse = (vh[:kept].T / s[:kept]) @ u[:, :kept].T
    map: LinearMap = Dense(inverse.contiguous())
    if bias is not None:
        shift = float64_rows(torch.as_tensor(bias)[None], "bias")[0]
        if len(shift) != len(matrix):
            raise GramianError(f"bias of {len(shift)} entries, expected {len(matrix)}")
        map = Affine(map, -(inverse @ shift))
    return InvertedHead(map, kept, float(s[0] / s[kept - 1]))
