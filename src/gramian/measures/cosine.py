"""Cosines between rows: their average, and how far they depend on the coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import Moments
from gramian.moments.moments import float64_rows
from gramian.registry import method
from gramian.solvers.spectrum import eigh


def unit_rows(rows: Any, *, centred: bool = False) -> Tensor:
    """Rows (n, d) over their lengths, in float64; rows of zeros are left out.

    centred : subtract the mean of all rows first.

    Raises
    ------
    GramianError : not of shape (n, d), or NaN or infinity in a row.
    """
    x = float64_rows(rows, "rows")
    if centred and len(x):
        x = x - x.mean(0)
        x = x - x.mean(0)
    # Over the largest entry first: the squares of float64 rows may overflow or vanish.
    peak = x.abs().amax(1, keepdim=True) if x.shape[1] else x.new_zeros(len(x), 1)
    x = x[peak[:, 0] > 0] / peak[peak[:, 0] > 0]
    length: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return x / length


@method("average_cosine", job="inspect", paper="1909.00512")
def average_cosine(rows: Tensor | Moments) -> float:
    """Average cosine over all pairs of different rows, exactly and without forming a pair.

    Parameters
    ----------
    rows : (n, d) in any float dtype, rows of zeros left out; or the moments (full or diagonal) of
        rows of unit length, ``Moments.from_rows(unit_rows(x))``, which add over batches. The
        moments of rows as they are do not hold this figure: see `mean_share`.

    Raises
    ------
    GramianError : fewer than two rows that are not zero, weighted rows, NaN, or moments of rows
        that are not of unit length.
    """
    if isinstance(rows, Moments):
        n = rows.count
        if rows.count2 != n:
            raise GramianError("the average cosine of weighted rows is not defined; weigh none")
        norm = n * float(rows.mean.square().sum())
        if abs(norm + rows.trace - n) > 1e-6 * n:
            raise GramianError(
                f"moments of rows whose mean square length is {(norm + rows.trace) / n:.4g}, "
                "expected 1: the average cosine needs Moments.from_rows(unit_rows(x)), or the "
                "rows themselves; moments of the rows as they are give mean_share"
            )
        squared_sum = n * norm
    else:
        units = unit_rows(rows)
        n = float(len(units))
        squared_sum = float(units.sum(0).square().sum())
    if n < 2:
        raise GramianError(f"average cosine of {n:g} rows that are not zero, expected at least 2")
    # (|sum u|^2 - n) / (n (n - 1))
    return (squared_sum - n) / (n * (n - 1.0))


@dataclass(frozen=True)
class CosineStability:
    """Rank correlations (Spearman) between cosines of the same pairs in three coordinates."""

    raw_centred: float
    """Rows as they are, and about the mean."""
    raw_whitened: float
    centred_whitened: float
    pairs: int
    """Pairs of rows that were compared."""
    rank: int
    """Directions that whitening keeps; the others vary by rounding only."""


@method("cosine_stability", job="inspect", paper="2403.05440")
def cosine_stability(
    rows: Any,
    moments: Moments | None = None,
    *,
    ridge: float = 0.0,
    pairs: int = 100_000,
    seed: int = 0,
) -> CosineStability:
    """Whether "which rows are similar" survives a change of coordinates.

    A factor model leaves the scale of its factors open, and with it every cosine. Cosines of the
    same pairs are ranked among the rows as they are, about the mean, and whitened by ``C^-1/2``.
    Where the three disagree, the ranking is a matter of coordinates.

    Parameters
    ----------
    rows : (n, d) to compare; rows of zeros (in any of the coordinates) are left out.
    moments : full moments that give the mean and the covariance C, by default those of ``rows``.
    ridge : added to C, times its mean eigenvalue.
    pairs : at most this many pairs, drawn with ``seed`` when there are more.

    Raises
    ------
    GramianError : fewer than 3 rows, shapes that do not fit, or no more rows behind C than
        directions: then whitening makes all rows equally far from each other, unless ``ridge``.
    """
    x = float64_rows(rows, "rows")
    m = Moments.from_rows(x, quartic=False) if moments is None else moments
    if m.is_diagonal or m.d != x.shape[1]:
        raise GramianError(f"rows of width {x.shape[1]} and {m!r}, expected full moments of them")
    centred = x - m.mean
    values, vectors = eigh(m.covariance(0))
    kept = values > m.d * torch.finfo(values.dtype).eps * values[-1]
    rank = int(kept.sum())
    if rank >= m.count - 1 and ridge <= 0:
        raise GramianError(
            f"{m.count:g} rows span {rank} directions: whitening by them makes all rows equally "
            "far apart; give moments of more rows, or ridge > 0"
        )
    values, vectors = values[kept], vectors[:, kept]
    # x C^-1/2, in the eigenbasis: cosines are those of the symmetric root
    scale = (values + ridge * values.sum() / m.d).rsqrt()
    spaces = [x, centred, (centred @ vectors) * scale]
    alive = torch.stack([(space != 0).any(1) for space in spaces]).all(0)
    units = [unit_rows(space[alive]) for space in spaces]
    n = len(units[0])
    if n < 3:
        raise GramianError(f"cosine stability of {n} rows that are not zero, expected at least 3")
    i, j = _pairs(n, pairs, seed)
    ranks = np.stack([rankdata((u[i] * u[j]).sum(1).numpy()) for u in units])
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.corrcoef(ranks)
    return CosineStability(float(found[0, 1]), float(found[0, 2]), float(found[1, 2]), len(i), rank)


def _pairs(n: int, most: int, seed: int) -> tuple[Tensor, Tensor]:
    """All pairs i < j, or ``most`` of them without repetition."""
    if most < 2:
        raise GramianError(f"pairs is {most}, expected at least 2")
    total = n * (n - 1) // 2
    if total <= most:
        index = torch.triu_indices(n, n, 1)
        return index[0], index[1]
    drawn = np.random.default_rng(seed).choice(total, size=most, replace=False, shuffle=False)
    # The pair at place k of the order (0,1), (0,2), (1,2), (0,3) ...: j is the largest integer
    # with j (j - 1) / 2 <= k.
    j = np.floor((1 + np.sqrt(1.0 + 8.0 * drawn)) / 2).astype(np.int64)
    j -= j * (j - 1) // 2 > drawn
    j += (j + 1) * j // 2 <= drawn
    return torch.from_numpy(drawn - j * (j - 1) // 2), torch.from_numpy(j)
