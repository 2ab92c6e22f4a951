"""Maps that keep the direction of the stream, not its length: from raw rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.compress.depth.cut import Cut
from gramian.compress.depth.fit import Fitted, folds_of, judged, objective, require_foldable
from gramian.errors import GramianError
from gramian.moments import MomentSet, Quadratic
from gramian.networks.checkpoint import Checkpoint
from gramian.solvers import BranchRows, cosine_map, quadratic_ridge


@dataclass(frozen=True, eq=False)
class CutRows:
    """Rows of one fold at the places of a cut, and its sink rows as an objective."""

    branch: Tensor
    """(n, d) MLP output before the cut."""
    stream: Tensor
    """(n, d) the stream where the cut begins."""
    target: Tensor
    """(n, d) the stream where it ends."""
    each: float
    """Rows of the fold for every row that was kept of it."""
    sinks: Quadratic | None
    """Of the sink rows, every one weighted by one over their mean squared length."""
    fold: str

    @classmethod
    def of(cls, checkpoint: Checkpoint, moments: MomentSet, cut: Cut, fold: str) -> CutRows:
        """Read them.

        Raises
        ------
        GramianError : no rows were kept at collection.
        """
        blueprint = checkpoint.blueprint
        residual, prefix = blueprint.residual_sites(), blueprint.main.prefix
        sites = (f"{prefix}{cut.start - 1}.mlp_out", residual[cut.start], residual[cut.end])
        found = [moments.reservoir(site, fold) for site in sites]
        keys = found[0][0]
        if any(other != keys for other, _ in found) or not keys:
            raise GramianError(
                f"the rows that were kept of {', '.join(sites)} in the fold {fold!r} are none, or "
                "not of the same tokens; collect again with --rows"
            )
        kept = objective(checkpoint, moments, cut, (fold,))
        every = objective(checkpoint, moments, cut, (fold,), sinks=True)
        energy, count = _energy(moments, residual[cut.end], fold)
        sinks = None
        if count > 0 and energy > 0:
            # Where rows are known by their moments alone, one weight for all of them.
            apart = (every.A - kept.A, every.B - kept.B, every.c - kept.c)
            share = count / energy
            sinks = Quadratic(apart[0] * share, apart[1] * share, apart[2] * share, count)
        branch, stream, target = (rows.double() for _, rows in found)
        return cls(branch, stream, target, kept.n / len(keys), sinks, fold)

    def weighted(self, *, sinks: bool) -> Quadratic:
        """``sum w |D - W m|^2`` with ``w = 1 / |H_end|^2`` of every row, for all of the fold.

        The error as what follows sees it: a norm divides the stream by its length. Up to third
        order in small angles it is twice the sum of ``1 - cos``, for errors across the stream.
        """
        weight = self.target.square().sum(1)
        weight = torch.where(weight > 0, self.each / weight, torch.zeros_like(weight))
        added = self.target - self.stream
        scaled = self.branch * weight[:, None]
        squares = float((added.square().sum(1) * weight).sum())
        rows = Quadratic(scaled.T @ self.branch, scaled.T @ added, squares, float(len(self.branch)))
        return rows + self.sinks if sinks and self.sinks is not None else rows

    def directions(self) -> BranchRows:
        """The rows for a fit of cosines."""
        return BranchRows(self.branch, self.stream, self.target)


def fit_weighted(
    checkpoint: Checkpoint,
    moments: MomentSet,
    cut: Cut,
    *,
    strengths: Sequence[float] | None = None,
) -> Fitted:
    """Least squares in which every row counts by one over its squared length after the cut.

    In closed form, from the raw rows that were kept (the weights are another for every cut, so
    no moments that were collected before hold them). Sink rows are part of it, by their moments.

    Raises
    ------
    GramianError : no map can be folded there, or no rows were kept.
    """
    require_foldable(checkpoint, cut.start - 1)
    train, select = (_rows(checkpoint, moments, cut, fold) for fold in ("train", "select"))
    found = quadratic_ridge(
        train.weighted(sinks=True),
        select.weighted(sinks=False),
        strengths=strengths,
        more=select.weighted(sinks=True),
    )
    rows = len(train.branch) + len(select.branch)
    return judged(checkpoint, moments, cut, found.weight, found.relative, rows)


def fit_cosine(checkpoint: Checkpoint, moments: MomentSet, cut: Cut) -> Fitted:
    """The map of greatest mean cosine between the stream it makes and the stream after the cut.

    By Adam from the identity on the raw rows of ``train``, stopped on those of ``select``. Sink
    rows, known by their moments, take part with the least squares that their cosines come to.

    Raises
    ------
    GramianError : no map can be folded there, or no rows were kept.
    """
    require_foldable(checkpoint, cut.start - 1)
    train, select = (_rows(checkpoint, moments, cut, fold) for fold in ("train", "select"))
    beside = None
    if train.sinks is not None:
        # 1 - cos = |error|^2 / (2 |target|^2), over the rows of the fold
        beside = train.sinks * (0.5 / (train.each * len(train.branch)))
    found = cosine_map(train.directions(), select.directions(), beside=beside)
    return judged(checkpoint, moments, cut, found.step, 0.0, len(train.branch))


def _rows(checkpoint: Checkpoint, moments: MomentSet, cut: Cut, fold: str) -> CutRows:
    folds_of(moments, (fold,))
    return CutRows.of(checkpoint, moments, cut, fold)


def _energy(moments: MomentSet, site: str, fold: str) -> tuple[float, float]:
    """``sum |x|^2`` over the sink rows of a site, and how many they are."""
    kept, every = (moments.moments(site, fold, sinks=sinks) for sinks in (False, True))
    energies = [m.trace + m.count * float(m.mean.square().sum()) for m in (kept, every)]
    return energies[1] - energies[0], every.count - kept.count
