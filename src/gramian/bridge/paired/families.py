"""Every family of maps from the same moments, one candidate per setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, LinearMap, LowRank
from gramian.moments import JointMoments, Quadratic
from gramian.solvers import canonical, minimise, procrustes, relaxed_orthogonal
from gramian.solvers.reduced_rank import leading_factors

RIDGES = (0.0, 1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)
"""Ridge to zero, relative to the mean eigenvalue of the source per row."""
SHRINKS = (1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0, 10.0)
"""The same towards an orthogonal map."""
RANK_RIDGES = (1e-3, 1e-1)
"""The same under a bound on the rank."""
DELTAS = (0.0, 0.1, 0.3, 0.6, 1.0)
"""How far singular values may lie from 1."""
POWERS = (0.5, 0.0, 0.25, 0.75, 1.0)
"""Of the canonical correlations: 0 keeps every direction, 1 is least squares."""
AUTO = ("ridge", "procrustes", "scaled", "shrunk")
"""What ``"auto"`` tries; the others take longer, or more moments."""
METHODS = (*AUTO, "rotation", "reduced_rank", "cca", "relaxed")
PRIORS = ("rotation", "scaled")
TAKES = {
    "lam": ("auto", "ridge", "shrunk", "reduced_rank"),
    "rank": ("reduced_rank", "cca"),
    "delta": ("relaxed",),
}
"""Which methods have a parameter."""


@dataclass(frozen=True)
class Setting:
    """One family and its settings; enough to fit it on any moments."""

    method: str
    lam: float | None = None
    """Ridge over the mean eigenvalue of the covariance of the source."""
    prior: str | None = None
    """Of ``shrunk``: the orthogonal map alone, or times its best scale."""
    rank: int | None = None
    """Of ``reduced_rank`` and ``cca``; None for all directions."""
    delta: float | None = None
    """Of ``relaxed``: largest deviation of a singular value from 1."""
    power: float | None = None
    """Of ``cca``: to which the canonical correlations are raised."""

    def __str__(self) -> str:
        parts = [self.method]
        if self.prior:
            parts.append(f"towards {self.prior}")
        for name in ("lam", "rank", "delta", "power"):
            value = getattr(self, name)
            if value is not None:
                parts.append(f"{name} {value:g}")
        return " ".join(parts)


@dataclass(frozen=True)
class Asked:
    """What was asked for: a method, or ``"auto"``, and what of its settings is given."""

    method: str = "auto"
    lam: float | None = None
    rank: int | None = None
    delta: float | None = None

    def check(self, *, full: bool = True, intercept: bool = True) -> None:
        """Before any row is read; ``full`` is whether the covariance of Y will be there.

        Raises
        ------
        GramianError : an unknown method, a value out of range, one the method does not have, or
            ``cca`` without what it needs.
        """
        if self.method == "cca" and not (full and intercept):
            raise GramianError(
                "cca needs the covariance of Y and a bias: "
                "Bridge('cca', target_moments='full', intercept=True)"
            )
        if self.method != "auto" and self.method not in METHODS:
            raise GramianError(
                f"method is {self.method!r}, expected auto or one of {', '.join(METHODS)}"
            )
        for name in ("lam", "delta"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise GramianError(f"{name} is {value}, expected a finite number of at least 0")
        if self.rank is not None and (self.rank != int(self.rank) or self.rank < 1):
            raise GramianError(f"rank is {self.rank}, expected a whole number of at least 1")
        for name, methods in TAKES.items():
            value = getattr(self, name)
            if value is not None and self.method not in methods:
                what = {"lam": "ridge"}.get(name, name)
                raise GramianError(
                    f"{name} is {value}, and {self.method} has no {what}; leave it out"
                )


def settings_of(asked: Asked, joint: JointMoments) -> Iterator[Setting]:
    """The settings to try on moments like these.

    Raises
    ------
    GramianError : what :meth:`Asked.check` raises, or a rank above the narrower width.
    """
    asked.check()
    most = min(joint.x.d, joint.y.d)
    if asked.rank is not None and asked.rank > most:
        raise GramianError(f"rank is {asked.rank}, expected 1 to {most}, the narrower width")
    few = joint.count <= joint.x.d
    names: Sequence[str] = AUTO if asked.method == "auto" else (asked.method,)
    lams = None if asked.lam is None else (asked.lam,)
    for name in names:
        if name == "ridge":
            yield from (Setting(name, lam) for lam in lams or (RIDGES[1:] if few else RIDGES))
        elif name == "shrunk":
            for prior in PRIORS:
                yield from (Setting(name, lam, prior) for lam in lams or SHRINKS)
        elif name == "reduced_rank":
            ranks = _ranks(most) if asked.rank is None else [asked.rank]
            for lam in lams or RANK_RIDGES:
                yield from (Setting(name, lam, rank=rank) for rank in ranks)
        elif name == "cca":
            yield from (Setting(name, rank=asked.rank, power=power) for power in POWERS)
        elif name == "relaxed":
            deltas = DELTAS if asked.delta is None else (asked.delta,)
            yield from (Setting(name, delta=delta) for delta in deltas)
        else:
            yield Setting(name)


def _ranks(most: int) -> list[int]:
    """All directions, three quarters of them, and halves down to a 32nd."""
    parts = (1.0, 0.75, 0.5, 0.25, 0.125, 0.0625, 0.03125)
    return sorted({max(1, round(part * most)) for part in parts}, reverse=True)


def fit_setting(setting: Setting, joint: JointMoments, *, intercept: bool) -> LinearMap:
    """The map of one setting, from the moments of its fold."""
    return Fitting(joint, intercept).map(setting)


class Fitting:
    """Fits of many settings on one fold, which share what they can."""

    def __init__(self, joint: JointMoments, intercept: bool) -> None:
        if joint.count < 1:
            raise GramianError("no pairs to fit on")
        self.joint, self.intercept = joint, intercept
        self.objective = Quadratic.from_joint(joint, intercept=intercept)
        self._rotations: dict[str, Tensor] = {}
        self._factors: dict[float, tuple[Tensor, Tensor]] = {}

    def map(self, setting: Setting) -> LinearMap:
        """The map of one setting.

        Raises
        ------
        GramianError : ``cca`` without a bias or without full moments of both sides.
        """
        joint, intercept = self.joint, self.intercept
        if setting.method in ("procrustes", "scaled"):
            scaled = setting.method == "scaled"
            return procrustes(joint, scaled=scaled, intercept=intercept).map
        if setting.method == "rotation":
            # between unequal widths every orthogonal map is part of a rotation: the sign of a
            # direction that is padded with zeros is free
            square = joint.x.d == joint.y.d
            return procrustes(joint, rotation_only=square, intercept=intercept).map
        if setting.method == "relaxed":
            return relaxed_orthogonal(joint, delta=setting.delta or 0.0, intercept=intercept).map
        if setting.method == "cca":
            if not intercept:
                raise GramianError("cca is about the means of both sides; leave intercept=True")
            return canonical(joint, rank=setting.rank, power=setting.power).map
        if setting.lam is None:
            raise GramianError(f"{setting.method} needs a lam")
        if setting.method == "reduced_rank":
            return self._low_rank(setting.lam, setting.rank)
        prior = None if setting.prior is None else self._rotation(setting.prior)
        return self._affine(Dense(self._ridge(setting.lam, prior)))

    def _low_rank(self, lam: float, rank: int | None) -> LinearMap:
        if lam not in self._factors:
            self._factors[lam] = leading_factors(self._ridge(lam, None), self.objective.B)
        up, down = self._factors[lam]
        return self._affine(LowRank(up[:, :rank].contiguous(), down[:rank].contiguous()))

    def _ridge(self, lam: float, prior: Tensor | None) -> Tensor:
        # min |Y - X W^T|^2 + lam n m |W - W0|^2, m the mean eigenvalue of the covariance
        strength = lam * self.joint.x.trace / self.joint.x.d
        objective = self.objective
        if strength > 0:
            zero = torch.zeros_like(objective.B.T) if prior is None else prior
            objective = objective + Quadratic.prior(zero, strength)
        return minimise(objective, prior)[0]

    def _rotation(self, prior: str) -> Tensor:
        if prior not in self._rotations:
            scaled = prior == "scaled"
            fitted = procrustes(self.joint, scaled=scaled, intercept=self.intercept).map
            linear = fitted.map if isinstance(fitted, Affine) else fitted
            self._rotations[prior] = linear.to_dense(torch.float64)
        return self._rotations[prior]

    def _affine(self, map: LinearMap) -> LinearMap:
        if not self.intercept:
            return map
        weight = map.to_dense(torch.float64)
        return Affine(map, self.joint.y.mean - weight @ self.joint.x.mean)
