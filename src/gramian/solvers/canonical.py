"""Whiten, rotate, weight, colour: the bridge through canonical correlations."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Dense
from gramian.moments import JointMoments, Moments, squared_error
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
    predicting well and keeping all directions apart. `canonical_coordinates` leaves the last
    factor out.

    Parameters
    ----------
    train, select, report : joint moments (dx, dy) of the folds, full on both sides. Fitted again
        on ``train + select`` once the power is chosen.
    rank : canonical directions to keep, 1 to min(dx, dy); None keeps all.
    power : 0 to 1; None takes that of ``(0, 0.25, 0.5, 0.75, 1)`` with the least error on
        ``select``, or 0.5 without such a fold.
    ridge : added to the eigenvalues of both sides, relative to the mean of those that are not
        zero; see `canonical_coordinates` for few rows.

    Raises
    ------
    GramianError : no rows, diagonal moments of either side, a rank, power or ridge out of range.
    """
    _check(train, rank, power, ridge, "canonical")
    held = select if select is not None and select.count > 0 else None
    notes: list[str] = []
    first = _Directions.of(train, ridge)
    if power is None and held is not None:
        tried = {p: squared_error(held, first.map(p, rank)) for p in POWERS}
        power = min(POWERS, key=tried.__getitem__)
        notes.append(f"power {power:g} has the least error on select")
    elif power is None:
        power = 0.5
        notes.append("no fold to choose the power on; took 0.5")
    data = train if held is None else train + held
    directions = first if held is None else _Directions.of(data, ridge)
    notes += _few(directions, ridge)
    map = directions.map(power, rank)
    return judged(
        map,
        {"train": train, "select": held, "report": report},
        directions.spectrum,
        rows=data.count,
        first=first.map(power, rank),
        notes=notes,
        regularization=directions.strength,
        relative=ridge,
    )


@method("canonical_coordinates", job="bridge", paper="Hotelling 1936; VecMap, AAAI 2018")
def canonical_coordinates(
    joint: JointMoments,
    *,
    rank: int | None = None,
    power: float = 0.0,
    ridge: float = 1e-6,
) -> tuple[Affine, Affine]:
    """One map of each side into a common space, coordinate by coordinate most correlated.

    ``S^p U^T Cxx^(-1/2) (x - mean)`` and ``S^p V^T Cyy^(-1/2) (y - mean)``, with covariances
    over n. At ``p = 0`` they are canonical variates: of unit variance, uncorrelated within a side,
    and correlated by ``S`` with their partner. A power above zero lets directions that agree
    weigh more in a cosine; VecMap takes 0.5.

    Parameters
    ----------
    rank : coordinates to keep, the most correlated first; None keeps all there are.
    power : 0 to 1.
    ridge : as for `canonical`. With no more rows than both widths together some directions
        agree perfectly by counting alone, and only a ridge of about 0.1 or more holds them back.

    Raises
    ------
    GramianError : as `canonical`.
    """
    _check(joint, rank, power, ridge, "canonical_coordinates")
    directions = _Directions.of(joint, ridge)
    found = len(directions.correlations)
    if found < (rank or 1):
        raise GramianError(
            f"canonical_coordinates: {rank or 1} wanted and {found} directions vary on both "
            "sides; lower the rank, or look at the rows"
        )
    # Cxx = Sxx / n
    gains = (joint.count**0.5 * directions.correlations**power)[:rank, None]
    left, right = gains * directions.left[:rank], gains * directions.partner[:rank]
    return (
        Affine(Dense(left.contiguous()), -(left @ joint.x.mean)),
        Affine(Dense(right.contiguous()), -(right @ joint.y.mean)),
    )


@dataclass(frozen=True, eq=False)
class _Directions:
    """Canonical directions of one record of moments, for maps of any power and rank."""

    left: Tensor
    """(m, dx): ``U^T Sxx^(-1/2)``."""
    correlations: Tensor
    right: Tensor
    """(dy, m): ``Syy^(1/2) V``."""
    partner: Tensor
    """(m, dy): ``V^T Syy^(-1/2)``."""
    spectrum: Tensor
    """Eigenvalues of the scatter of ``x``."""
    strength: float
    """What was added to them."""
    ranks: tuple[int, int]
    joint: JointMoments

    @classmethod
    def of(cls, joint: JointMoments, ridge: float) -> _Directions:
        x, y = _Roots.of(joint.x, ridge), _Roots.of(joint.y, ridge)
        # U S V^T = Sxx^(-1/2) Sxy Syy^(-1/2)
        u, s, vh = torch.linalg.svd(x.inverse @ joint.cross @ y.inverse, full_matrices=False)
        few = min(x.rank, y.rank)
        u, s, vh = u[:, :few], s[:few].clamp_max(1.0), vh[:few]
        return cls(
            left=u.T @ x.inverse,
            correlations=s,
            right=y.root @ vh.T,
            partner=vh @ y.inverse,
            spectrum=x.values,
            strength=x.strength,
            ranks=(x.rank, y.rank),
            joint=joint,
        )

    def map(self, power: float, rank: int | None) -> Affine:
        kept = slice(None, rank)
        weight = (self.right[:, kept] * self.correlations[kept] ** power) @ self.left[kept]
        return Affine(Dense(weight), self.joint.y.mean - weight @ self.joint.x.mean)


@dataclass(frozen=True, eq=False)
class _Roots:
    """Inverse root and root of a scatter; directions without variance are left out of both."""

    inverse: Tensor
    root: Tensor
    values: Tensor
    rank: int
    strength: float

    @classmethod
    def of(cls, moments: Moments, ridge: float) -> _Roots:
        values, vectors = eigh(moments.scatter)
        values = values.clamp_min(0.0)
        kept = values > len(values) * torch.finfo(values.dtype).eps * values[-1]
        rank = int(kept.sum())
        strength = ridge * float(values[kept].mean()) if rank else 0.0
        basis, root = vectors[:, kept], (values[kept] + strength).sqrt()
        inverse = (basis / root) @ basis.T
        return cls(inverse, (basis * root) @ basis.T, values, rank, strength)


def _few(directions: _Directions, ridge: float) -> list[str]:
    """What to say where correlations are perfect by counting alone."""
    rows, ranks = directions.joint.count, directions.ranks
    if rows - 1 >= sum(ranks):
        return []
    return [
        f"{rows:g} rows for {ranks[0]} and {ranks[1]} directions: some correlate perfectly by "
        f"counting alone, held back only by a ridge of {ridge:g}; use more pairs or a larger ridge"
    ]


def _check(
    joint: JointMoments, rank: int | None, power: float | None, ridge: float, what: str
) -> None:
    most = min(joint.x.d, joint.y.d)
    if rank is not None and not 1 <= rank <= most:
        raise GramianError(f"rank is {rank}, expected 1 to {most}")
    if power is not None and not 0 <= power <= 1:
        raise GramianError(f"power is {power}, expected 0 (keep all) to 1 (least squares)")
    if not 0 <= ridge < float("inf"):
        raise GramianError(f"ridge is {ridge}, expected a finite number of at least 0")
    if joint.y.is_diagonal or joint.x.is_diagonal:
        raise GramianError(f"{what} needs full moments of both sides; collect order='full'")
    if joint.count <= 0:
        raise GramianError(f"{what}: no rows; give more pairs")
