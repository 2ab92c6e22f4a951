"""The orthogonal map that brings one site closest to another."""

from __future__ import annotations

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, LinearMap, Tag
from gramian.moments import JointMoments, Quadratic
from gramian.registry import method
from gramian.solvers.evidence import Solution
from gramian.solvers.judged import judged


@method("procrustes", job="solve", paper="Schönemann 1966, Psychometrika 31(1)")
def procrustes(
    joint: JointMoments,
    report: JointMoments | None = None,
    *,
    scaled: bool = False,
    rotation_only: bool = False,
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
    scaled : multiply by the best scalar, ``tr(W cross) / tr(W Sxx W^T)`` (Umeyama 1991).
    rotation_only : no reflection, ``det W = +1`` (Kabsch 1976); equal widths only.
    intercept : bring mean to mean; without one the moments are about zero.

    Raises
    ------
    GramianError : diagonal moments of ``x``, no rows, or a rotation between unequal widths.
    """
    if joint.count <= 0:
        raise GramianError("procrustes: no rows; collect more text")
    square = joint.x.d == joint.y.d
    if rotation_only and not square:
        raise GramianError(
            f"a rotation needs equal widths, not {joint.x.d} and {joint.y.d}; leave out "
            "rotation_only for the nearest map with orthonormal rows or columns"
        )
    objective = Quadratic.from_joint(joint, intercept=intercept)
    u, s, vh = torch.linalg.svd(objective.B, full_matrices=False)
    weight = vh.T @ u.T
    notes: list[str] = []
    floor = max(objective.B.shape) * torch.finfo(s.dtype).eps * float(s[0])
    rank = int((s > floor).sum())
    if rank < len(s):
        notes.append(f"the cross scatter has rank {rank} of {len(s)}: the rest of W is arbitrary")
    if rotation_only and float(torch.linalg.slogdet(weight)[0]) < 0:
        weight = weight - 2.0 * torch.outer(vh[-1], u[:, -1])
        notes.append("the best orthogonal map is a reflection; took the best rotation")
    if scaled:
        # below zero only for rotations of width one, where it would be the reflection again
        scale = max(0.0, best_scale(weight, objective))
        weight = scale * weight
        notes.append(f"scale {scale:.6g}")
    tags = {Tag.ORTHOGONAL} if square and not scaled else set[Tag]()
    map: LinearMap = Dense(weight.contiguous(), tags=tags)
    if intercept:
        map = Affine(map, joint.y.mean - weight @ joint.x.mean)
    folds = {"train": joint, "report": report}
    return judged(map, folds, s, rows=joint.count, notes=notes)


def best_scale(weight: Tensor, objective: Quadratic) -> float:
    """The scalar by which a weight (dy, dx) fits best; zero where its input does not vary."""
    # c = tr(W B) / tr(W A W^T)
    spread = float(((weight @ objective.A) * weight).sum())
    return float((weight * objective.B.T).sum()) / spread if spread > 0 else 0.0
