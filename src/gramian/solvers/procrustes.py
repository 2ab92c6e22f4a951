"""The orthogonal map that brings one site closest to another."""

from __future__ import annotations

import math

import torch

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, LinearMap, Tag
from gramian.moments import JointMoments, Quadratic, squared_error
from gramian.registry import method
from gramian.solvers.evidence import Evidence, Solution
from gramian.solvers.ridge import r_squared
from gramian.solvers.spectrum import entropy_rank


@method("procrustes", job="solve", paper="Schönemann 1966, Psychometrika 31(1)")
def procrustes(
    joint: JointMoments,
    report: JointMoments | None = None,
    *,
    scaled: bool = False,
    intercept: bool = True,
) -> Solution:
    """Orthogonal map of least squared error, from the polar factor of the cross scatter.

    ``W = V U^T`` with the thin SVD ``cross = U S V^T``; equivalent to
    ``scipy.linalg.orthogonal_procrustes`` on centred rows (``R = W^T``). Between unequal widths
    ``W`` has orthonormal rows or columns, the same as after padding with zeros.

    Parameters
    ----------
    joint : joint moments (dx, dy) to fit on.
    report : joint moments of a fold to state the error on.
    scaled : multiply by the best scalar, ``sum S / tr(W Sxx W^T)``.
    intercept : bring mean to mean; without one the moments are about zero.

    Raises
    ------
    GramianError : diagonal moments of ``x``, or no rows.
    """
    if joint.count <= 0:
        raise GramianError("procrustes: no rows; collect more text")
    objective = Quadratic.from_joint(joint, intercept=intercept)
    u, s, vh = torch.linalg.svd(objective.B, full_matrices=False)
    weight = vh.T @ u.T
    notes: list[str] = []
    square = joint.x.d == joint.y.d
    floor = max(objective.B.shape) * torch.finfo(s.dtype).eps * float(s[0])
    rank = int((s > floor).sum())
    if rank < len(s):
        notes.append(f"the cross scatter has rank {rank} of {len(s)}: the rest of W is arbitrary")
    if scaled:
        spread = float(((weight @ objective.A) * weight).sum())
        scale = float(s.sum()) / spread if spread > 0 else 0.0
        weight = scale * weight
        notes.append(f"scale {scale:.6g}")
    tags = {Tag.ORTHOGONAL} if square and not scaled else set[Tag]()
    map: LinearMap = Dense(weight.contiguous(), tags=tags)
    if intercept:
        map = Affine(map, joint.y.mean - weight @ joint.x.mean)
    folds = {"train": joint} | ({} if report is None else {"report": report})
    errors = {fold: squared_error(moments, map) for fold, moments in folds.items()}
    evidence = Evidence(
        errors={fold: error / folds[fold].count for fold, error in errors.items()},
        r2={fold: r_squared(error, folds[fold]) for fold, error in errors.items()},
        condition=float(s[0] / s[-1]) if rank == len(s) else math.inf,
        effective_rank=entropy_rank(s),
        regularization=0.0,
        relative_regularization=0.0,
        rows_per_dimension=joint.count / joint.x.d,
        notes=tuple(notes),
    )
    return Solution(map, evidence)
