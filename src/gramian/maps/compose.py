"""What two neighbouring maps simplify to, where that is cheap."""

from __future__ import annotations

import torch

from gramian.errors import GramianError
from gramian.maps.affine import Affine
from gramian.maps.arrays import together
from gramian.maps.chain import Chain
from gramian.maps.dense import Dense
from gramian.maps.diagonal import Diagonal
from gramian.maps.hadamard import Hadamard
from gramian.maps.identity import Identity
from gramian.maps.identity_plus import IdentityPlus
from gramian.maps.linear_map import LinearMap
from gramian.maps.low_rank import LowRank
from gramian.maps.permutation import Permutation
from gramian.maps.sparse import Sparse
from gramian.maps.tags import product_tags


def compose(left: LinearMap, right: LinearMap) -> LinearMap:
    """``left @ right``: left after right.

    Neighbours merge when the product costs no more than applying one to a few rows of the other
    and stores no more numbers: anything thin (permutation, diagonal, low rank) into a matrix or
    into another thin map. Two dense maps stay a `Chain`.

    Raises
    ------
    GramianError : the sizes do not fit.
    """
    if left.in_features != right.out_features:
        raise GramianError(
            f"{left!r} cannot follow {right!r}: it takes {left.in_features} features and gets "
            f"{right.out_features}"
        )
    if isinstance(right, Affine):
        linear = left.map if isinstance(left, Affine) else left
        return Affine(compose(linear, right.map), left(right.bias))
    if isinstance(left, Affine):
        return Affine(compose(left.map, right), left.bias)
    if isinstance(right, Identity):
        return left
    if isinstance(left, Identity):
        return right
    stack = list(left.factors) if isinstance(left, Chain) else [left]
    for factor in right.factors if isinstance(right, Chain) else (right,):
        stack.append(factor)
        while len(stack) > 1 and (merged := _merge(stack[-2], stack[-1])) is not None:
            stack[-2:] = [merged]
    result = stack[0] if len(stack) == 1 else Chain(tuple(stack))
    return result.with_tags(*product_tags(left.tags, right.tags))


def _merge(left: LinearMap, right: LinearMap) -> LinearMap | None:
    """The product as one map, or None where it is better left as two."""
    if isinstance(left, Identity):
        merged: LinearMap | None = right
    elif isinstance(right, Identity):
        merged = left
    elif isinstance(left, Diagonal) and isinstance(right, Diagonal):
        merged = Diagonal(left.diagonal * right.diagonal)
    elif isinstance(left, Permutation) and isinstance(right, Permutation):
        merged = Permutation(right.index[left.index])
    elif isinstance(left, Hadamard) and isinstance(right, Hadamard):
        merged = Identity(left.features)
    elif isinstance(left, IdentityPlus) and isinstance(right, IdentityPlus):
        merged = _two_updates(left, right)
    elif isinstance(left, LowRank) and isinstance(right, LowRank):
        merged = _two_low_ranks(left, right)
    elif _widens(left, right):
        merged = None
    elif isinstance(right, Dense) and _thin(left):
        merged = Dense(_after(left, right.weight))
    elif isinstance(left, Dense) and _thin(right):
        merged = Dense(_before(left.weight, right))
    elif isinstance(right, LowRank) and right.rank <= right.out_features:
        merged = LowRank(*together(_after(left, right.up), right.down))
    elif isinstance(left, LowRank) and left.rank <= left.in_features:
        merged = LowRank(*together(left.up, _before(left.down, right)))
    else:
        merged = None
    return merged and merged.with_tags(*product_tags(left.tags, right.tags))


def _thin(map: LinearMap) -> bool:
    if isinstance(map, IdentityPlus):
        return map.update.rank < map.in_features
    if isinstance(map, Sparse):
        return map.entries <= max(map.shape)
    return isinstance(map, Diagonal | Permutation | Hadamard)


def _widens(left: LinearMap, right: LinearMap) -> bool:
    """Whether merging a sparse map would write out numbers that it does not store."""
    if isinstance(left, Sparse) and left.out_features > left.in_features:
        return True
    return isinstance(right, Sparse) and right.in_features > right.out_features


def _after(left: LinearMap, weight: torch.Tensor) -> torch.Tensor:
    """left's matrix times the weight: left applied to its columns."""
    return left(weight.T).T


def _before(weight: torch.Tensor, right: LinearMap) -> torch.Tensor:
    """The weight times right's matrix: right's transpose applied to its rows."""
    return right.T(weight)


def _two_low_ranks(left: LowRank, right: LowRank) -> LowRank:
    if left.rank <= right.rank:
        return LowRank(left.up, right.T(left.down))
    return LowRank(left(right.up.T).T, right.down)


def _two_updates(left: IdentityPlus, right: IdentityPlus) -> IdentityPlus | None:
    if left.update.rank + right.update.rank > left.in_features // 2:
        return None
    # (I + U D)(I + V E) = I + [U, (I + U D) V] [D; E]
    up_left, up_right = together(left.update.up, left(right.update.up.T).T)
    down_left, down_right = together(left.update.down, right.update.down)
    update = LowRank(
        torch.cat((up_left, up_right), dim=1), torch.cat((down_left, down_right), dim=0)
    )
    return IdentityPlus(update)
