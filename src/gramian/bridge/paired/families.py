"""Every family of maps from the same moments, one candidate per setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, LinearMap
from gramian.moments import JointMoments, Quadratic
from gramian.solvers import minimise, procrustes

RIDGES = (0.0, 1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)
"""Ridge to zero, relative to the mean eigenvalue of the source per row."""
SHRINKS = (1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0, 10.0)
"""The same towards an orthogonal map."""
METHODS = ("ridge", "procrustes", "scaled", "shrunk")
PRIORS = ("rotation", "scaled")


@dataclass(frozen=True)
class Setting:
    """One family and its settings; enough to fit it on any moments."""

    method: str
    lam: float | None = None
    """Ridge over the mean eigenvalue of the covariance of the source."""
    prior: str | None = None
    """Of ``shrunk``: the orthogonal map alone, or times its best scale."""

    def __str__(self) -> str:
        parts = [self.method]
        if self.prior:
            parts.append(f"towards {self.prior}")
        if self.lam is not None:
            parts.append(f"lam {self.lam:g}")
        return " ".join(parts)


def settings_of(method: str, lam: float | None, joint: JointMoments) -> Iterator[Setting]:
    """The settings to try for a method, or for all of them (``"auto"``).

    Raises
    ------
    GramianError : an unknown method, a negative lam, or one for a method without any.
    """
    if method != "auto" and method not in METHODS:
        raise GramianError(f"method is {method!r}, expected auto or one of {', '.join(METHODS)}")
    if lam is not None and not 0 <= lam < float("inf"):
        raise GramianError(f"lam is {lam}, expected a finite number of at least 0")
    if lam is not None and method not in ("auto", "ridge", "shrunk"):
        raise GramianError(f"lam is {lam}, and {method} has no ridge; leave it out")
    few = joint.count <= joint.x.d
    names: Sequence[str] = METHODS if method == "auto" else (method,)
    for name in names:
        if name == "ridge":
            grid = RIDGES[1:] if few else RIDGES
            yield from (Setting("ridge", value) for value in (grid if lam is None else (lam,)))
        elif name == "shrunk":
            for prior in PRIORS:
                strengths = SHRINKS if lam is None else (lam,)
                yield from (Setting("shrunk", value, prior) for value in strengths)
        else:
            yield Setting(name)


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

    def map(self, setting: Setting) -> LinearMap:
        if setting.method in ("procrustes", "scaled"):
            scaled = setting.method == "scaled"
            return procrustes(self.joint, scaled=scaled, intercept=self.intercept).map
        if setting.lam is None:
            raise GramianError(f"{setting.method} needs a lam")
        prior = None if setting.prior is None else self._rotation(setting.prior)
        return self._affine(self._ridge(setting.lam, prior))

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

    def _affine(self, weight: Tensor) -> LinearMap:
        map = Dense(weight)
        if not self.intercept:
            return map
        return Affine(map, self.joint.y.mean - weight @ self.joint.x.mean)
