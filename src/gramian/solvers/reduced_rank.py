"""Least squares of a given rank."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, LinearMap, LowRank
from gramian.moments import JointMoments, Quadratic
from gramian.registry import method
from gramian.solvers.evidence import Solution
from gramian.solvers.judged import judged
from gramian.solvers.minimise import minimise
from gramian.solvers.ridge import ridge
from gramian.solvers.spectrum import Spectrum, eigh


@method("reduced_rank", job="bridge", paper="Izenman 1975, J. Multivar. Anal. 5(2)")
def reduced_rank(
    train: JointMoments,
    select: JointMoments | None = None,
    report: JointMoments | None = None,
    *,
    rank: int | None = None,
    lambdas: Sequence[float] | None = None,
    intercept: bool = True,
) -> Solution:
    """Map of least prediction error among those of a rank, as two thin factors.

    Ridge regression, then a projection of what it predicts on the leading directions of those
    predictions; cutting the singular values of ``W`` itself is not optimal. All ranks come from
    one factorisation, and their errors on ``select`` from one pass over its moments.

    Parameters
    ----------
    train, select, report : joint moments (dx, dy) of the folds. Fitted again on
        ``train + select`` once rank and ridge are chosen.
    rank : 1 to min(dx, dy); None takes the one of least error on ``select``.
    lambdas : grid of the ridge, as for `ridge`, chosen at full rank.

    Raises
    ------
    GramianError : a rank out of range, or None without a fold to choose on; see also `ridge`.
    """
    most = min(train.x.d, train.y.d)
    if rank is None and (select is None or select.count <= 0):
        raise GramianError("reduced_rank: give a rank, or a fold to choose it on: select")
    if rank is not None and not 1 <= rank <= most:
        raise GramianError(f"rank is {rank}, expected 1 to {most}")
    spectrum = Spectrum.of(train.x, None if select is None else select.x, intercept=intercept)
    full = ridge(
        train, select, lambdas=lambdas, intercept=intercept, spectrum=spectrum, refit=False
    ).evidence
    notes = list(full.notes)
    strength = full.regularization
    up, down = _factors(train, strength, intercept)
    if rank is None:
        assert select is not None
        errors = _errors_by_rank(up, down, train, select, intercept)
        rank = 1 + int(errors.argmin())
        notes.append(f"rank {rank} of {most} has the least error on select")
    map = first = _thin(up, down, rank, train, intercept)
    data = train
    if select is not None and select.count > 0:
        data = train + select
        strength *= data.count / train.count
        map = _thin(*_factors(data, strength, intercept), rank, data, intercept)
    return judged(
        map,
        {"train": train, "select": select, "report": report},
        spectrum.values,
        rows=data.count,
        first=first,
        notes=notes,
        regularization=strength,
        relative=full.relative_regularization,
    )


def _thin(up: Tensor, down: Tensor, rank: int, joint: JointMoments, intercept: bool) -> LinearMap:
    map = LowRank(up[:, :rank].contiguous(), down[:rank].contiguous())
    return Affine(map, joint.y.mean - map(joint.x.mean)) if intercept else map


def _factors(joint: JointMoments, strength: float, intercept: bool) -> tuple[Tensor, Tensor]:
    objective = Quadratic.from_joint(joint, intercept=intercept)
    if strength > 0:
        objective = objective + Quadratic.prior(torch.zeros_like(objective.B.T), strength)
    return leading_factors(minimise(objective)[0], objective.B)


def leading_factors(weight: Tensor, linear: Tensor) -> tuple[Tensor, Tensor]:
    """``up`` (dy, m) orthonormal and ``down`` (m, dx): the best map of rank r is
    ``up[:, :r] @ down[:r]``, of the weight (dy, dx) that is best at full rank and the linear term
    (dx, dy) of its objective."""
    # the leading eigenvectors of the predictions' moments, W (A + lambda) W^T = W B
    predictions = weight @ linear
    _, vectors = eigh((predictions + predictions.T) / 2)
    up = vectors.flip(1)[:, : min(weight.shape)]
    return up, up.T @ weight


def _errors_by_rank(
    up: Tensor, down: Tensor, train: JointMoments, fold: JointMoments, intercept: bool
) -> Tensor:
    """Squared error on another fold, about the means of ``train``, for rank 1, 2, ..."""
    zero_x, zero_y = torch.zeros_like(train.x.mean), torch.zeros_like(train.y.mean)
    x, y = (train.x.mean, train.y.mean) if intercept else (zero_x, zero_y)
    objective = Quadratic.about(fold, x, y)
    quadratic = ((down @ objective.A) * down).sum(1)
    linear = ((down @ objective.B) * up.T).sum(1)
    return (quadratic - 2.0 * linear).cumsum(0) + objective.c
