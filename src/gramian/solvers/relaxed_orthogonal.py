"""The slider between a rotation and least squares."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, LinearMap
from gramian.moments import JointMoments, Quadratic, squared_error
from gramian.registry import method
from gramian.solvers.evidence import Solution
from gramian.solvers.judged import judged
from gramian.solvers.minimise import minimise

DELTAS = (0.0, 0.1, 0.3, 0.6, 1.0)
"""The default grid: from a rotation to any contraction or doubling of a direction."""
STEPS = 200
HALVINGS = 30


@method("relaxed_orthogonal", job="bridge", paper="2509.16664")
def relaxed_orthogonal(
    train: JointMoments,
    select: JointMoments | None = None,
    report: JointMoments | None = None,
    *,
    delta: float | None = None,
    lam: float | None = None,
    intercept: bool = True,
) -> Solution:
    """Map of least squared error whose singular values all lie in ``[1 - delta, 1 + delta]``.

    ``delta = 0`` is Procrustes, a large one least squares. Between unequal widths the bound holds
    for the ``min(dx, dy)`` singular values. Solved by projected gradient from least squares and
    from Procrustes, the better result kept: for ``delta < 1`` the set is not convex.

    Parameters
    ----------
    delta : largest deviation of a singular value from 1; None takes that of
        ``(0, 0.1, 0.3, 0.6, 1)`` with the least error on ``select``.
    lam : instead of ``delta``, the paper's own bound per dimension: ``|W^T W - I|_F / sqrt(d)``
        of the smaller Gram matrix.

    Raises
    ------
    GramianError : a negative bound, both bounds, none without a fold to choose on, no rows.
    """
    for name, value in (("delta", delta), ("lam", lam)):
        if value is not None and not 0 <= value < math.inf:
            raise GramianError(f"{name} is {value}, expected a finite number of at least 0")
    if delta is not None and lam is not None:
        raise GramianError("delta and lam both bound the singular values; give one of them")
    if train.count <= 0:
        raise GramianError("relaxed_orthogonal: no rows; give more pairs")
    notes: list[str] = []
    chosen = delta
    if lam is None and delta is None:
        if select is None or select.count <= 0:
            raise GramianError("relaxed_orthogonal: give delta or lam, or a fold to choose on")
        chosen = _choose(train, select, DELTAS, intercept)
        notes.append(f"delta {chosen:g} has the least error on select")
    data = train if select is None or select.count <= 0 else train + select
    problem = _Problem(Quadratic.from_joint(data, intercept=intercept))
    weight = problem.at(chosen) if chosen is not None else problem.within(float(lam or 0.0))
    s = torch.linalg.svdvals(weight)
    notes.append(f"singular values from {float(s.min()):.4g} to {float(s.max()):.4g}")
    map = _affine(weight, data, intercept)
    folds = {"train": train, "select": select, "report": report}
    return judged(map, folds, s, rows=data.count, notes=notes)


def _choose(
    train: JointMoments, select: JointMoments, deltas: Sequence[float], intercept: bool
) -> float:
    problem = _Problem(Quadratic.from_joint(train, intercept=intercept))
    errors = {
        delta: squared_error(select, _affine(problem.at(delta), train, intercept))
        for delta in deltas
    }
    return min(deltas, key=errors.__getitem__)


def _affine(weight: Tensor, joint: JointMoments, intercept: bool) -> LinearMap:
    map = Dense(weight.contiguous())
    return Affine(map, joint.y.mean - weight @ joint.x.mean) if intercept else map


class _Problem:
    """One quadratic under a bound on the singular values."""

    def __init__(self, objective: Quadratic) -> None:
        self.objective = objective
        self.free, _ = minimise(objective)
        self.rate = float(torch.linalg.eigvalsh(objective.A)[-1])

    def at(self, delta: float) -> Tensor:
        """The weight (dy, dx) for one bound."""
        if _deviation(self.free) <= delta:
            return self.free
        u, _, vh = torch.linalg.svd(self.objective.B.T, full_matrices=False)
        if delta == 0 or self.rate <= 0:
            return u @ vh
        found = (self._descend(start, delta) for start in (self.free, u @ vh))
        return min(found, key=self.objective.value)

    def within(self, lam: float) -> Tensor:
        """The weight whose smaller Gram matrix is ``lam`` per dimension away from the identity."""
        low, high = 0.0, _deviation(self.free)
        if _distance(self.free) <= lam:
            return self.free
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if _distance(self.at(middle)) < lam else (low, middle)
            if high - low < 1e-4 * high:
                break
        return self.at(low)

    def _descend(self, weight: Tensor, delta: float) -> Tensor:
        weight = _clipped(weight, delta)
        value = self.objective.value(weight)
        scale = abs(self.objective.c) + abs(value)
        for _ in range(STEPS):
            # W <- clip(W - (W A - B^T) / lambda_max(A))
            gradient = weight @ self.objective.A - self.objective.B.T
            step = _clipped(weight - gradient / self.rate, delta)
            after = self.objective.value(step)
            if value - after <= 1e-10 * scale:
                return step if after < value else weight
            weight, value = step, after
        return weight


def _clipped(weight: Tensor, delta: float) -> Tensor:
    u, s, vh = torch.linalg.svd(weight, full_matrices=False)
    return (u * s.clamp(max(0.0, 1.0 - delta), 1.0 + delta)) @ vh


def _deviation(weight: Tensor) -> float:
    return float((torch.linalg.svdvals(weight) - 1.0).abs().max())


def _distance(weight: Tensor) -> float:
    """``|G - I|_F / sqrt(d)`` of the smaller Gram matrix."""
    return float((torch.linalg.svdvals(weight).square() - 1.0).square().mean().sqrt())
