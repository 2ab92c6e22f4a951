"""A reordering of the dimensions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps.arrays import as_index
from gramian.maps.linear_map import LinearMap
from gramian.maps.tags import Tag


@dataclass(frozen=True, eq=False, repr=False)
class Permutation(LinearMap):
    """``y = x[..., index]``: dimension ``i`` of the output is dimension ``index[i]`` of the input.

    ``index`` (features,) holds every number from 0 to features - 1 once.
    """

    index: Tensor

    inherent = frozenset({Tag.ORTHOGONAL})
    tensor_names = ("index",)

    def __post_init__(self) -> None:
        index = as_index(self.index, "index")
        object.__setattr__(self, "index", index)
        if not len(index):
            raise GramianError("index is empty, expected one entry or more")
        ordered = index.sort().values
        wrong = torch.nonzero(ordered != torch.arange(len(index), device=index.device)).flatten()
        if len(wrong):
            raise GramianError(
                f"index is no permutation of 0..{len(index) - 1}: sorted, entry {int(wrong[0])} "
                f"is {int(ordered[wrong[0]])}"
            )
        super().__post_init__()

    @property
    def in_features(self) -> int:
        return len(self.index)

    @property
    def out_features(self) -> int:
        return len(self.index)

    @property
    def T(self) -> Permutation:
        return Permutation(self.index.argsort(), tags=self.tags)

    def _apply(self, x: Tensor) -> Tensor:
        return x.index_select(-1, self.index)

    def _dense(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.eye(len(self.index), dtype=dtype, device=device)[self.index]

    def _inverse(self) -> Permutation:
        return self.T

    def _pinv(self, rtol: float | None) -> Permutation:
        return self.T
