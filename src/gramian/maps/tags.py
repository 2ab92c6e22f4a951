"""Facts about a map, declared by whoever made it, that choose the cheap path."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import torch
from torch import Tensor

from gramian.errors import GramianError


class Tag(StrEnum):
    """A fact about the matrix of a square map."""

    ORTHOGONAL = "orthogonal"
    """W Wᵀ = I: the inverse is the transpose."""
    SYMMETRIC = "symmetric"
    """W = Wᵀ."""
    PROJECTION = "projection"
    """W W = W, orthogonal or oblique."""


def as_tags(values: Iterable[Tag | str]) -> frozenset[Tag]:
    """Tags from tags or their names.

    Raises
    ------
    GramianError : a name that is not a tag.
    """
    names = (values,) if isinstance(values, str) else tuple(values)
    try:
        return frozenset(Tag(name) for name in names)
    except ValueError:
        known = ", ".join(tag.value for tag in Tag)
        raise GramianError(
            f"unknown tag in {list(map(str, names))}; the tags are {known}"
        ) from None


def pinv_tags(tags: Iterable[Tag]) -> frozenset[Tag]:
    """The facts that pass to the pseudo-inverse; an oblique projection's is no projection."""
    kept = frozenset(tags)
    return kept if Tag.SYMMETRIC in kept else kept - {Tag.PROJECTION}


def product_tags(left: Iterable[Tag], right: Iterable[Tag]) -> frozenset[Tag]:
    """The facts that pass from two maps to their product."""
    return frozenset(left) & frozenset(right) & {Tag.ORTHOGONAL}


def defect(weight: Tensor, tag: Tag) -> float:
    """How far a matrix is from a fact: the Frobenius norm of what should vanish.

    Relative to the norm of the identity for orthogonal, to that of the matrix otherwise.
    """
    if weight.shape[0] != weight.shape[1]:
        return float("inf")
    scale = weight.norm()
    if tag is Tag.ORTHOGONAL:
        eye = torch.eye(weight.shape[0], dtype=weight.dtype, device=weight.device)
        gap, scale = weight @ weight.T - eye, eye.norm()
    elif tag is Tag.SYMMETRIC:
        gap = weight - weight.T
    else:
        gap = weight @ weight - weight
    return float(gap.norm() / scale) if scale > 0 else float(gap.norm())
