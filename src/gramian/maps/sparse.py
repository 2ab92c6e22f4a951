"""A matrix of which only some entries are stored: selections, paddings, sparse projections."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps.arrays import as_floats, as_index
from gramian.maps.dense import Dense
from gramian.maps.linear_map import LinearMap
from gramian.maps.tags import Tag


@dataclass(frozen=True, eq=False, repr=False)
class Sparse(LinearMap):
    """``W[rows[i], columns[i]] = values[i]`` and zero elsewhere, ``size`` = (out, in).

    ``values``, ``rows`` and ``columns`` are (entries,); every place is named once at most, in any
    order (they are kept sorted). A selection of coordinates and a padding with zeros are of this
    kind, and apply as an index. Half precision is summed in float32.
    """

    values: Tensor
    rows: Tensor
    columns: Tensor
    size: tuple[int, int]

    tensor_names = ("values", "rows", "columns")

    def __post_init__(self) -> None:
        values = as_floats(self.values, "values", 1)
        rows, columns = as_index(self.rows, "rows"), as_index(self.columns, "columns")
        out, inn = _size(self.size)
        if not len(values) == len(rows) == len(columns):
            raise GramianError(
                f"{len(values)} values, {len(rows)} rows and {len(columns)} columns, expected "
                "one of each for every entry"
            )
        for name, index, bound in (("rows", rows, out), ("columns", columns, inn)):
            if len(index) and (int(index.min()) < 0 or int(index.max()) >= bound):
                raise GramianError(
                    f"{name} run from {int(index.min())} to {int(index.max())}, expected 0 to "
                    f"{bound - 1} for a map of shape {(out, inn)}"
                )
        place = rows * inn + columns
        if bool((place[1:] < place[:-1]).any()):
            place, order = place.sort()
            values, rows, columns = values[order], rows[order], columns[order]
        twice = torch.nonzero(place[1:] == place[:-1]).flatten()
        if len(twice):
            at = int(twice[0])
            raise GramianError(
                f"entry ({int(rows[at])}, {int(columns[at])}) is given twice; add such values up"
            )
        fields = {"values": values, "rows": rows, "columns": columns, "size": (out, inn)}
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        super().__post_init__()

    @classmethod
    def selection(cls, index: Any, features: int, dtype: torch.dtype = torch.float32) -> Sparse:
        """``y = x[..., index]`` for rows of ``features`` coordinates."""
        columns = as_index(index, "index")
        ones = torch.ones(len(columns), dtype=dtype, device=columns.device)
        rows = torch.arange(len(columns), device=columns.device)
        return cls(ones, rows, columns, (len(columns), features))

    @classmethod
    def padding(cls, features: int, wide: int, dtype: torch.dtype = torch.float32) -> Sparse:
        """Rows of ``features`` coordinates with zeros appended up to ``wide``."""
        return cls.selection(torch.arange(features), wide, dtype).T

    @property
    def in_features(self) -> int:
        return self.size[1]

    @property
    def out_features(self) -> int:
        return self.size[0]

    @property
    def entries(self) -> int:
        """How many entries are stored."""
        return len(self.values)

    @property
    def T(self) -> Sparse:
        return Sparse(self.values, self.columns, self.rows, self.size[::-1], tags=self.tags)

    def _apply(self, x: Tensor) -> Tensor:
        wide = torch.promote_types(x.dtype, torch.float32)
        values = self.values.to(wide)
        if self.entries <= max(self.size):
            picked = x.index_select(-1, self.columns).to(wide) * values
            y = torch.zeros(*x.shape[:-1], self.out_features, dtype=wide, device=x.device)
            return y.index_add(-1, self.rows, picked).to(x.dtype)
        matrix = torch.sparse_coo_tensor(
            torch.stack((self.rows, self.columns)),
            values,
            self.size,
            check_invariants=False,
            is_coalesced=True,
        )
        flat = x.to(wide).reshape(-1, self.in_features)
        product: Tensor = torch.sparse.mm(matrix, flat.T)
        return product.T.reshape(*x.shape[:-1], self.out_features).to(x.dtype)

    def _dense(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        zeros = torch.zeros(self.size, dtype=dtype, device=device)
        return zeros.index_put((self.rows, self.columns), self.values.to(dtype))

    def _is_monomial(self) -> bool:
        """Whether no row and no column holds two entries."""
        pairs = ((self.rows, self.out_features), (self.columns, self.in_features))
        return all(int(index.bincount(minlength=size).max()) <= 1 for index, size in pairs)

    def _inverse(self) -> LinearMap:
        if self._is_monomial() and self.entries == self.in_features:
            reciprocal = self.values.reciprocal()
            if bool(reciprocal.isfinite().all() & self.values.isfinite().all()):
                return Sparse(reciprocal, self.columns, self.rows, self.size)
        return Dense(self.to_dense()).inverse()

    def _pinv(self, rtol: float | None) -> LinearMap:
        if not self._is_monomial():
            return Dense(self.to_dense()).pinv(rtol)
        size, reciprocal = self.values.abs(), self.values.reciprocal()
        largest = size.max() if self.entries else 0.0
        kept = (size > (rtol or 0.0) * largest) & reciprocal.isfinite()
        values = torch.where(kept, reciprocal, torch.zeros_like(reciprocal))
        return Sparse(values, self.columns, self.rows, self.size[::-1])

    @classmethod
    def assemble(
        cls,
        shape: tuple[int, int],
        tensors: Mapping[str, Tensor],
        parts: Mapping[str, LinearMap],
        tags: AbstractSet[Tag],
    ) -> Self:
        return cls(**tensors, **parts, size=shape, tags=tags)  # type: ignore[arg-type]

    def _detail(self) -> str:
        return f", {self.entries:,} entries"


def _size(size: Any) -> tuple[int, int]:
    whole = isinstance(size, tuple | list) and len(size) == 2 and all(type(n) is int for n in size)
    if not whole or min(size) < 1:
        raise GramianError(f"size is {size!r}, expected (out, in) of at least 1")
    return size[0], size[1]
