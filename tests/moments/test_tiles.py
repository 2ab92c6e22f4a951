"""Packed symmetric matrices, and float32 after unit-diagonal scaling."""

from __future__ import annotations

import pytest
import torch

from gramian.errors import GramianError
from gramian.moments.tiles import (
    from_unit,
    pack,
    packed_diagonal,
    packed_size,
    to_unit,
    unit_scale,
    unpack,
)


def scatter(d: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(d + 3, d, generator=generator, dtype=torch.float64)
    product = x.T @ x
    return (product + product.T) / 2


@pytest.mark.parametrize("d", [1, 5, 512, 513, 1100])
def test_exact_round_trip(d: int) -> None:
    matrix = scatter(d)
    packed = pack(matrix)
    assert packed.shape == (packed_size(d),)
    assert torch.equal(unpack(packed, d), matrix)
    assert torch.equal(packed_diagonal(packed, d), matrix.diagonal())


def test_the_order_of_the_documented_layout() -> None:
    d = 514
    matrix = scatter(d)
    tile = 512
    by_hand: list[float] = []
    for top in range(0, d, tile):
        for left in range(0, top + 1, tile):
            for i in range(top, min(top + tile, d)):
                last = i + 1 if left == top else left + tile
                by_hand.extend(matrix[i, left:last].tolist())
    assert pack(matrix).tolist() == by_hand


def test_only_the_lower_triangle_is_read_and_strides_do_not_matter() -> None:
    matrix = scatter(600)
    spoiled = matrix.clone()
    spoiled[torch.triu(torch.ones(600, 600, dtype=torch.bool), 1)] = float("nan")
    assert torch.equal(pack(spoiled), pack(matrix))
    assert torch.equal(pack(matrix.T), pack(matrix))


def test_wrong_shapes() -> None:
    with pytest.raises(GramianError, match=r"got the shape \(2, 3\)"):
        pack(torch.zeros(2, 3))
    with pytest.raises(GramianError, match=r"packed as \(6,\), got the shape \(5,\)"):
        unpack(torch.zeros(5), 3)


def test_unit_scaling_keeps_every_entry_to_its_diagonal() -> None:
    ranges = torch.logspace(-12, 12, 40, dtype=torch.float64)
    matrix = scatter(40) * ranges[:, None] * ranges[None, :]
    scale = unit_scale(matrix.diagonal())
    back = from_unit(to_unit(matrix, scale, scale), scale, scale)
    error = (back - matrix).abs() / scale[:, None] / scale[None, :]
    assert float(error.max()) < 6e-8
    assert torch.allclose(back.diagonal(), matrix.diagonal(), rtol=1e-15, atol=0)


def test_constant_columns_stay_what_they_are() -> None:
    matrix = scatter(4)
    matrix[2, :] = 0.0
    matrix[:, 2] = 0.0
    matrix[3, 3] = -1e-20  # rounding of a constant column with a large mean
    scale = unit_scale(matrix.diagonal())
    assert scale[2] == 1.0
    assert scale[3] == 1.0
    back = from_unit(to_unit(matrix, scale, scale), scale, scale)
    assert torch.equal(back[2], torch.zeros(4, dtype=torch.float64))
    assert torch.isfinite(back).all()
    assert abs(float(back[3, 3]) + 1e-20) < 1e-27


def test_a_scale_of_another_matrix_is_refused() -> None:
    matrix = torch.full((2, 2), 1e60, dtype=torch.float64)
    with pytest.raises(GramianError, match="cannot be stored as float32"):
        to_unit(matrix, torch.ones(2), torch.ones(2))
