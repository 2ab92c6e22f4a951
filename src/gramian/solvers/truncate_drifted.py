"""A layer of a given rank for inputs that earlier layers have changed."""

from __future__ import annotations

import torch
from torch import Tensor

from gramian.moments import JointMoments
from gramian.registry import method
from gramian.solvers.spectrum import eigh
from gramian.solvers.truncate import Truncation, check_moments, checked_weight


@method("truncate_drifted", job="compress", paper="2604.02119")
def truncation_drifted(weight: Tensor, joint: JointMoments, *, centred: bool = False) -> Truncation:
    """Truncation for a layer whose inputs have changed and whose outputs should not.

    Minimises ``E |W x - W' x'|^2``: with ``K = E[x x'^T]`` and ``C' = E[x' x'^T]`` the answer of
    full rank is ``F = W K C'^+``, and of rank r ``U U^T F`` with ``U`` the leading eigenvectors
    of ``F K^T W^T``.

    Parameters
    ----------
    weight : (m, n).
    joint : of ``x'``, what the layer is given, and ``x``, what it was given before, both full.
    centred : about the means, with the mean output restored by the bias.

    Raises
    ------
    GramianError : shapes that do not fit, numbers that are not finite, diagonal moments.
    """
    w = checked_weight(weight)
    now, before = joint.x, joint.y
    for moments in (now, before):
        check_moments(moments, "inputs", w.shape[1], full=True)
    count = joint.count
    second = (now.scatter if centred else now.raw()) / count
    old = (before.scatter if centred else before.raw()) / count
    cross = (joint.cross if centred else joint.raw_cross()) / count
    spectrum, axes = eigh(second)
    cut = len(spectrum) * torch.finfo(torch.float64).eps * float(spectrum[-1])
    kept = spectrum > max(cut, 0.0)
    # F = W K C'^+, and F C' F^T = (W K V / sqrt(l)) (...)^T
    image = (w @ cross.T) @ axes[:, kept]
    half = image / spectrum[kept].sqrt()
    left, singular, _ = torch.linalg.svd(half, full_matrices=False)
    fitted = (image / spectrum[kept]) @ axes[:, kept].T
    down = left.T @ fitted
    values = singular.square()
    missing = max(0.0, float(((w @ old) * w).sum()) - float(values.sum()))
    constant = w @ before.mean if centred else None
    coordinates = down @ now.mean if centred else None
    return Truncation(
        values,
        left,
        down,
        constant=constant,
        coordinates=coordinates,
        unreachable=missing,
    )
