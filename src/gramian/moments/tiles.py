"""Symmetric matrices as lower-triangular tiles, and in float32 after unit-diagonal scaling.

The matrix is cut into tiles of 512 x 512 (the last row and column of tiles may be smaller).
Tiles on and below the diagonal follow each other row of tiles by row of tiles; a tile below the
diagonal is stored whole, row by row; of a tile on the diagonal only its lower triangle is, row
by row. A matrix of order d thus takes exactly d (d + 1) / 2 numbers, and all but a thin band of
it moves in whole blocks.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments.place import like

TILE = 512


def is_finite(tensor: Tensor) -> bool:
    """Whether no number in the tensor is NaN or infinite, in one pass without a copy."""
    if tensor.numel() == 0 or not tensor.is_floating_point():
        return True
    low, high = torch.aminmax(tensor)  # NaN passes through both
    return math.isfinite(float(low)) and math.isfinite(float(high))


def packed_size(d: int) -> int:
    """Numbers stored for a symmetric matrix of order ``d``: d (d + 1) / 2."""
    return d * (d + 1) // 2


def _tiles(d: int) -> Iterator[tuple[slice, slice, int, int]]:
    """Row range, column range, first and last place in the packed vector, of each tile."""
    start = 0
    for top in range(0, d, TILE):
        height = min(TILE, d - top)
        for left in range(0, top + 1, TILE):
            size = packed_size(height) if left == top else height * TILE
            columns = slice(left, left + (height if left == top else TILE))
            yield slice(top, top + height), columns, start, start + size
            start += size


@functools.lru_cache(maxsize=4)
def _lower(size: int) -> Tensor:
    """Places, in a tile, of its lower triangle row by row."""
    pairs = torch.tril_indices(size, size)
    return pairs[0] * size + pairs[1]


@functools.lru_cache(maxsize=4)
def _mirrored(size: int) -> Tensor:
    """Place, in a lower triangle row by row, of each entry of a symmetric tile."""
    i, j = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    low, high = torch.minimum(i, j), torch.maximum(i, j)
    return high * (high + 1) // 2 + low


def pack(matrix: Tensor) -> Tensor:
    """The lower-triangular tiles of a symmetric matrix, exactly.

    Args:
        matrix: (d, d); only its lower triangle is read.

    Returns:
        (d (d + 1) / 2,), same dtype.

    Raises:
        GramianError: the matrix is not square.
    """
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise GramianError(f"a symmetric matrix is (d, d), got the shape {tuple(matrix.shape)}")
    d = matrix.shape[0]
    packed = like(matrix, (packed_size(d),))
    for rows, columns, start, stop in _tiles(d):
        tile = matrix[rows, columns]
        if rows == columns:
            places = _lower(len(tile)).to(tile.device)
            packed[start:stop] = tile.reshape(-1).index_select(0, places)
        else:
            packed[start:stop].view(tile.shape).copy_(tile)
    return packed


def unpack(packed: Tensor, d: int) -> Tensor:
    """The full symmetric matrix back from its lower-triangular tiles, exactly.

    Args:
        packed: (d (d + 1) / 2,), as :func:`pack` returns it.
        d: the order of the matrix.

    Returns:
        (d, d), same dtype.

    Raises:
        GramianError: the vector has another length.
    """
    if packed.shape != (packed_size(d),):
        raise GramianError(
            f"a symmetric matrix of order {d} is packed as ({packed_size(d)},), "
            f"got the shape {tuple(packed.shape)}"
        )
    matrix = packed.new_empty((d, d))
    for rows, columns, start, stop in _tiles(d):
        if rows == columns:
            places = _mirrored(rows.stop - rows.start).to(packed.device)
            tile = packed[start:stop].index_select(0, places.view(-1))
            matrix[rows, columns] = tile.view(places.shape)
        else:
            tile = packed[start:stop].view(rows.stop - rows.start, TILE)
            matrix[rows, columns] = tile
            matrix[columns, rows] = tile.T
    return matrix


def packed_diagonal(packed: Tensor, d: int) -> Tensor:
    """The diagonal (d,) of a packed symmetric matrix, without unpacking it."""
    steps = torch.arange(min(TILE, d))
    within = steps * (steps + 3) // 2  # place of (k, k) in a row-by-row lower triangle
    places = [
        start + within[: rows.stop - rows.start]
        for rows, columns, start, _ in _tiles(d)
        if rows == columns
    ]
    return packed[torch.cat(places)] if places else packed[:0]


def unit_scale(diagonal: Tensor) -> Tensor:
    """What rows and columns are divided by for a unit diagonal: its root, or 1 where that is 0.

    A constant column has a zero diagonal (or, by rounding, one just below): it is left alone.
    """
    diagonal = diagonal.to(torch.float64)
    return torch.where(diagonal > 0, diagonal.clamp(min=0).sqrt(), torch.ones_like(diagonal))


def to_unit(matrix: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The matrix (m, n) as float32 after dividing row i by ``left[i]``, column j by ``right[j]``.

    For scales from :func:`unit_scale` every entry of a (cross) scatter then lies in [-1, 1], so
    float32 keeps each to 6e-8 of the root of its two diagonal entries, whatever their ranges.

    Raises:
        GramianError: an entry does not fit float32: the scales are of another matrix.
    """
    scaled = (matrix / left[:, None] / right[None, :]).to(torch.float32)
    if not is_finite(scaled):
        raise GramianError(
            "a scatter holds a number that is not finite, or far above what its diagonal allows, "
            "and cannot be stored as float32; use storage='float64' after finding out why"
        )
    return scaled


def from_unit(matrix: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The inverse of :func:`to_unit`, in float64."""
    return matrix.to(torch.float64) * left[:, None] * right[None, :]
