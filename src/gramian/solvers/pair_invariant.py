"""Directions that a change within pairs leaves alone: all spread against that within pairs."""

from __future__ import annotations

import math

import torch

from gramian.errors import GramianError
from gramian.moments import Moments
from gramian.registry import method
from gramian.solvers.discriminant import Directions, inverse_root
from gramian.solvers.spectrum import about, eigh

_EPS = torch.finfo(torch.float64).eps


@method("pair_invariant", job="solve", paper="2501.02376")
def pair_invariant(
    total: Moments, differences: Moments, *, rank: int, ridge: float = 1e-3
) -> Directions:
    """Projection in which the two rows of a pair stay close and different pairs lie apart.

    Solves ``S_t v = l (S_d + g I) v`` for the largest l, where ``S_t`` is the covariance of all
    rows and ``S_d = E[(x - x')(x - x')^T]`` is about zero, so that a shift that all pairs share
    counts as a difference. The closed form of a matching map such as that of an image to its
    edits (2501.02376 learns it by gradient). Compare projected rows by distance or cosine.

    Parameters
    ----------
    total : moments of rows (d,). differences : moments of ``x - x'``, one row per pair.
    rank : how many directions, 1 to d.
    ridge : g as a share of the mean variance of the rows; 0 only where pairs differ everywhere.

    Returns
    -------
    Directions with ``denominator = S_d + g I`` and ``P^T (S_d + g I) P = I``.

    Raises
    ------
    GramianError : diagonal, empty or unequal moments, NaN, a rank or ridge out of range, a
        direction without difference where ridge is 0, or fewer directions that vary than asked.
    """
    if total.is_diagonal or differences.is_diagonal:
        raise GramianError("pair_invariant needs full moments; collect with order='full'")
    if total.d != differences.d:
        raise GramianError(f"rows of width {total.d} and differences of width {differences.d}")
    if total.count <= 0 or differences.count <= 0:
        raise GramianError("pair_invariant needs rows and pairs, and one of its moments is empty")
    if not 1 <= rank <= total.d:
        raise GramianError(f"rank is {rank}, expected 1 to {total.d}")
    if not (ridge >= 0.0 and math.isfinite(ridge)):
        raise GramianError(f"ridge is {ridge}, expected a finite number of at least 0")
    spread = total.scatter / total.count
    within = about(differences, torch.zeros_like(differences.mean)) / differences.count
    if not bool(torch.isfinite(spread).all() and torch.isfinite(within).all()):
        raise GramianError("moments hold NaN or infinity; collect them of finite rows")
    within = (within + within.T) / 2
    within.diagonal().add_(ridge * float(spread.diagonal().mean()))
    root = inverse_root(within)
    if root.shape[1] < total.d:
        # what never differs is the most invariant of all, and must not drop out
        raise GramianError(
            f"pairs do not differ in {total.d - root.shape[1]} of {total.d} directions, to "
            f"rounding, and ridge is {ridge:g}; pass a larger ridge"
        )
    values, vectors = eigh(root.T @ spread @ root)
    values, vectors = values.flip(0), vectors.flip(1)
    varying = int((values > 16 * _EPS * total.d * values[0].clamp_min(0.0)).sum())
    if rank > varying:
        raise GramianError(f"rank is {rank} and rows vary in {varying} directions only")
    return Directions(root @ vectors[:, :rank], values[:rank], total.mean, within)
