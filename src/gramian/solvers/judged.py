"""A map and its exact error on every fold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from gramian.maps import LinearMap
from gramian.moments import JointMoments, squared_error
from gramian.solvers.evidence import Evidence, Solution
from gramian.solvers.spectrum import entropy_rank


def judged(
    map: LinearMap,
    folds: Mapping[str, JointMoments | None],
    values: Tensor,
    *,
    rows: float,
    first: LinearMap | None = None,
    notes: Sequence[str] = (),
    regularization: float = 0.0,
    relative: float = 0.0,
) -> Solution:
    """The solution that a map is: its error per row and R² on every fold that there is.

    values : eigenvalues or singular values that the fit rested on. rows : rows of the fit.
    first : the map fitted on ``train`` alone, where ``map`` was fitted again on ``train + select``:
        the errors of both folds are of it, so the one on ``select`` is of rows it has not seen.
    """
    there = {name: fold for name, fold in folds.items() if fold is not None and fold.count > 0}
    errors = {
        name: squared_error(fold, map if first is None or name == "report" else first)
        for name, fold in there.items()
    }
    largest, smallest = float(values.max()), float(values.min())
    floor = max(map.shape) * 2.0**-52 * largest
    evidence = Evidence(
        errors={name: error / there[name].count for name, error in errors.items()},
        r2={name: r_squared(error, there[name]) for name, error in errors.items()},
        condition=largest / smallest if smallest > floor else math.inf,
        effective_rank=entropy_rank(values),
        regularization=regularization,
        relative_regularization=relative,
        rows_per_dimension=rows / map.in_features,
        notes=tuple(notes),
    )
    return Solution(map, evidence)


def r_squared(error: float, fold: JointMoments) -> float:
    """``1 - error / tr Syy``; nan when the target does not vary."""
    variance = fold.y.trace
    return 1.0 - error / variance if variance > 0 else float("nan")
