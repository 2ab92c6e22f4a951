"""Linear factor models from second moments, and which of their cosines mean anything."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures.cosine import _pairs
from gramian.moments import Moments
from gramian.registry import method
from gramian.solvers.spectrum import eigh

PENALTIES = ("product", "separate")


@dataclass(frozen=True, eq=False)
class ItemFactors:
    """Factors of a linear model ``X ~ X A B^T`` of the columns (items) of ``X``."""

    a: Tensor
    """(items, rank): a row of ``X`` times this is its factor."""
    b: Tensor
    """(items, rank): the factors of the items."""
    penalty: str
    """``"product"``: only ``A B^T`` is determined; ``"separate"``: the factors are, up to a
    rotation, which changes no cosine."""

    @property
    def predictor(self) -> Tensor:
        """``A B^T`` (items, items)."""
        return self.a @ self.b.T

    def rescaled(self, scale: Tensor) -> ItemFactors:
        """``A D`` and ``B D^-1``: the same predictions and, for ``"product"``, the same loss.

        Raises
        ------
        GramianError : not (rank,) finite numbers other than zero.
        """
        d = torch.as_tensor(scale, dtype=torch.float64)
        if d.shape != (self.a.shape[1],) or not bool((torch.isfinite(d) & (d != 0)).all()):
            raise GramianError(
                f"scale of shape {tuple(d.shape)}, expected ({self.a.shape[1]},) finite numbers "
                "other than zero"
            )
        return ItemFactors(self.a * d, self.b / d, self.penalty)

    def item_cosine(self) -> Tensor:
        """Cosines between the factors of the items, (items, items); 0 with a factor of zeros."""
        return _cosine(self.b @ self.b.T)

    def data_cosine(self, moments: Moments) -> Tensor:
        """Cosines between the columns of ``X A B^T``, from ``X^T X``: the same whatever the scale.

        Raises
        ------
        GramianError : diagonal moments or of another width.
        """
        if moments.is_diagonal or moments.d != len(self.b):
            raise GramianError(f"{moments!r}, expected full moments of {len(self.b)} items")
        predictor = self.predictor
        gram = predictor.T @ moments.raw() @ predictor
        return _cosine((gram + gram.T) / 2)


@method("item_factors", job="inspect", paper="2403.05440")
def item_factors(
    moments: Moments, rank: int, *, penalty: str = "product", strength: float = 0.0
) -> ItemFactors:
    """Linear factor model of items from their second moments, for either of two penalties.

    With ``X^T X = V S^2 V^T``: ``product`` minimises ``|X - X A B^T|^2 + l |A B^T|^2``, whose
    ``A B^T = V diag(1 / (1 + l / s^2)) V^T`` is split evenly here; ``separate`` minimises
    ``|X - X A B^T|^2 + l (|X A|^2 + |B|^2)`` with ``A = V diag(sqrt((1 - l / s)_+ / s))`` and
    ``B = V diag(sqrt(s (1 - l / s)_+))``.

    moments : full, of rows over items; they are taken about zero. rank : 1 to the items.
    strength : ``l``, in units of ``X^T X`` for ``product`` and of ``s`` for ``separate``.

    Raises
    ------
    GramianError : diagonal moments, no rows, a rank or strength out of range, an unknown penalty.
    """
    if penalty not in PENALTIES:
        raise GramianError(f"penalty is {penalty!r}, expected one of {', '.join(PENALTIES)}")
    if moments.is_diagonal or moments.count <= 0:
        raise GramianError(f"{moments!r}, expected full moments of at least one row")
    if not 1 <= rank <= moments.d:
        raise GramianError(f"rank is {rank}, expected 1 to {moments.d}")
    if not 0 <= strength < float("inf"):
        raise GramianError(f"strength is {strength}, expected a finite number of at least 0")
    squares, vectors = _spectrum(moments, rank)
    there = squares > 0
    s2 = squares.where(there, 1.0)
    if penalty == "product":
        root = (s2 / (s2 + strength)).sqrt().where(there, 0.0)
        return ItemFactors(vectors * root, vectors * root, penalty)
    s = s2.sqrt()
    left = (1.0 - strength / s).clamp_min(0.0).where(there, 0.0)
    return ItemFactors(vectors * (left / s).sqrt(), vectors * (left * s).sqrt(), penalty)


@dataclass(frozen=True)
class CosineCaution:
    """Rank correlations (Spearman) between cosines of the same pairs of items."""

    plain_scaled: float
    """Of one model of the ``product`` penalty in two scales, factors ``V`` and ``V diag(s)``,
    which predict the same. Below 1, the cosine is a matter of convention."""
    plain_data: float
    scaled_data: float
    """With the cosines between predicted columns, which no scale changes."""
    largest_plain: float
    """The largest of the plain cosines between two items, in size; 0 at full rank, where they say
    nothing at all."""
    items: int
    """That vary; the others are left out."""
    pairs: int


@method("cosine_caution", job="inspect", paper="2403.05440")
def cosine_caution(
    moments: Moments, rank: int, *, strength: float = 0.0, pairs: int = 100_000, seed: int = 0
) -> CosineCaution:
    """Whether the cosine between the items of a linear factor model means anything.

    Compares two scales of one model that predict the same, and both with the cosine in the space
    of the data, ``ItemFactors.data_cosine``, which is the one to use. See `cosine_stability` for
    rows of vectors of any model.

    moments, rank, strength : as `item_factors`. pairs : at most so many, drawn with ``seed``.

    Raises
    ------
    GramianError : as `item_factors`, or fewer than three items that are not always zero.
    """
    model = item_factors(moments, rank, strength=strength)
    squares, vectors = _spectrum(moments, rank)
    alive = (moments.raw().diagonal() > 0).nonzero()[:, 0]
    if len(alive) < 3:
        raise GramianError(f"{len(alive)} items that are not always zero, expected at least 3")
    i, j = _pairs(len(alive), pairs, seed)
    i, j = alive[i], alive[j]
    scaled = vectors * squares.sqrt()
    spaces = [_cosine(vectors @ vectors.T), _cosine(scaled @ scaled.T), model.data_cosine(moments)]
    found = [space[i, j].numpy() for space in spaces]
    ranks = np.stack([rankdata(cosines) for cosines in found])
    with np.errstate(invalid="ignore", divide="ignore"):
        related = np.corrcoef(ranks)
    return CosineCaution(
        float(related[0, 1]),
        float(related[0, 2]),
        float(related[1, 2]),
        float(np.abs(found[0]).max()),
        len(alive),
        len(i),
    )


def _spectrum(moments: Moments, rank: int) -> tuple[Tensor, Tensor]:
    """The leading eigenvalues of ``X^T X``, those of rounding as zero, and eigenvectors."""
    values, vectors = eigh(moments.raw())
    floor = moments.d * torch.finfo(values.dtype).eps * float(values[-1])
    values = values.where(values > floor, 0.0)
    return values.flip(0)[:rank], vectors.flip(1)[:, :rank]


def _cosine(gram: Tensor) -> Tensor:
    squares = gram.diagonal()
    floor = len(gram) * torch.finfo(gram.dtype).eps * float(squares.max())
    scale = squares.clamp_min(floor or 1.0).rsqrt().where(squares > floor, 0.0)
    return scale[:, None] * gram * scale
