"""Whiten, rotate, weight, colour: the bridge through canonical correlations."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, LinearMap
from gramian.moments import JointMoments, squared_error
from gramian.registry import method
from gramian.solvers.evidence import Solution
from gramian.solvers.judged import judged
from gramian.solvers.spectrum import eigh

POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""The default grid of weights."""


@method("canonical", job="bridge", paper="Artetxe, Labaka & Agirre 2018, AAAI (VecMap)")
def canonical(
    train: JointMoments,
    select: JointMoments | None = None,
    report: JointMoments | None = None,
    *,
    rank: int | None = None,
    power: float | None = None,
    ridge: float = 1e-6,
) -> Solution:
    """Map through canonical directions, each weighted by a power of its correlation.

    ``W = Syy^(1/2) V S^p U^T Sxx^(-1/2)`` with the canonical correlations ``S``. At ``p = 1`` it
    is least squares, at ``p = 0`` the rows get the covariance of the target: the slider between
    predicting well and keeping all directions apart.

    Parameters
    ----------
    rank : canonical directions to keep, 1 to min(dx, dy); None keeps all.
    power : 0 to 1; None takes that of ``(0, 0.25, 0.5, 0.75, 1)`` with the least error on
        ``select``, or 0.5 without such a fold.
    ridge : added to the eigenvalues of both sides, relative to their mean.

    Raises
    ------
    GramianError : no rows, diagonal moments of either side, a rank or power out of range.
    """
    most = min(train.x.d, train.y.d)
    if rank is not None and not 1 <= rank <= most:
        raise GramianError(f"rank is {rank}, expected 1 to {most}")
    if power is not None and not 0 <= power <= 1:
        raise GramianError(f"power is {power}, expected 0 (keep all) to 1 (least squares)")
    if train.y.is_diagonal or train.x.is_diagonal:
        raise GramianError("canonical needs full moments of both sides; collect order='full'")
    if train.count <= 0:
        raise GramianError("canonical: no rows; give more pairs")
    notes: list[str] = []
    if power is None and select is not None and select.count > 0:
        powers = POWERS
        tried = {
            p: squared_error(select, _Directions.of(train, ridge).map(p, rank)) for p in POWERS
        }
        powers = (min(POWERS, key=tried.__getitem__),)
        notes.append(f"power {powers[0]:g} has the least error on select")
    data = train if select is None or select.count <= 0 else train + select
    directions = _Directions.of(data, ridge)
    map = directions.map(0.5 if power is None else power, rank)
    folds = {"train": train, "select": select, "report": report}
    values = directions.correlations
    return judged(map, folds, values, rows=data.count, notes=notes, relative=ridge)


@dataclass(frozen=True, eq=False)
class _Directions:
    """Canonical directions of one record of moments, for maps of any power and rank."""

    left: Tensor
    """(m, dx): ``U^T Sxx^(-1/2)``."""
    correlations: Tensor
    right: Tensor
    """(dy, m): ``Syy^(1/2) V``."""
    joint: JointMoments

    @classmethod
    def of(cls, joint: JointMoments, ridge: float) -> _Directions:
        whiten, _ = _roots(joint.x.scatter, ridge)
        unwhiten_y, colour = _roots(joint.y.scatter, ridge)
        u, s, vh = torch.linalg.svd(whiten @ joint.cross @ unwhiten_y, full_matrices=False)
        return cls(u.T @ whiten, s, colour @ vh.T, joint)

    def map(self, power: float, rank: int | None) -> LinearMap:
        kept = slice(None, rank)
        weight = (self.right[:, kept] * self.correlations[kept] ** power) @ self.left[kept]
        return Affine(Dense(weight), self.joint.y.mean - weight @ self.joint.x.mean)


def _roots(scatter: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """Inverse root and root of a scatter; directions without variance are left out of both."""
    values, vectors = eigh(scatter)
    floor = len(values) * torch.finfo(values.dtype).eps * values[-1].clamp_min(0.0)
    kept = values > floor
    values = values[kept] + ridge * values[kept].mean() if bool(kept.any()) else values[kept]
    vectors = vectors[:, kept]
    root = values.sqrt()
    return (vectors / root) @ vectors.T, (vectors * root) @ vectors.T
