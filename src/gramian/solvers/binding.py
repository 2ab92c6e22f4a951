"""A map of captions after which swapped attributes no longer match."""

from __future__ import annotations

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Dense
from gramian.moments import JointMoments
from gramian.registry import method


@method("labclip", job="bridge", paper="2502.03566")
def binding(
    matching: JointMoments, swapped: JointMoments, *, contrast: float = 0.5, ridge: float = 0.01
) -> Dense:
    """Linear map of captions that tells them from the same with their attributes swapped.

    ``A = (Mvv + gI)^-1 (M+ - c M-) (Mtt + gI)^-1`` about zero, ``M+ = E[v t+^T]`` of matching
    captions, ``M- = E[v t-^T]`` of swapped ones, ``Mtt`` over both: the closed form that a
    contrastive fit starts from. The score is ``cos(v, A t)``; ``A`` may be multiplied into a text
    projection without a bias, if nothing else uses that.

    Parameters
    ----------
    matching, swapped : images as ``x`` and captions as ``y`` over the same images, both full.
    contrast : c, 0 (swapped captions only widen ``Mtt``) to 1 (what both have in common is lost).
    ridge : g over the mean eigenvalue of either side.

    Raises
    ------
    GramianError : diagonal moments, widths or images that differ, no rows, settings out of range.
    """
    if not 0 <= contrast <= 1:
        raise GramianError(f"contrast is {contrast}, expected 0 to 1")
    if not 0 < ridge < float("inf"):
        raise GramianError(f"ridge is {ridge}, expected a positive number")
    sides = (matching.x, matching.y, swapped.x, swapped.y)
    if any(side.is_diagonal for side in sides):
        raise GramianError("binding needs full moments of both sides; collect order='full'")
    if matching.cross.shape != swapped.cross.shape:
        raise GramianError(
            f"matching {matching!r} and swapped {swapped!r}: expected the same widths"
        )
    n = matching.count
    if n <= 0 or abs(swapped.count - n) > 1e-9 * n:
        raise GramianError(
            f"{n:g} matching and {swapped.count:g} swapped captions, expected one of each an image"
        )
    captions = matching.y + swapped.y
    pull = (_raw_cross(matching) - contrast * _raw_cross(swapped)) / n
    left = _loaded(matching.x.raw() / n, ridge, "images")
    right = _loaded(captions.raw() / captions.count, ridge, "captions")
    half = torch.linalg.solve(left, pull)
    return Dense(torch.linalg.solve(right, half.T).T.contiguous())


def _raw_cross(joint: JointMoments) -> Tensor:
    return joint.cross + joint.count * torch.outer(joint.x.mean, joint.y.mean)


def _loaded(second: Tensor, ridge: float, what: str) -> Tensor:
    mean = float(second.diagonal().mean())
    if not mean > 0:
        raise GramianError(f"the {what} are all rows of zeros")
    return second + ridge * mean * torch.eye(len(second), dtype=second.dtype)
