"""A ridge on any quadratic objective, its strength chosen on another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import Quadratic
from gramian.solvers.minimise import minimise
from gramian.solvers.spectrum import Spectrum, eigh

STRENGTHS = (0.0, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""The default grid, relative to the median eigenvalue of ``A``."""


@dataclass(frozen=True, eq=False)
class Shrunk:
    """The minimiser and how it was held back."""

    weight: Tensor
    """(dy, dx) float64."""
    ridge: float
    """What was added to the diagonal of ``A``."""
    relative: float
    """The same over the median eigenvalue of ``A``."""
    condition: float
    """Largest over smallest eigenvalue of ``A`` before; infinite when singular."""


def quadratic_ridge(
    fit: Quadratic,
    judge: Quadratic | None = None,
    *,
    strengths: Sequence[float] | None = None,
    more: Quadratic | None = None,
) -> Shrunk:
    """The weight of least ``fit(W) + ridge |W|^2``.

    What the objective is about is the caller's: of the increment that a map adds, shrinking
    ``W`` to zero is shrinking the map towards the identity.

    Parameters
    ----------
    fit : the objective, ``A`` (dx, dx) and ``B`` (dx, dy).
    judge : the objective on other rows; the strength of least value there is taken.
    strengths : relative to the median eigenvalue of ``fit.A``, which no single loud row owns;
        several need ``judge``.
    more : added to ``fit`` once the strength is chosen, for a fit on all rows. The ridge grows
        with the rows.

    Raises
    ------
    GramianError : no strength, one that is negative or not finite, several without ``judge``, or 0
        with no more rows than dimensions.
    """
    few = fit.n <= len(fit.A)
    grid = list(STRENGTHS if strengths is None else strengths)
    if strengths is None and few:
        grid = [value for value in grid if value > 0]
    if not grid or not all(0 <= value < float("inf") for value in grid):
        raise GramianError(f"strengths are {grid}, expected finite numbers of at least 0")
    if few and 0.0 in grid:
        raise GramianError(
            f"a ridge of 0 with {fit.n:g} rows for {len(fit.A)} dimensions fits noise; use more "
            "rows or a strength above 0"
        )
    if len(grid) > 1 and judge is None:
        raise GramianError(f"a grid of {len(grid)} strengths needs an objective to choose on")
    values, vectors = eigh(fit.A)
    spectrum = Spectrum(values.clamp_min(0.0), vectors, torch.zeros_like(values), fit.n)
    ridges = [relative * spectrum.median for relative in grid]
    rotated = vectors.T @ fit.B
    chosen = 0
    if judge is not None and len(grid) > 1:
        found = _values(spectrum, rotated, judge, ridges)
        chosen = min(range(len(grid)), key=found.__getitem__)
    ridge = ridges[chosen]
    if more is None:
        weight = (vectors @ (spectrum.inverse(ridge)[:, None] * rotated)).T.contiguous()
        return Shrunk(weight, ridge, grid[chosen], spectrum.condition)
    whole = fit + more
    ridge *= whole.n / fit.n
    if ridge > 0:
        whole = whole + Quadratic.prior(torch.zeros_like(fit.B.T), ridge)
    return Shrunk(minimise(whole)[0], ridge, grid[chosen], spectrum.condition)


def _values(
    spectrum: Spectrum, rotated: Tensor, judge: Quadratic, ridges: Sequence[float]
) -> list[float]:
    """``judge`` at the fit of every ridge, O(d^2) each."""
    # With W = (U f G)^T: f^T (U^T A U * G G^T) f - 2 f.h + c, h_i = sum_k G_ik (U^T B)_ik
    vectors = spectrum.vectors
    square = (vectors.T @ judge.A @ vectors) * (rotated @ rotated.T)
    linear = (rotated * (vectors.T @ judge.B)).sum(1)
    factors = [spectrum.inverse(ridge) for ridge in ridges]
    return [float(f @ (square @ f) - 2.0 * (f @ linear)) + judge.c for f in factors]
