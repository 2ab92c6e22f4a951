"""The evidence for a map, read from the moments of the folds it is judged on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, LinearMap
from gramian.moments import JointMoments, Quadratic, squared_error
from gramian.solvers.evidence import Evidence
from gramian.solvers.ridge import r_squared
from gramian.solvers.spectrum import Spectrum, entropy_rank


def stated(
    judged: Mapping[str, tuple[JointMoments | None, LinearMap]],
    spectrum: Spectrum,
    data: JointMoments,
    *,
    strength: float = 0.0,
    relative: float = 0.0,
    notes: Sequence[str] = (),
) -> Evidence:
    """Errors of maps on folds, and what their input is like.

    judged : fold to its moments and the map judged on it; folds without moments are left out.
    spectrum : of the input. data : the moments that the map returned was fitted on.
    """
    folds = {
        fold: (joint, squared_error(joint, map))
        for fold, (joint, map) in judged.items()
        if joint is not None and joint.count > 0
    }
    return Evidence(
        errors={fold: error / joint.count for fold, (joint, error) in folds.items()},
        r2={fold: r_squared(error, joint) for fold, (joint, error) in folds.items()},
        condition=spectrum.condition,
        effective_rank=entropy_rank(spectrum.values),
        regularization=strength,
        relative_regularization=relative,
        rows_per_dimension=data.count / data.x.d,
        notes=tuple(notes),
    )


def objective_of(joint: JointMoments, *, intercept: bool, solver: str) -> Quadratic:
    """The squared error to make small.

    Raises
    ------
    GramianError : no rows, or diagonal moments of ``x``.
    """
    if joint.count <= 0:
        raise GramianError(f"{solver}: no rows; collect more text")
    return Quadratic.from_joint(joint, intercept=intercept)


def with_bias(map: LinearMap | Tensor, joint: JointMoments, *, intercept: bool) -> LinearMap:
    """The map, with the bias that brings mean to mean where there is an intercept."""
    linear = Dense(map.contiguous()) if isinstance(map, Tensor) else map
    if not intercept:
        return linear
    return Affine(linear, joint.y.mean - linear(joint.x.mean.to(torch.float64)))
