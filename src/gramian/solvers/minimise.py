"""The minimiser of one quadratic."""

from __future__ import annotations

import scipy.linalg
import torch
from torch import Tensor

from gramian.moments import Quadratic
from gramian.solvers.spectrum import eigh


def minimise(objective: Quadratic, base: Tensor | None = None) -> tuple[Tensor, bool]:
    """The weight (dy, dx) of least objective, and whether ``A`` has full rank.

    By one Cholesky factorisation after scaling ``A`` to unit diagonal. When ``A`` is singular,
    by eigenvalues: of all minimisers the one nearest to ``base`` (by default zero).

    Equivalent to ``numpy.linalg.lstsq`` when the objective is a least squares problem.
    """
    target = objective.B if base is None else objective.B - objective.A @ base.T
    step = _cholesky(objective.A, target)
    full = step is not None
    if step is None:
        values, vectors = eigh(objective.A)
        kept = values > len(values) * torch.finfo(values.dtype).eps * values[-1]
        basis = vectors[:, kept]
        step = basis @ ((basis.T @ target) / values[kept, None])
    return (step.T if base is None else base + step.T).contiguous(), full


def _cholesky(matrix: Tensor, target: Tensor) -> Tensor | None:
    """``matrix^-1 target``, or None when the matrix is singular to rounding."""
    diagonal = matrix.diagonal()
    if not bool((diagonal > 0).all()):
        return None
    scale = diagonal.rsqrt()
    scaled = scale[:, None] * matrix * scale
    floor = 8.0 * len(matrix) * torch.finfo(matrix.dtype).eps
    if matrix.device.type != "cpu":
        lower, info = torch.linalg.cholesky_ex(scaled)
        if int(info) != 0 or float(lower.diagonal().min()) ** 2 <= floor:
            return None
        return scale[:, None] * torch.cholesky_solve(scale[:, None] * target, lower)
    try:
        factor = scipy.linalg.cho_factor(
            scaled.numpy().T, lower=True, overwrite_a=True, check_finite=False
        )
    except scipy.linalg.LinAlgError:
        return None
    if float(factor[0].diagonal().min()) ** 2 <= floor:
        return None
    right = (scale[:, None] * target).numpy()
    return scale[:, None] * torch.from_numpy(scipy.linalg.cho_solve(factor, right))
