"""The features of one place, old and new: chosen, repeated, padded with zeros."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Diagonal, LinearMap


@dataclass(frozen=True, eq=False)
class Axis:
    """``x'_i = x_index[i]``, and zero where ``index[i]`` is -1.

    What reads ``x`` comes to read ``x'`` by giving every copy its share of the old column:
    ``x_j`` is taken for the sum of ``share_i x'_i`` over the copies ``i`` of ``j``. Old features
    without a copy are taken for ``rest x'``, or for zero.
    """

    size: int
    """Old features."""
    index: Tensor
    """(new,) old feature of every new one, or -1."""
    share: Tensor
    """(new,) float64."""
    rest: Tensor | None = None
    """(old features without a copy, new) float64."""

    @classmethod
    def of(cls, index: Sequence[int] | Tensor, size: int, *, place: str = "axis") -> Axis:
        """An axis on which copies have equal shares.

        Raises
        ------
        GramianError : an index that is not one of ``size``, or none at all.
        """
        new = torch.as_tensor(index, dtype=torch.long)
        if not len(new) or int(new.min()) < -1 or int(new.max()) >= size:
            raise GramianError(
                f"{place}: expected the numbers of old features, 0 to {size - 1}, or -1 for zero"
            )
        copies = torch.bincount(new[new >= 0], minlength=size).double()
        share = torch.where(new >= 0, 1 / copies[new.clamp_min(0)].clamp_min(1.0), 1.0)
        return cls(size, new, share)

    def with_map(self, map: LinearMap | None, place: str) -> Axis:
        """The axis with other shares (a `Diagonal` of the new features) or with a rest (any other
        map, from the new features to the old ones that have no copy).

        Raises
        ------
        GramianError : a map of another shape.
        """
        if map is None:
            return self
        if isinstance(map, Diagonal):
            if map.in_features != len(self.index):
                raise GramianError(
                    f"{place}: shares for {map.in_features} of {len(self.index)} features"
                )
            return replace(self, share=map.diagonal.double())
        if map.shape != (len(self.dropped), len(self.index)):
            raise GramianError(
                f"{place}: {map!r} gives {map.out_features} features from {map.in_features}, "
                f"expected the {len(self.dropped)} that go from the {len(self.index)} that stay"
            )
        return replace(self, rest=map.to_dense(torch.float64))

    @property
    def copies(self) -> Tensor:
        """(size,) how often every old feature is there."""
        return torch.bincount(self.index[self.index >= 0], minlength=self.size)

    @property
    def dropped(self) -> Tensor:
        """Old features without a copy, ascending."""
        return torch.nonzero(self.copies == 0).flatten()

    @property
    def uniform(self) -> int:
        """How often every old feature is there; 0 where they differ or one is missing."""
        copies = self.copies
        return int(copies[0]) if bool((copies == copies[0]).all()) else 0

    @property
    def exact(self) -> bool:
        """Whether readers get back what they read."""
        held = self.index >= 0
        sums = torch.zeros(self.size, dtype=torch.float64)
        sums.index_add_(0, self.index[held], self.share[held])
        return bool((sums - 1).abs().max() <= 1e-12)

    @property
    def columns(self) -> Tensor:
        """(new,) the old feature whose readers every new one has: for one that is zero any will
        do, and columns that are not zero let it learn."""
        spare = torch.arange(len(self.index)) % self.size
        return torch.where(self.index >= 0, self.index, spare)

    def take(self, rows: Tensor, dim: int = -1) -> Tensor:
        """``x'`` from ``x`` along one dimension."""
        index = self.index.to(rows.device)
        found = rows.index_select(dim, index.clamp_min(0))
        if bool((index >= 0).all()):
            return found
        shape = [1] * rows.dim()
        shape[dim] = -1
        return found.masked_fill((index < 0).view(shape), 0)

    def read(self, weight: Tensor, dim: int = -1) -> Tensor:
        """The matrix that reads ``x'`` as ``weight`` reads ``x`` along one dimension."""
        old = weight.double().movedim(dim, -1)
        new = old.index_select(-1, self.columns.to(old.device)) * self.share.to(old.device)
        if self.rest is not None:
            new += old.index_select(-1, self.dropped.to(old.device)) @ self.rest.to(old.device)
        return new.movedim(-1, dim).to(weight.dtype)

    def back(self, rows: Tensor) -> Tensor:
        """``x`` as the readers of ``x'`` take it to be, along the last dimension."""
        index, wide = self.index.to(rows.device), rows.double()
        held = index >= 0
        found = wide.new_zeros(*rows.shape[:-1], self.size)
        shared = wide * self.share.to(rows.device)
        found.index_add_(-1, index[held], shared[..., held])
        if self.rest is not None:
            found[..., self.dropped.to(rows.device)] = wide @ self.rest.to(rows.device).T
        return found.to(rows.dtype)


def spread(index: Sequence[int], width: int) -> Tensor:
    """The features of whole heads, head by head."""
    return (torch.as_tensor(index)[:, None] * width + torch.arange(width)).flatten()
