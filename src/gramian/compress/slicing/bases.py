"""Directions of the residual stream to keep, and what of it lies outside of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Dense
from gramian.moments import MomentSet
from gramian.networks import Checkpoint
from gramian.solvers.pooled_basis import PooledBasis, pooled_basis

FIT = ("train", "select")
"""The folds that a basis is taken of: nothing is chosen in between."""
SINK_WEIGHT = 1.0
"""What the sink rows of a place count for, all together, where its other rows count one."""


@dataclass(frozen=True)
class Discarded:
    """The share of the squared length of a place's rows that its basis does not show."""

    site: str
    fit: float
    report: float
    sinks_report: float | None
    """Of the sink rows on ``report``; None where there are none."""

    def to_json(self) -> dict[str, Any]:
        """Its fields."""
        return {
            "site": self.site,
            "discarded_fit": self.fit,
            "discarded_report": self.report,
            "discarded_sinks_report": self.sinks_report,
        }


def seconds(
    moments: MomentSet, site: str, fold: str | tuple[str, ...], *, mean_free: bool
) -> tuple[Tensor, Tensor]:
    """Second moments about zero of the ordinary rows and of the sink rows of a place, (d, d) both.

    mean_free : of rows minus their mean over features, as LayerNorm reads them.

    Raises
    ------
    GramianError : the diagonal alone was collected, or numbers that are not finite.
    """
    found = moments.moments(site, fold)
    if found.is_diagonal:
        raise GramianError(f"only the diagonal of {site} was collected; collect with --for slice")
    rest = found.raw()
    sinks = moments.moments(site, fold, sinks=True).raw() - rest
    if not bool(rest.isfinite().all() & sinks.isfinite().all()):
        raise GramianError(f"the moments of {site} hold NaN or infinity; collect them again")
    return (_centred(rest), _centred(sinks)) if mean_free else (rest, sinks)


def subtracts_mean(checkpoint: Checkpoint) -> bool:
    """Whether the norms of the stream are LayerNorms."""
    return any(norm.kind == "layer" for norm in checkpoint.blueprint.stream_norms())


def shared_basis(
    checkpoint: Checkpoint,
    moments: MomentSet,
    sites: Sequence[str],
    *,
    sink_weight: float = SINK_WEIGHT,
) -> PooledBasis:
    """Directions by their energy at all the places together.

    Every place counts one, and its sink rows ``sink_weight``, whatever their lengths: the sinks
    are few rows in about one direction, hundreds of times longer than others, and everything
    attends to them. Where norms subtract the mean, the vector of ones comes last.
    """
    mean_free = subtracts_mean(checkpoint)

    def weighted() -> Iterator[tuple[float, Tensor]]:
        for site in sites:
            rest, sinks = seconds(moments, site, FIT, mean_free=mean_free)
            yield 1.0, rest
            yield sink_weight, sinks

    ones = torch.ones(checkpoint.blueprint.width, dtype=torch.float64) if mean_free else None
    return pooled_basis(weighted(), apart=ones)


def narrowing_map(basis: PooledBasis, width: int, *, mean_free: bool) -> Dense:
    """The map (width, d) with orthonormal rows that :class:`gramian.Narrow` takes.

    The leading directions themselves; where norms subtract the mean ``u' uᵀ + B P`` with ``P``
    the leading ``width - 1`` and ``B`` a basis of the vectors of that width with mean zero: the
    new norm then finds no mean to subtract, and one feature is spent on that.
    """
    rows = basis.rows
    if not mean_free:
        return Dense(rows[:width].clone())
    d = rows.shape[1]
    old = torch.full((d,), d**-0.5, dtype=rows.dtype)
    new = torch.full((width,), width**-0.5, dtype=rows.dtype)
    return Dense(torch.outer(new, old) + _complement(width) @ rows[: width - 1])


def discarded(moments: MomentSet, site: str, rows: Tensor, *, mean_free: bool) -> Discarded:
    """What orthonormal rows (k, d) do not show of a place."""
    fit, _ = seconds(moments, site, FIT, mean_free=mean_free)
    report, sinks = seconds(moments, site, "report", mean_free=mean_free)
    lost = _lost(sinks, rows)
    return Discarded(site, _lost(fit, rows) or 0.0, _lost(report, rows) or 0.0, lost)


def _lost(second: Tensor, rows: Tensor) -> float | None:
    """``1 - tr(T C Tᵀ) / tr C``."""
    total = float(second.trace())
    if not total > 0:
        return None
    shown = float(((rows @ second) * rows).sum())
    return max(0.0, 1 - shown / total)


def _complement(width: int) -> Tensor:
    """(width, width - 1): orthonormal columns that are orthogonal to the vector of ones."""
    # The Householder reflection that takes the first axis to the vector of ones.
    normal = -torch.full((width,), width**-0.5, dtype=torch.float64)
    normal[0] += 1.0
    size = float(normal @ normal)
    if size == 0.0:
        return torch.zeros(width, 0, dtype=torch.float64)
    reflection = torch.eye(width, dtype=torch.float64) - 2 / size * torch.outer(normal, normal)
    return reflection[:, 1:]


def _centred(second: Tensor) -> Tensor:
    """``(I - 1 1ᵀ / d) C (I - 1 1ᵀ / d)``."""
    return second - second.mean(0) - second.mean(1)[:, None] + second.mean()
