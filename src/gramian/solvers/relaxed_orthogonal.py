"""The slider between a rotation and least squares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, LinearMap
from gramian.moments import JointMoments, Quadratic, squared_error
from gramian.registry import method
from gramian.solvers.evidence import Solution
from gramian.solvers.judged import judged
from gramian.solvers.minimise import minimise
from gramian.solvers.procrustes import best_scale
from gramian.solvers.spectrum import eigenvalues

DELTAS = (0.0, 0.1, 0.3, 0.6, 1.0)
"""The default grid: from a rotation to any contraction or doubling of a direction."""
STEPS = 500
"""At most so many projections from each start."""
SETTLED = 1e-7
"""A descent ends after three steps that each gain less than this times the variance."""
HALVINGS = 30


@method("relaxed_orthogonal", job="bridge", paper="2509.16664")
def relaxed_orthogonal(
    train: JointMoments,
    select: JointMoments | None = None,
    report: JointMoments | None = None,
    *,
    delta: float | None = None,
    lam: float | None = None,
    per_dimension: bool = True,
    scaled: bool = False,
    intercept: bool = True,
) -> Solution:
    """Map of least squared error whose singular values all lie in ``[1 - delta, 1 + delta]``.

    ``delta = 0`` is Procrustes, a large one least squares. Between unequal widths the bound holds
    for the ``min(dx, dy)`` singular values. Solved by accelerated projected gradient, each step an
    SVD of order ``min(dx, dy)`` whatever the number of rows, from least squares and from
    Procrustes, the better result kept: for ``delta < 1`` the set is not convex, and the result a
    stationary point that is no worse than Procrustes.

    Parameters
    ----------
    train, select, report : joint moments (dx, dy) of the folds. Fitted again on
        ``train + select`` once the bound is chosen.
    delta : largest deviation of a singular value from 1; None takes that of
        ``(0, 0.1, 0.3, 0.6, 1)`` with the least error on ``select``.
    lam : instead of ``delta``, the paper's own bound, on ``|G - I|_F`` of the smaller Gram matrix
        ``G`` (``W^T W``, or ``W W^T`` where it is the smaller).
    per_dimension : ``lam`` bounds that norm over ``sqrt(min(dx, dy))``, so one value means the
        same at any width; False for the plain norm of the paper.
    scaled : the singular values are bounded to ``c [1 - delta, 1 + delta]``, with ``c`` the scale
        of scaled Procrustes: for spaces whose rows differ in length.

    Raises
    ------
    GramianError : a negative bound, both bounds, none without a fold to choose on, no rows,
        diagonal moments of ``x``.
    """
    for name, value in (("delta", delta), ("lam", lam)):
        if value is not None and not 0 <= value < math.inf:
            raise GramianError(f"{name} is {value}, expected a finite number of at least 0")
    if delta is not None and lam is not None:
        raise GramianError("delta and lam both bound the singular values; give one of them")
    if train.count <= 0:
        raise GramianError("relaxed_orthogonal: no rows; give more pairs")
    notes: list[str] = []
    first: LinearMap | None = None
    chosen = delta
    if lam is None and delta is None:
        if select is None or select.count <= 0:
            raise GramianError("relaxed_orthogonal: give delta or lam, or a fold to choose on")
        chosen, first = _choose(train, select, DELTAS, intercept, scaled)
        notes.append(f"delta {chosen:g} has the least error on select")
    data = train

    def fit(joint: JointMoments) -> tuple[_Problem, _Descent]:
        problem = _Problem.of(joint, intercept, scaled)
        if chosen is not None:
            return problem, problem.at(chosen)
        return problem, problem.within(float(lam or 0.0), per_dimension)

    if select is not None and select.count > 0:
        data = train + select
        if first is None:
            problem, found = fit(train)
            first = _affine(problem.scale * found.weight, train, intercept)
    problem, found = fit(data)
    weight = problem.scale * found.weight
    s = torch.linalg.svdvals(weight)
    notes.append(f"singular values from {float(s[-1]):.4g} to {float(s[0]):.4g}")
    if scaled:
        notes.append(f"scale {problem.scale:.6g}")
    if not found.settled:
        notes.append(
            f"still falling after {STEPS} steps: the error is close to the least, above it"
        )
    map = _affine(weight, data, intercept)
    folds = {"train": train, "select": select, "report": report}
    return judged(map, folds, problem.values, rows=data.count, first=first, notes=notes)


def _choose(
    train: JointMoments,
    select: JointMoments,
    deltas: Sequence[float],
    intercept: bool,
    scaled: bool,
) -> tuple[float, LinearMap]:
    """The bound of least error on ``select``, and the map fitted with it."""
    problem = _Problem.of(train, intercept, scaled)
    errors: dict[float, float] = {}
    maps: dict[float, LinearMap] = {}
    before: Tensor | None = None
    for delta in sorted(deltas):
        # what a smaller bound allows, a larger one allows too: the error on train cannot rise
        before = problem.at(delta, before).weight
        maps[delta] = _affine(problem.scale * before, train, intercept)
        errors[delta] = squared_error(select, maps[delta])
    chosen = min(errors, key=errors.__getitem__)
    return chosen, maps[chosen]


def _affine(weight: Tensor, joint: JointMoments, intercept: bool) -> LinearMap:
    map = Dense(weight.contiguous())
    return Affine(map, joint.y.mean - weight @ joint.x.mean) if intercept else map


@dataclass(frozen=True, eq=False)
class _Descent:
    weight: Tensor
    settled: bool


@dataclass(frozen=True, eq=False)
class _Problem:
    """One quadratic under a bound on the singular values, in units where they lie about one."""

    objective: Quadratic
    scale: float
    values: Tensor
    """Eigenvalues of the input."""
    free: Tensor
    """The least squares weight (dy, dx)."""
    rotation: Tensor

    @classmethod
    def of(cls, joint: JointMoments, intercept: bool, scaled: bool) -> _Problem:
        objective = Quadratic.from_joint(joint, intercept=intercept)
        u, _, vh = torch.linalg.svd(objective.B.T, full_matrices=False)
        rotation = u @ vh
        scale = best_scale(rotation, objective) if scaled else 1.0
        values = eigenvalues(objective.A).clamp_min(0.0)
        if scale <= 0:
            raise GramianError(
                "relaxed_orthogonal: no rotation lines the two sides up, so there is no scale; "
                "leave out scaled"
            )
        # |Y - c X V^T|^2 with W = c V
        A, B = scale * scale * objective.A, scale * objective.B
        unit = Quadratic(A, B, objective.c, objective.n)
        return cls(unit, scale, values, minimise(unit)[0], rotation)

    def at(self, delta: float, warm: Tensor | None = None) -> _Descent:
        """The weight for one bound. warm : the weight for a smaller one, in place of Procrustes."""
        if _deviation(self.free) <= delta:
            return _Descent(self.free, True)
        if delta == 0 or float(self.values[-1]) <= 0:
            return _Descent(self.rotation, True)
        starts = (self.free, self.rotation if warm is None else warm)
        found = (self._descend(start, delta) for start in starts)
        return min(found, key=lambda descent: self.objective.value(descent.weight))

    def within(self, lam: float, per_dimension: bool) -> _Descent:
        """The weight whose smaller Gram matrix is ``lam`` away from the identity."""
        if per_dimension:
            lam = lam * math.sqrt(min(self.free.shape))
        low, high = 0.0, _deviation(self.free)
        if _distance(self.free) <= lam:
            return _Descent(self.free, True)
        best = _Descent(self.rotation, True)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            found = self.at(middle, best.weight)
            if _distance(found.weight) < lam:
                low, best = middle, found
            else:
                high = middle
            if high - low < 1e-4 * high:
                break
        return best

    def _descend(self, weight: Tensor, delta: float) -> _Descent:
        weight = _clipped(weight, delta)
        value, fast, few = self.objective.value(weight), 1.0, 0
        rate = self.scale * self.scale * float(self.values[-1])
        before, small = weight, SETTLED * abs(self.objective.c)
        for _ in range(STEPS):
            # V = W + beta (W - W_before); W <- clip(V - (V A - B^T) / lambda_max(A)), beta back to
            # zero where that does not fall (Nesterov's steps, restarted)
            faster = (1.0 + math.sqrt(1.0 + 4.0 * fast * fast)) / 2.0
            ahead = weight + (fast - 1.0) / faster * (weight - before)
            gradient = ahead @ self.objective.A - self.objective.B.T
            step = _clipped(ahead - gradient / rate, delta)
            after = self.objective.value(step)
            if after > value:
                if fast == 1.0:
                    return _Descent(weight, True)
                fast, before = 1.0, weight
                continue
            few = few + 1 if value - after <= small else 0
            before, weight, value, fast = weight, step, after, faster
            if few == 3:
                return _Descent(weight, True)
        return _Descent(weight, False)


def _clipped(weight: Tensor, delta: float) -> Tensor:
    u, s, vh = torch.linalg.svd(weight, full_matrices=False)
    bounded: Tensor = s.clamp(max(0.0, 1.0 - delta), 1.0 + delta)
    return torch.mm(u * bounded, vh)


def _deviation(weight: Tensor) -> float:
    return float((torch.linalg.svdvals(weight) - 1.0).abs().max())


def _distance(weight: Tensor) -> float:
    """``|G - I|_F`` of the smaller Gram matrix."""
    return float((torch.linalg.svdvals(weight).square() - 1.0).norm())
