"""What each kind accepts, refuses and promises about its cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gramian.errors import GramianError
from gramian.maps import (
    Affine,
    Blast,
    BlockDiagonal,
    Chain,
    Dense,
    Diagonal,
    Identity,
    IdentityPlus,
    LinearMap,
    LowRank,
    Monarch,
    Permutation,
    Sum,
)

from .zoo import assert_close, normal, orthogonal, permutation, well_conditioned


def test_numpy_in_every_constructor() -> None:
    array = np.arange(6.0).reshape(2, 3)
    frozen = array.copy()
    frozen.flags.writeable = False
    for given in (array, frozen, array[::-1][::-1], array.astype(">f8"), np.asfortranarray(array)):
        assert torch.equal(Dense(given).weight, torch.arange(6.0).double().reshape(2, 3))
    assert Dense(frozen).weight.data_ptr() != frozen.ctypes.data
    assert LowRank(array, array.T).shape == (2, 2)
    assert Diagonal(array[0, ::-1]).diagonal.tolist() == [2.0, 1.0, 0.0]
    assert Permutation(np.array([1, 0], dtype=np.int32)).index.tolist() == [1, 0]
    affine = Affine(Dense(array), array[:, 0])
    assert affine(np.ones(3)).tolist() == [3.0, 15.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dense(torch.ones(3)), r"weight has shape \(3,\), expected 2 dimensions"),
        (lambda: Dense(torch.ones(0, 3)), r"weight has shape \(0, 3\), expected no zero"),
        (lambda: Dense(torch.ones(2, 2).long()), "weight has dtype int64, expected float16"),
        (lambda: Dense(torch.ones(2, 2) * 1j), "weight has dtype complex64"),
        (lambda: Dense([["a"]]), "weight is a list that is no array of numbers"),
        (lambda: Diagonal(torch.ones(2, 2)), "expected 1 dimension$"),
        (lambda: Diagonal(torch.ones(0)), "diagonal is empty"),
        (lambda: Identity(0), "features is 0, expected 1 or more"),
        (lambda: Identity(2.0), "features is 2.0, expected an integer"),
        (lambda: Permutation([0, 2, 2]), "no permutation of 0..2: sorted, entry 1 is 2"),
        (lambda: Permutation([0, -1]), "sorted, entry 0 is -1"),
        (lambda: Permutation(torch.ones(2)), "index has dtype torch.float32, expected integers"),
        (lambda: Permutation(torch.zeros(0).long()), "index is empty"),
        (lambda: LowRank(normal(1, 3, 2), normal(1, 3, 2)), r"\(out, rank\) and \(rank, in\)"),
        (lambda: IdentityPlus(Dense(torch.eye(2))), r"update is a Dense, expected a LowRank"),
        (lambda: IdentityPlus(LowRank(normal(1, 3, 2), normal(1, 2, 4))), "expected a square one"),
        (lambda: Chain(()), "at least one factor"),
        (lambda: Chain((Identity(2), Identity(3))), "cannot follow .* takes 2 features and gets 3"),
        (lambda: Chain((Affine(Identity(2), torch.ones(2)),)), "a Chain cannot hold a Affine"),
        (lambda: Chain((torch.eye(2),)), "a Chain cannot hold a Tensor"),
        (lambda: Affine(Identity(2), torch.ones(3)), "bias has 3 entries, expected 2"),
        (
            lambda: Affine(Affine(Identity(2), torch.ones(2)), torch.ones(2)),
            "expected a linear map",
        ),
        (lambda: BlockDiagonal(torch.ones(2, 2)), "expected 3 dimensions"),
        (lambda: BlockDiagonal(torch.ones(0, 2, 2)), "expected no zero"),
        (lambda: Monarch(normal(1, 2, 3, 2, 1), normal(1, 3, 2, 1, 4)), r"\(K, L, r, in / K\)"),
        (lambda: Monarch(normal(1, 2, 3, 2), normal(1, 2, 2, 1, 4)), "expected 4 dimensions"),
        (lambda: Monarch(normal(1, 2, 3, 2, 0), normal(1, 2, 2, 0, 4)), "expected .L, out / L"),
        (lambda: Blast(normal(1, 2, 3, 4), normal(1, 2, 2, 4), normal(1, 3, 4, 2)), "expected .ro"),
        (lambda: Blast(normal(1, 2, 3, 4), normal(1, 2, 2, 3), normal(1, 2, 3, 2)), "expected .ro"),
        (lambda: Sum(()), "at least one term"),
        (lambda: Sum((Identity(2), Identity(3))), "3 x 3, expected 2 x 2"),
        (lambda: Sum((Affine(Identity(2), torch.ones(2)),)), "a Sum cannot hold a Affine"),
        (lambda: Identity(2) @ Identity(3), "takes 2 features and gets 3"),
        (lambda: Identity(2) @ torch.eye(2), r"@ composes two maps and got a Tensor"),
        (lambda: LowRank(torch.ones(2, 1, device="meta"), torch.ones(1, 2)), "on cpu and meta"),
        (lambda: Identity(2)(torch.ones(2, device="meta")), None),
        (
            lambda: Dense(torch.eye(2))(torch.ones(2, device="meta")),
            "input lies on meta and the map",
        ),
    ],
)
def test_constructors_and_calls_refuse(make: Any, message: str | None) -> None:
    if message is None:
        make()
        return
    with pytest.raises(GramianError, match=message):
        make()


def test_a_zero_on_the_diagonal_is_named() -> None:
    map = Diagonal(torch.tensor([2.0, 0.0, 4.0, 0.0]))
    with pytest.raises(GramianError, match=r"entry 1 is 0 \(2 such of 4\); use pinv\(\)"):
        map.inverse()
    assert map.pinv().to_dense().diagonal().tolist() == [0.5, 0.0, 0.25, 0.0]
    tiny = Diagonal(torch.tensor([1.0, 1e-44]))
    with pytest.raises(GramianError, match="entry 1 is"):
        tiny.inverse()
    assert tiny.pinv().to_dense().diagonal().tolist() == [1.0, 0.0]
    assert Diagonal(torch.tensor([1.0, 0.05])).pinv(0.1).to_dense()[1, 1] == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_singular_matrix_is_refused_to_the_precision_of_its_dtype(dtype: torch.dtype) -> None:
    deficient = normal(1, 20, 19) @ normal(2, 19, 20)
    for weight in (deficient, torch.zeros(3, 3), torch.full((2, 2), torch.nan)):
        with pytest.raises(GramianError, match=r"no inverse: its condition number is .*pinv\(\)"):
            Dense(weight.to(dtype)).inverse()
    left = orthogonal(1, 20)
    hard = left @ torch.diag(torch.logspace(0, -4, 20).double()) @ orthogonal(2, 20)
    inverse = Dense(hard.to(dtype)).inverse().to_dense()
    assert_close(inverse.double() @ hard, torch.eye(20).double(), 1e4 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rank", [1, 3, 40])
def test_an_eraser_is_singular_in_every_dtype(dtype: torch.dtype, rank: int) -> None:
    size = 200
    left, right = normal(1, size, rank), normal(2, rank, size)
    oblique = torch.linalg.solve(right @ left, right)
    eraser = IdentityPlus(LowRank(-left, oblique)).to(dtype=dtype)
    with pytest.raises(GramianError, match="smallest singular value"):
        eraser.inverse()
    pinv = eraser.pinv()
    assert pinv.update.rank <= 2 * rank
    exact = torch.eye(size).double() - left @ oblique
    expected = torch.linalg.pinv(exact, rtol=1e-9)
    gap = torch.linalg.matrix_norm(pinv.to_dense().double() - expected, 2)
    norms = torch.linalg.matrix_norm(left, 2) * torch.linalg.matrix_norm(oblique, 2)
    assert gap < 50 * torch.finfo(dtype).eps * norms**2


def test_thin_maps_never_form_the_square() -> None:
    size = 200_000  # a square matrix of this size holds 320 GB
    map = IdentityPlus(LowRank(normal(1, size, 2) / 1000, normal(2, 2, size) / 1000))
    x = normal(3, 2, size)
    assert_close(map.inverse()(map(x)), x)
    assert_close(map.pinv()(map(x)), x)
    low = map.update
    assert_close(low(low.pinv()(low(x))), low(x))
    wide = map @ map @ low
    assert isinstance(wide, LowRank)
    assert wide.rank == 2


def test_what_products_simplify_to() -> None:
    n = 8
    dense, diagonal, turn = Dense(normal(1, n, n)), Diagonal(normal(2, n)), permutation(3, n)
    low = LowRank(normal(4, n, 2), normal(5, 2, n))
    wide = LowRank(normal(4, n, 3), normal(5, 3, n))
    update = IdentityPlus(LowRank(normal(6, n, 1), normal(7, 1, n)))
    expected: list[tuple[LinearMap, type[LinearMap], int]] = [
        (Identity(n) @ Identity(n), Identity, 0),
        (diagonal @ diagonal, Diagonal, n),
        (turn @ turn, Permutation, n),
        (turn @ dense, Dense, n * n),
        (dense @ turn, Dense, n * n),
        (diagonal @ dense @ diagonal, Dense, n * n),
        (update @ dense @ update, Dense, n * n),
        (dense @ low @ dense, LowRank, 4 * n),
        (wide @ low, LowRank, 4 * n),
        (low @ wide, LowRank, 4 * n),
        (update @ low @ turn @ diagonal, LowRank, 4 * n),
        (update @ update, IdentityPlus, 4 * n),
        (update @ update @ update @ update @ update, Chain, 10 * n),
        (dense @ dense, Chain, 2 * n * n),
        (diagonal @ turn, Chain, 2 * n),
        ((dense @ dense) @ (turn @ dense), Chain, 3 * n * n),
        ((dense @ dense) @ (dense @ low), LowRank, 4 * n),
        (Affine(dense, normal(8, n)) @ turn, Affine, n * n + n),
        (Affine(turn, normal(8, n)) @ Affine(dense, normal(9, n)), Affine, n * n + n),
    ]
    for map, kind, parameters in expected:
        assert type(map) is kind, repr(map)
        assert map.parameters == parameters, repr(map)


def test_chains_flatten_and_keep_their_order() -> None:
    f, g, h = (Dense(normal(seed, 3, 3)) for seed in (1, 2, 3))
    nested = Chain((h, Chain((g, f))))
    assert nested.factors == (h, g, f)
    assert (h @ (g @ f)).factors == ((h @ g) @ f).factors == (h, g, f)  # type: ignore
    assert_close(nested.to_dense(), h.weight @ g.weight @ f.weight)
    assert repr(nested) == "Chain(3 -> 3: Dense @ Dense @ Dense, float64, 27 parameters)"


def test_a_narrow_chain_has_a_thin_pinv() -> None:
    chain = Dense(normal(1, 50, 2)) @ Dense(normal(2, 2, 40))
    pinv = chain.pinv()
    assert isinstance(pinv, LowRank)
    assert pinv.rank == 2
    assert_close(pinv.to_dense(), torch.linalg.pinv(chain.to_dense(), rtol=1e-9))


def test_a_chain_that_narrows_has_no_inverse() -> None:
    chain = Chain((Dense(normal(1, 4, 3)), Dense(normal(2, 3, 4))))
    with pytest.raises(GramianError, match=r"has no inverse: it narrows to 3; use pinv\(\)"):
        chain.inverse()


def test_mixed_dtypes_compose_in_the_wider() -> None:
    wide, narrow = Dense(normal(1, 3, 3)), Diagonal(torch.ones(3))
    assert (wide @ narrow).dtype == (narrow @ wide).dtype == torch.float64
    assert LowRank(torch.ones(3, 1), normal(1, 1, 3)).up.dtype == torch.float64
    assert (LowRank(torch.ones(3, 1), torch.ones(1, 3)) @ wide).dtype == torch.float64
    affine = Affine(Identity(3), torch.ones(3).half())
    assert affine(torch.ones(3).half()).dtype == torch.float16
    assert affine.to_linear().weight.dtype == torch.float16


def test_structured_maps_count_only_what_they_store() -> None:
    x = normal(1, 3, 24)
    monarch = Monarch(normal(1, 4, 6, 4, 1), normal(2, 4, 4, 1, 6))
    assert monarch.parameters == 4 * 4 * (6 + 6)
    assert repr(monarch) == ("Monarch(24 -> 24, 4 x 4 slices of rank 1, float64, 192 parameters)")
    factored = monarch.factored()
    assert [type(f).__name__ for f in factored.factors[1::2]] == ["BlockDiagonal"] * 2
    assert_close(factored(x), monarch(x))
    slices = monarch.to_dense().reshape(6, 4, 4, 6)
    assert torch.linalg.matrix_rank(slices.permute(1, 2, 0, 3)).unique().tolist() == [1]
    blast = Blast(normal(1, 3, 8, 2), normal(2, 3, 4, 2), normal(3, 4, 2, 6))
    assert blast.parameters == 2 * (24 + 24 + 3 * 4)
    block = blast.left[1] @ torch.diag(blast.gains[1, 2]) @ blast.right[2]
    assert_close(blast.to_dense()[8:16, 12:18], block)
    low = Blast(blast.left, torch.ones(3, 4, 2).double(), blast.right)
    assert_close(
        low.to_dense(), blast.left.flatten(0, 1) @ blast.right.transpose(0, 1).flatten(1, 2)
    )
    blocks = BlockDiagonal(normal(1, 3, 8, 8))
    assert blocks.parameters == 3 * 64
    assert_close(blocks.to_dense(), torch.block_diag(*blocks.blocks))
    total = Sum((blocks, Sum((low, LowRank(normal(4, 24, 1), normal(5, 1, 24))))))
    assert [type(term).__name__ for term in total.terms] == ["BlockDiagonal", "Blast", "LowRank"]
    assert total.parameters == 192 + 120 + 48


def test_a_sum_of_symmetric_maps_is_symmetric() -> None:
    total = Sum((Diagonal(normal(1, 3)), Identity(3)))
    assert total.tags == {"symmetric"}
    assert Sum((Dense(normal(1, 3, 3)), Identity(3))).tags == set()


def test_wide_structured_maps_never_form_the_matrix() -> None:
    size = 300_000  # a square matrix of this size holds 720 GB
    x = normal(3, 2, size)
    blocks = BlockDiagonal(well_conditioned(1, 30, 30)[None].repeat(size // 30, 1, 1))
    assert_close(blocks.inverse()(blocks(x)), x)
    assert_close(blocks.pinv()(blocks(x)), x)
    groups, pieces = 500, 600
    left = orthogonal(1, pieces)[None, :, :, None].expand(groups, -1, -1, -1)
    right = orthogonal(2, groups)[None, :, None].expand(pieces, -1, -1, -1)
    monarch = Monarch(left, right)
    assert_close(monarch(x).norm(dim=1), x.norm(dim=1))
    assert_close(monarch.T(monarch(x)), x, 1e-9)
