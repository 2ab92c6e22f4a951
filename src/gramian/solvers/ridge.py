"""Least squares with a ridge whose strength is chosen on moments alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, LinearMap
from gramian.moments import JointMoments, Quadratic, squared_error
from gramian.registry import method
from gramian.solvers.evidence import Evidence, Solution
from gramian.solvers.filters import check_filter, described, filter_factors, unit
from gramian.solvers.judged import r_squared
from gramian.solvers.minimise import minimise
from gramian.solvers.spectrum import Spectrum, about, entropy_rank

LAMBDAS = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0, 10.0, 100.0)
"""The default grid, relative to the median eigenvalue of the input."""
FEW_ROWS = 0.1
"""Relative ridge when there are no more rows than dimensions and no fold to choose on."""


@method("ridge", job="solve", paper="Hoerl & Kennard 1970, Technometrics 12(1)")
def ridge(
    train: JointMoments,
    select: JointMoments | None = None,
    report: JointMoments | None = None,
    *,
    intercept: bool = True,
    lambdas: Sequence[float] | None = None,
    prior: str | Tensor = "zero",
    refit: bool = True,
    spectrum: Spectrum | None = None,
    filter: str = "ridge",
) -> Solution:
    """Linear map of least squared error, its ridge chosen on a fold, from moments alone.

    Minimises ``|Y - X W^T - b|^2 + lambda |W - W0|^2``. One eigendecomposition of the input
    serves the whole grid: each lambda then costs O(d^2). The lambda of least squared error on
    ``select`` is taken, the map is fitted again on ``train + select`` with the same lambda per
    row, and its error on ``report`` is stated once. Equivalent to scikit-learn's ``Ridge`` with
    ``alpha = lambda``, or ``LinearRegression`` at zero, on the rows.

    Parameters
    ----------
    train, select, report : joint moments (dx, dy) of the folds; only ``train`` is needed.
    intercept : fit a bias; without one the second moments are about zero (2303.09435).
    lambdas : grid, relative to the median eigenvalue of the input on ``train``.
    prior : ``W0``: ``"zero"``, ``"identity"`` or a weight (dy, dx).
    refit : fit again on ``train + select`` once lambda is chosen.
    spectrum : ``Spectrum.of(train.x, select.x, intercept=...)``, when several targets share ``x``.
    filter : ``"ridge"``, or how else small eigenvalues are held back (`filter_factors`, the grid
        is then of its strengths): ``"nuclear"`` leaves those above lambda without bias,
        ``"spectral"`` scales least squares by ``1 / (1 + lambda)``.

    Raises
    ------
    GramianError : lambda 0 was asked for with no more rows than dimensions; a grid without a
        fold to choose on; an identity prior between unequal widths; diagonal moments of ``x``;
        an unknown filter.
    """
    check_filter(filter)
    if spectrum is None:
        spectrum = Spectrum.of(train.x, None if select is None else select.x, intercept=intercept)
    grid, notes = _grid(train, select, lambdas)
    base = _prior(prior, train)
    path = _Path.of(spectrum, train, base, intercept, filter)
    ridges = [relative * unit(spectrum, filter) for relative in grid]
    chosen = 0
    errors: dict[str, float] = {}
    if select is not None:
        held_out = path.errors_on(select, ridges)
        chosen = min(range(len(grid)), key=held_out.__getitem__)
        errors["select"] = held_out[chosen]
        if chosen == len(grid) - 1 and len(grid) > 1:
            notes.append("the largest lambda of the grid was chosen; more shrinkage may be better")
    strength = ridges[chosen]
    errors = {"train": path.error(strength)} | errors
    data = train
    used = spectrum
    if refit and select is not None:
        data = train + select
        if filter != "spectral":
            strength *= data.count / train.count
    if data is not train and filter == "ridge":
        objective = Quadratic.from_joint(data, intercept=intercept)
        if strength > 0:
            zero = torch.zeros_like(objective.B.T) if base is None else base
            objective = objective + Quadratic.prior(zero, strength)
        weight, full = minimise(objective, base)
    else:
        if data is not train:
            used = Spectrum.of(data.x, intercept=intercept)
            path = _Path.of(used, data, base, intercept, filter)
        weight = path.weight(strength)
        full = used.rank == used.d or (strength > 0 and filter != "spectral")
    notes += described(used, strength, filter)
    if not full:
        notes.append(f"the input is singular, rank {spectrum.rank} of {spectrum.d}")
    map: LinearMap = Dense(weight)
    if intercept:
        map = Affine(map, data.y.mean - weight @ data.x.mean)
    folds = {"train": train, "select": select, "report": report}
    if report is not None:
        errors["report"] = squared_error(report, map)
    evidence = Evidence(
        errors={fold: error / _of(folds, fold).count for fold, error in errors.items()},
        r2={fold: r_squared(error, _of(folds, fold)) for fold, error in errors.items()},
        condition=spectrum.condition,
        effective_rank=entropy_rank(spectrum.values),
        regularization=strength,
        relative_regularization=grid[chosen],
        rows_per_dimension=data.count / train.x.d,
        notes=tuple(notes),
    )
    return Solution(map, evidence)


@dataclass(frozen=True, eq=False)
class _Path:
    """The fits for all lambdas: ``W = W0 + (U f G)^T`` with ``f`` the factors of the filter."""

    spectrum: Spectrum
    base: Tensor | None
    start: float
    """Squared error of ``W0`` on the fitting fold."""
    centre: Tensor
    """(dy,) centre of the target."""
    rotated: Tensor
    """``G = U^T (B - A W0^T)``, (dx, dy)."""
    filter: str

    @classmethod
    def of(
        cls,
        spectrum: Spectrum,
        train: JointMoments,
        base: Tensor | None,
        intercept: bool,
        filter: str,
    ) -> _Path:
        centre = train.y.mean if intercept else torch.zeros_like(train.y.mean)
        target, start = _left(train, spectrum.centre, centre, base)
        return cls(spectrum, base, start, centre, spectrum.vectors.T @ target, filter)

    def _factors(self, strength: float) -> Tensor:
        return filter_factors(self.spectrum, strength, self.filter)

    def weight(self, ridge: float) -> Tensor:
        step = self.spectrum.vectors @ (self._factors(ridge)[:, None] * self.rotated)
        return step.T.contiguous() if self.base is None else self.base + step.T

    def error(self, ridge: float) -> float:
        """Squared error on the fitting fold."""
        f = self._factors(ridge)
        norms = self.rotated.square().sum(1)
        return self.start + float((norms * f * (self.spectrum.values * f - 2.0)).sum())

    def errors_on(self, fold: JointMoments, ridges: Sequence[float]) -> list[float]:
        """Squared error on another fold for every lambda, O(d^2) each."""
        # E(f) = f^T (A~ * G G^T) f - 2 f.h + c, A~ = U^T A U, h_i = sum_k G_ik (U^T B)_ik
        spectrum, vectors = self.spectrum, self.spectrum.vectors
        target, start = _left(fold, spectrum.centre, self.centre, self.base)
        judged = spectrum.judged
        if judged is None:
            judged = vectors.T @ about(fold.x, spectrum.centre) @ vectors
        square = judged * (self.rotated @ self.rotated.T)
        linear = (self.rotated * (vectors.T @ target)).sum(1)
        factors = (self._factors(ridge) for ridge in ridges)
        return [float(f @ (square @ f) - 2.0 * (f @ linear)) + start for f in factors]


def _left(fold: JointMoments, x: Tensor, y: Tensor, base: Tensor | None) -> tuple[Tensor, float]:
    """Cross moments about ``x`` and ``y`` that ``W0`` leaves to explain, and its squared error."""
    gap_x, gap_y = fold.x.mean - x, fold.y.mean - y
    if base is not None:
        objective = Quadratic.about(fold, x, y)
        return objective.B - objective.A @ base.T, objective.value(base)
    cross = torch.addr(fold.cross, gap_x, gap_y, alpha=fold.count)
    return cross, fold.y.trace + fold.count * float(gap_y @ gap_y)


def _of(folds: dict[str, JointMoments | None], fold: str) -> JointMoments:
    found = folds[fold]
    assert found is not None
    return found


def _grid(
    train: JointMoments, select: JointMoments | None, lambdas: Sequence[float] | None
) -> tuple[list[float], list[str]]:
    """The relative lambdas to try, and what to say about them."""
    notes: list[str] = []
    few = train.count <= train.x.d
    shape = f"{train.count:g} rows for {train.x.d} dimensions"
    if few:
        notes.append(f"{shape}: more text is needed, the map rests on its ridge")
    if lambdas is not None:
        grid = [float(value) for value in lambdas]
        if not grid or not all(0 <= value < float("inf") for value in grid):
            raise GramianError(f"lambdas are {grid}, expected finite numbers of at least 0")
        if few and 0.0 in grid:
            raise GramianError(f"lambda 0 with {shape} fits noise; use more rows or lambda > 0")
        if select is None and len(grid) > 1:
            raise GramianError(f"a grid of {len(grid)} lambdas needs a fold to choose on: select")
        return grid, notes
    if select is not None and select.count > 0:
        return [value for value in LAMBDAS if value > 0 or not few], notes
    chosen = FEW_ROWS if few else 0.0
    notes.append(f"no fold to choose lambda on; took {chosen:g} times the median eigenvalue")
    return [chosen], notes


def _prior(prior: str | Tensor, train: JointMoments) -> Tensor | None:
    dx, dy = train.x.d, train.y.d
    if isinstance(prior, Tensor):
        if tuple(prior.shape) != (dy, dx):
            raise GramianError(f"prior of shape {tuple(prior.shape)}, expected ({dy}, {dx})")
        return prior.detach().to(torch.float64)
    if prior == "zero":
        return None
    if prior != "identity":
        raise GramianError(f"prior is {prior!r}, expected 'zero', 'identity' or a weight")
    if dx != dy:
        raise GramianError(f"an identity prior needs equal widths, not {dx} and {dy}")
    return torch.eye(dx, dtype=torch.float64)
