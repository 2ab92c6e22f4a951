"""How fully a site uses its dimensions: measures of the shape of a spectrum, and their panel.

A spectrum is that of the covariance, ``p_k = lambda_k / sum(lambda)`` in descending order; none
of these measures sees the scale of the rows.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures.effective_rank import (
    effective_rank,
    participation_ratio,
    spectrum_of,
    stable_rank,
)
from gramian.measures.nuclear import matrix_entropy, nuclear_norm, rankme
from gramian.moments import Moments
from gramian.registry import method


@method("pc_ratio", job="inspect", paper="2212.08172")
def pc_ratio(moments: Moments | Tensor) -> float:
    """Smallest over largest eigenvalue of the covariance: 1 when isotropic, 0 when singular.

    Of moments (full) or of eigenvalues (d,). nan when nothing varies.
    """
    values = floored(spectrum_of(moments))
    largest = float(values.max()) if len(values) else 0.0
    return float(values.min()) / largest if largest > 0 else math.nan


@method("eee", job="inspect", paper="2212.08172")
def eee(moments: Moments | Tensor) -> float:
    """Eigenvalue early enrichment: the area between the cumulative spectrum and the diagonal.

    0 when isotropic, ``(1 - 1/d)^2`` when one direction holds everything; d = 1 gives 0. Of
    moments (full) or of eigenvalues (d,). nan when nothing varies.
    """
    values = spectrum_of(moments).sort(descending=True).values
    d, total = len(values), float(values.sum())
    if total <= 0:
        return math.nan
    # Trapezoids between c_k = p_1 + ... + p_k and k/d, k = 1 .. d, over d/2:
    # EEE = (2/d) sum_k (c_k - k/d) - (p_1 - 1/d)/d
    above = (values / total).cumsum(0) - torch.arange(1, d + 1, dtype=torch.float64) / d
    return 2.0 / d * float(above.sum()) - (float(values[0]) / total - 1.0 / d) / d


@method("iso_score", job="inspect", paper="2108.07344")
def iso_score(moments: Moments | Tensor, *, debiased: bool = False) -> float:
    """IsoScore, ``(participation ratio - 1) / (d - 1)``: 1 when isotropic, 0 when one direction.

    Of moments without an eigendecomposition, or of eigenvalues (d,). With ``debiased`` the
    participation ratio is that of `debiased_participation_ratio`. nan when d = 1 or nothing
    varies.
    """
    d = moments.d if isinstance(moments, Moments) else len(moments)
    if debiased:
        if not isinstance(moments, Moments):
            raise GramianError("a debiased IsoScore needs moments, got eigenvalues")
        ratio = debiased_participation_ratio(moments)
    else:
        ratio = participation_ratio(moments) or math.nan
    return (ratio - 1.0) / (d - 1.0) if d > 1 else math.nan


def debiased_participation_ratio(moments: Moments) -> float:
    """Participation ratio from unbiased estimates of ``(tr S)^2`` and ``tr S^2``.

    Few rows make the plain ratio small: at most n - 1. The estimates (Himeno & Yamada 2014,
    J. Multivariate Analysis 130) hold for independent rows of any distribution; the second is the
    debiased HSIC of the rows with themselves. Their ratio may leave [1, d] by chance and is nan
    where the estimate of ``tr S^2`` is not positive.

    Raises
    ------
    GramianError : fewer than 4 rows, weighted rows, diagonal moments, or moments without sums of
        fourth order.
    """
    if moments.is_diagonal or moments.quartic is None:
        raise GramianError(
            "debiasing needs full moments with their sums of fourth order (quartic); these were "
            "collected or mapped without"
        )
    n = moments.count
    if n < 4 or moments.count2 != n:
        raise GramianError(
            f"debiasing needs at least 4 rows of equal weight, got {n:g} rows"
            f"{'' if moments.count2 == n else ' with weights'}"
        )
    # With scatter C, T = tr C, t = sum |x - mean|^4:
    # n (n-3) tr S^2  = |C|^2 + T^2/((n-1)(n-2)) - n t/(n-2)
    # n (n-3) (tr S)^2 = 2 |C|^2/((n-1)(n-2)) + (n^2-3n+1) T^2/((n-1)(n-2)) - n t/(n-2)
    squares, trace = float(moments.scatter.square().sum()), moments.trace
    pairs, fourth = (n - 1) * (n - 2), n * moments.quartic.square / (n - 2)
    below = squares + trace * trace / pairs - fourth
    above = (2 * squares + (n * n - 3 * n + 1) * trace * trace) / pairs - fourth
    return above / below if below > 0 else math.nan


@method("gaussian_kl", job="inspect", paper="2212.08172")
def gaussian_kl(moments: Moments | Tensor) -> float:
    """KL divergence in nats from ``N(0, I)`` of a normal with this covariance, scaled to trace d.

    0 when isotropic, infinite when singular. Of moments (full) or of eigenvalues (d,). nan when
    nothing varies.
    """
    values = floored(spectrum_of(moments))
    total = float(values.sum())
    if total <= 0:
        return math.nan
    # 1/2 (tr S - d - ln det S) with tr S = d
    scaled = values * (len(values) / total)
    return -0.5 * float(scaled.log().sum())


def mean_share(moments: Moments) -> float:
    """Share of the rows' second moment that their mean holds, ``|mean|^2 / E|x|^2``, 0 to 1.

    Equal to the average of ``x_i . x_j`` over all pairs (i = j among them) over that of
    ``|x|^2``: near 1, every cosine is near 1. Full or diagonal moments; nan of zeros.
    """
    centre = moments.count * float(moments.mean.square().sum())
    total = centre + moments.trace
    return centre / total if total > 0 else math.nan


def floored(values: Tensor) -> Tensor:
    """Eigenvalues (d,) with those below ``d eps`` times the largest, which are rounding, zero."""
    if len(values) == 0:
        return values
    floor = len(values) * torch.finfo(torch.float64).eps * float(values.max())
    return torch.where(values > floor, values, torch.zeros_like(values))


@dataclass(frozen=True)
class Spread:
    """The spread panel of one site; see the function of each name."""

    rows: float
    width: int
    effective_rank: float
    participation_ratio: float
    participation_ratio_debiased: float | None
    """None without sums of fourth order, or with fewer than 4 rows."""
    stable_rank: float
    rankme: float
    """Of the rows about their mean."""
    pc_ratio: float
    eee: float
    iso_score: float
    gaussian_kl: float
    matrix_entropy: float
    """``ln(effective_rank) / ln(width)``."""
    nuclear_norm: float
    """Of the rows about their mean over their Frobenius norm, from 1 to sqrt(width)."""
    mean_share: float
    notes: tuple[str, ...]
    """What to know before reading the figures: too few rows, nothing that varies."""

    def to_json(self) -> dict[str, Any]:
        """All figures; those that are not finite as None."""
        document = asdict(self)
        document["notes"] = list(self.notes)
        return {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in document.items()
        }


def spread(moments: Moments, values: Tensor | None = None) -> Spread:
    """Every measure of spread of a site, from one eigendecomposition of its covariance.

    Parameters
    ----------
    moments : full moments of width d.
    values : (d,) the eigenvalues of their scatter in any order, where they are known already.

    Raises
    ------
    GramianError : diagonal moments, no rows, ``values`` of another shape, or an order above 8192.
    """
    if moments.is_diagonal:
        raise GramianError(
            "spread needs full moments; only the diagonal is kept, collect with order='full'"
        )
    if moments.count <= 0:
        raise GramianError("spread of no rows; collect more text")
    values = spectrum_of(moments if values is None else values)
    if len(values) != moments.d:
        raise GramianError(f"{len(values)} eigenvalues for moments of width {moments.d}")
    debiased = None
    if moments.quartic is not None and moments.count >= 4 and moments.count2 == moments.count:
        debiased = debiased_participation_ratio(moments)
    total = float(values.sum())
    return Spread(
        rows=moments.count,
        width=moments.d,
        effective_rank=effective_rank(values),
        participation_ratio=participation_ratio(values),
        participation_ratio_debiased=debiased,
        stable_rank=stable_rank(values),
        rankme=rankme(values),
        pc_ratio=pc_ratio(values),
        eee=eee(values),
        iso_score=iso_score(values),
        gaussian_kl=gaussian_kl(values),
        matrix_entropy=matrix_entropy(values),
        nuclear_norm=nuclear_norm(values / total) if total > 0 else math.nan,
        mean_share=mean_share(moments),
        notes=_notes(moments, total),
    )


def _notes(moments: Moments, total: float) -> tuple[str, ...]:
    notes = []
    if total <= 0:
        notes.append("nothing varies at this site")
    if moments.count <= moments.d:
        notes.append(
            f"{moments.count:g} rows for {moments.d} dimensions: at most {moments.count - 1:g} "
            "eigenvalues are not zero, whatever the site does"
        )
    elif moments.count < 10 * moments.d:
        notes.append(
            f"{moments.count / moments.d:.1f} rows per dimension: the spectrum looks steeper than "
            "it is; 10 or more are advised"
        )
    return tuple(notes)
