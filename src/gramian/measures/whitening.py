"""Directions of a site in which its scatter is the identity, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures.varying import rows, varying
from gramian.moments import Moments
from gramian.solvers.spectrum import eigh


@dataclass(frozen=True, eq=False)
class Whitening:
    """A basis ``B`` of the directions that vary, with ``B^T scatter B = I``."""

    basis: Tensor
    """(d, rank)."""
    dual: Tensor
    """``scatter @ basis`` (d, rank): inner products of the channels with each direction."""
    cut: float
    """Eigenvalues up to this times the largest count as zero."""

    @property
    def rank(self) -> int:
        """Number of directions."""
        return self.basis.shape[1]

    @classmethod
    def of(cls, moments: Moments, *, cut: float | None = None) -> Whitening:
        """All directions above the cut, of the scatter scaled to unit diagonal.

        The scaling changes nothing in exact arithmetic; with it the cut does not depend on the
        units of the channels. See `significant` for the cut.
        """
        kept = varying(moments)
        scale = moments.variances.where(kept, 1.0).rsqrt().where(kept, 0.0)
        values, vectors, cut = significant(scale[:, None] * moments.scatter * scale, cut)
        roots = values.sqrt()
        unscaled = moments.variances.where(kept, 0.0).sqrt()
        return cls(scale[:, None] * (vectors / roots), unscaled[:, None] * (vectors * roots), cut)

    @classmethod
    def leading(cls, moments: Moments, keep: float, *, cut: float | None = None) -> Whitening:
        """The fewest leading principal directions that hold the share ``keep`` of the variance."""
        kept = varying(moments).to(moments.scatter.dtype)
        values, vectors, cut = significant(kept[:, None] * moments.scatter * kept, cut)
        shares = values.flip(0).cumsum(0) / values.sum()
        # the tolerance lets keep=1 stop at the last direction in spite of rounding
        few = int((shares < keep - 1e-12).sum()) + 1
        values, vectors = values[-few:], vectors[:, -few:]
        roots = values.sqrt()
        return cls(vectors / roots, vectors * roots, cut)


def significant(matrix: Tensor, cut: float | None = None) -> tuple[Tensor, Tensor, float]:
    """Eigenvalues above the cut (r,), ascending, their eigenvectors (d, r), and the cut used.

    The cut is relative to the largest eigenvalue: ``d x machine epsilon``, or the size of the
    most negative eigenvalue where that is larger, which shows how precise the sums are.

    Raises
    ------
    GramianError : a cut outside [0, 1), or an order above 8192.
    """
    if cut is not None and not 0 <= cut < 1:
        raise GramianError(f"cut is {cut:g}, expected 0 <= cut < 1: a share of the top eigenvalue")
    values, vectors = eigh(matrix)
    largest = float(values[-1])
    if largest <= 0:
        return values[:0], vectors[:, :0], 0.0 if cut is None else cut
    precision = max(len(values) * torch.finfo(values.dtype).eps, -float(values[0]) / largest)
    relative = max(precision, 0.0 if cut is None else cut)
    above = values > relative * largest
    return values[above], vectors[:, above], relative


def require_more_rows(x: Moments, ranks: tuple[int, int], what: str) -> None:
    """Refuse moments of so few rows that the answer is 1 whatever the rows are.

    Centred rows span ``n - 1`` dimensions: of two subspaces with ranks ``rx`` and ``ry`` in it,
    ``rx + ry - (n - 1)`` directions coincide by counting alone.
    """
    n = rows(x)
    if min(ranks) > 0 and sum(ranks) > (n - 1) * (1 + 1e-9):
        raise GramianError(
            f"{what}: {n:g} rows for {ranks[0]} and {ranks[1]} dimensions, of which some agree "
            f"perfectly by counting alone; needs more than {sum(ranks)} rows. Collect more text, "
            "keep fewer directions (svcca), or use cka"
        )
