"""What every rank of a truncation loses, on moments that it was not made from."""

from __future__ import annotations

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import JointMoments, Moments
from gramian.solvers.truncate import Truncation, check_moments, checked_weight


def truncated_errors(
    found: Truncation,
    weight: Tensor,
    inputs: Moments | JointMoments | None = None,
    *,
    outputs: Moments | None = None,
) -> Tensor:
    """Squared error per row of every rank 0 to k on a fold, exactly: (k + 1,) float64.

    Rank 0 gives the mean of a centred truncation and nothing else, so its error is the squared
    length of what has to be given.

    Parameters
    ----------
    weight : (m, n), the layer that was truncated.
    inputs : full moments of its input; of a drifted input joint moments of ``x'`` and ``x``.
    outputs : full moments of ``W x``, in their place.

    Raises
    ------
    GramianError : neither or both are given, shapes that do not fit, or outputs for a truncation
        of drifted inputs.
    """
    w = checked_weight(weight)
    if (inputs is None) == (outputs is None):
        raise GramianError("give the moments of the inputs or those of the outputs")
    constant = torch.zeros(len(w), dtype=torch.float64)
    constant = constant if found.constant is None else found.constant
    if outputs is not None:
        check_moments(outputs, "outputs", len(w), full=True)
        if found.encode is None:
            raise GramianError("give moments of the inputs: these factors do not read outputs")
        gap = outputs.mean - constant
        # E (y - c)(y - c)^T
        seen = torch.addr(outputs.scatter / outputs.count, gap, gap)
        image = found.encode @ seen
        square = image @ found.encode.T
        linear = square.diagonal() if found.orthonormal else (image * found.up.T).sum(1)
        return _accumulated(found, float(seen.trace()), linear, square)
    assert inputs is not None
    return _from_inputs(found, w, inputs, constant)


def _from_inputs(
    found: Truncation, w: Tensor, inputs: Moments | JointMoments, constant: Tensor
) -> Tensor:
    now, before = (inputs.x, inputs.y) if isinstance(inputs, JointMoments) else (inputs, inputs)
    for moments in (now, before):
        check_moments(moments, "inputs", w.shape[1], full=True)
    zero = torch.zeros(len(found.down), dtype=torch.float64)
    origin = zero if found.coordinates is None else found.coordinates
    # z = down x' - e and y - c = W x - c: E z z^T, E z (y - c)^T up, E |y - c|^2
    mean, target = found.down @ now.mean - origin, w @ before.mean - constant
    spread = found.down @ (now.scatter / now.count)
    square = torch.addr(spread @ found.down.T, mean, mean)
    total = float(((w @ (before.scatter / before.count)) * w).sum() + target @ target)
    if found.orthonormal and now is before:
        return _accumulated(found, total, square.diagonal(), square)
    if isinstance(inputs, JointMoments):
        spread = found.down @ (inputs.cross / inputs.count)
    back = w.T @ found.up
    linear = (spread * back.T).sum(1) + mean * (target @ found.up)
    return _accumulated(found, total, linear, square)


def _accumulated(found: Truncation, total: float, linear: Tensor, square: Tensor) -> Tensor:
    """``E |y - c - up_r z_r|^2`` for every r."""
    if found.orthonormal:
        lengths = square.diagonal().cumsum(0)
    else:
        lengths = ((found.up.T @ found.up) * square).cumsum(0).cumsum(1).diagonal()
    saved = 2.0 * linear.cumsum(0) - lengths
    start = torch.zeros(1, dtype=torch.float64)
    return (total - torch.cat((start, saved))).clamp_min(0.0)
