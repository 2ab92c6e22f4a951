"""One zoo of maps, for every verb to run through."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from hypothesis import strategies as st
from torch import Tensor

from gramian.maps import (
    Affine,
    Blast,
    BlockDiagonal,
    Chain,
    Dense,
    Diagonal,
    Hadamard,
    Identity,
    IdentityPlus,
    LinearMap,
    LowRank,
    Monarch,
    Permutation,
    Sparse,
    Sum,
    Tag,
)

TOLERANCE = 1e-10


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def well_conditioned(seed: int, out: int, inn: int) -> Tensor:
    """Singular values from 0.5 to 2."""
    left, _, right = torch.linalg.svd(normal(seed, out, inn), full_matrices=False)
    values = torch.linspace(0.5, 2, min(out, inn), dtype=torch.float64)
    return left @ torch.diag(values) @ right


def orthogonal(seed: int, size: int) -> Tensor:
    return torch.linalg.qr(normal(seed, size, size)).Q


def projector(seed: int, size: int, rank: int) -> LowRank:
    basis = torch.linalg.qr(normal(seed, size, rank)).Q
    return LowRank(-basis, basis.T)


def permutation(seed: int, size: int) -> Permutation:
    return Permutation(torch.randperm(size, generator=torch.Generator().manual_seed(seed)))


def scattered(seed: int, out: int, inn: int) -> Sparse:
    """About half of the entries; some rows and columns empty."""
    matrix = normal(seed, out, inn).clamp(min=0)
    rows, columns = matrix.nonzero(as_tuple=True)
    return Sparse(matrix[rows, columns], rows, columns, (out, inn))


def rotation(seed: int, size: int) -> LinearMap:
    """A Hadamard where its size allows one."""
    return permutation(seed, size) if size & (size - 1) else Hadamard(size)


def divisor(seed: int, size: int) -> int:
    """One of the numbers that divide a size."""
    found = [n for n in range(1, size + 1) if size % n == 0]
    return found[seed % len(found)]


def blocks(seed: int, count: int, out: int, inn: int) -> Tensor:
    return torch.stack([well_conditioned(seed + i, out, inn) for i in range(count)])


def monarch(seed: int, size: int) -> Monarch:
    """Square blocks in both factors, so that it has an inverse."""
    outer = divisor(seed, size)
    inner = size // outer
    left, right = blocks(seed, outer, inner, inner), blocks(seed + 99, inner, outer, outer)
    return Monarch(left[..., None], right[:, :, None])


def blast(seed: int, size: int) -> Blast:
    """Of full rank: the two parts of an invertible product in pieces."""
    rows, columns = divisor(seed, size), divisor(seed + 1, size)
    left, right = well_conditioned(seed, size, size), orthogonal(seed + 1, size)
    return Blast(
        left.reshape(rows, -1, size),
        torch.ones(rows, columns, size).double(),
        right.reshape(size, columns, -1).transpose(0, 1),
    )


def random_monarch(seed: int, out: int, inn: int) -> Monarch:
    groups, pieces, rank = divisor(seed, out), divisor(seed + 1, inn), 1 + seed % 2
    return Monarch(
        normal(seed, groups, out // groups, pieces, rank),
        normal(seed + 1, pieces, groups, rank, inn // pieces),
    )


def random_blast(seed: int, out: int, inn: int) -> Blast:
    rows, columns, rank = divisor(seed, out), divisor(seed + 1, inn), 1 + seed % 3
    return Blast(
        normal(seed, rows, out // rows, rank),
        normal(seed + 1, rows, columns, rank),
        normal(seed + 2, columns, rank, inn // columns),
    )


def random_blocks(seed: int, out: int, inn: int) -> BlockDiagonal:
    count = divisor(seed, math.gcd(out, inn))
    return BlockDiagonal(normal(seed, count, out // count, inn // count))


SQUARE: dict[str, Callable[[int, int], LinearMap]] = {
    "identity": lambda s, n: Identity(n),
    "diagonal": lambda s, n: Diagonal(normal(s, n).sign() * (0.5 + normal(s + 1, n).abs())),
    "permutation": permutation,
    "hadamard": rotation,
    "monomial": lambda s, n: Sparse(
        0.5 + normal(s, n).abs(), torch.arange(n), permutation(s, n).index, (n, n)
    ),
    "sparse": lambda s, n: Sparse(
        well_conditioned(s, n, n).T.flatten(),
        torch.arange(n).repeat(n),
        torch.arange(n).repeat_interleave(n),
        (n, n),
    ),
    "dense": lambda s, n: Dense(well_conditioned(s, n, n)),
    "orthogonal": lambda s, n: Dense(orthogonal(s, n), tags={Tag.ORTHOGONAL}),
    "symmetric": lambda s, n: Dense(
        orthogonal(s, n).T @ torch.diag(torch.linspace(1, 3, n).double()) @ orthogonal(s, n),
        tags={Tag.SYMMETRIC},
    ),
    "full rank factors": lambda s, n: LowRank(well_conditioned(s, n, n), orthogonal(s + 1, n)),
    "identity plus": lambda s, n: IdentityPlus(
        LowRank(0.3 * orthogonal(s, n)[:, : (n + 1) // 2], orthogonal(s + 1, n)[: (n + 1) // 2])
    ),
    "identity plus nothing": lambda s, n: IdentityPlus(
        LowRank(torch.zeros(n, 0).double(), torch.zeros(0, n).double())
    ),
    "block diagonal": lambda s, n: BlockDiagonal(
        blocks(s, divisor(s, n), n // divisor(s, n), n // divisor(s, n))
    ),
    "monarch": monarch,
    "blast": blast,
    "sum": lambda s, n: Sum(
        (Diagonal(2 * torch.ones(n).double()), Dense(0.5 * orthogonal(s, n)), permutation(s, n))
    ),
    "chain": lambda s, n: Chain(
        (Dense(well_conditioned(s, n, n)), permutation(s, n), Dense(well_conditioned(s + 1, n, n)))
    ),
    "wide chain": lambda s, n: Chain(
        (Dense(orthogonal(s, n + 2)[:n]), Dense(well_conditioned(s, n + 2, n)))
    ),
    "affine": lambda s, n: Affine(Dense(well_conditioned(s, n, n)), normal(s, n)),
}
"""Invertible maps by (seed, size)."""

SINGULAR: dict[str, Callable[[int, int], LinearMap]] = {
    "zeros on the diagonal": lambda s, n: Diagonal(normal(s, n).clamp(min=0)),
    "no entries": lambda s, n: Sparse(
        torch.zeros(0).double(), torch.zeros(0).long(), torch.zeros(0).long(), (n, n)
    ),
    "no rank": lambda s, n: LowRank(torch.zeros(n, 0).double(), torch.zeros(0, n).double()),
    "zero factors": lambda s, n: LowRank(torch.zeros(n, 2).double(), normal(s, 2, n)),
    "singular block": lambda s, n: BlockDiagonal(
        torch.stack([torch.zeros(divisor(s, n), divisor(s, n)).double()] * (n // divisor(s, n)))
    ),
    "sum of opposites": lambda s, n: Sum((Dense(w := well_conditioned(s, n, n)), Dense(-w))),
    "eraser": lambda s, n: IdentityPlus(projector(s, n, (n + 1) // 2)),
    "tagged eraser": lambda s, n: IdentityPlus(
        projector(s, n, 1), tags={Tag.PROJECTION, Tag.SYMMETRIC}
    ),
    "oblique eraser": lambda s, n: IdentityPlus(
        LowRank(-normal(s, n, 1) / normal(s, 1, n)[0].dot(u := orthogonal(s, n)[0]), u[None]),
        tags={Tag.PROJECTION},
    ),
}
"""Square maps without an inverse."""

RECTANGULAR: dict[str, Callable[[int, int, int], LinearMap]] = {
    "dense": lambda s, o, i: Dense(well_conditioned(s, o, i)),
    "deficient": lambda s, o, i: Dense(normal(s, o, 1) @ normal(s + 1, 1, i)),
    "sparse": scattered,
    "selection": lambda s, o, i: Sparse.selection(normal(s, o, i).argmax(1), i, torch.float64),
    "padding": lambda s, o, i: Chain(
        (
            Sparse.padding(min(o, i), o, torch.float64),
            Sparse.padding(min(o, i), i, torch.float64).T,
        )
    ),
    "low rank": lambda s, o, i: LowRank(normal(s, o, 2), normal(s + 1, 2, i)),
    "rank above size": lambda s, o, i: LowRank(well_conditioned(s, o, 9), orthogonal(s, 9)[:, :i]),
    "block diagonal": random_blocks,
    "monarch": random_monarch,
    "blast": random_blast,
    "sum": lambda s, o, i: Sum((random_blocks(s, o, i), LowRank(normal(s, o, 1), normal(s, 1, i)))),
    "narrow chain": lambda s, o, i: Chain((Dense(normal(s, o, 1)), Dense(normal(s + 1, 1, i)))),
    "turned chain": lambda s, o, i: Chain(
        (permutation(s, o), Dense(well_conditioned(s, o, i)), permutation(s + 1, i))
    ),
    "affine": lambda s, o, i: Affine(LowRank(normal(s, o, 1), normal(s + 1, 1, i)), normal(s, o)),
}
"""Maps of any shape by (seed, out, in)."""

seeds = st.integers(0, 10_000)
sizes = st.integers(1, 8)


@st.composite
def invertible(draw: st.DrawFn, size: int | None = None) -> LinearMap:
    make = SQUARE[draw(st.sampled_from(sorted(SQUARE)))]
    return make(draw(seeds), size or draw(sizes))


@st.composite
def any_map(draw: st.DrawFn, out: int | None = None, inn: int | None = None) -> LinearMap:
    out, inn = out or draw(sizes), inn or draw(sizes)
    square = {**SQUARE, **SINGULAR} if out == inn else {}
    names = [*(f"square {name}" for name in square), *RECTANGULAR]
    name = draw(st.sampled_from(names))
    if name.startswith("square "):
        return square[name.removeprefix("square ")](draw(seeds), out)
    return RECTANGULAR[name](draw(seeds), out, inn)


def bias_of(map: LinearMap) -> Tensor:
    zero = torch.zeros(map.out_features, dtype=torch.float64)
    return map.bias if isinstance(map, Affine) else zero


def dense_of(map: LinearMap) -> Tensor:
    return map.to_dense(torch.float64)


def assert_close(given: Tensor, expected: Tensor, tolerance: float = TOLERANCE) -> None:
    torch.testing.assert_close(given, expected, rtol=tolerance, atol=tolerance)
