"""Second moments behind a rotary position embedding, from those before it."""

from __future__ import annotations

from torch import Tensor

from gramian.errors import GramianError


def rotary(second: Tensor, cos: Tensor, sin: Tensor, turn: Tensor) -> Tensor:
    """Second moments of rows that every position rotates differently, averaged over positions.

    Position p takes a row ``y`` to ``cos_p * y + sin_p * (J y)``. Of rows whose distribution does
    not depend on their position, ``E[R_p y (R_p y)^T]`` is four elementwise products of ``C``,
    ``J C``, ``C J^T`` and ``J C J^T`` with the averages of ``cos cos^T``, ``sin cos^T`` ... over
    positions (RoPE, 2104.09864). With ``-sin`` it is the average of ``R_p^T y``.

    Parameters
    ----------
    second : (d, d) second moments of rows before the rotation.
    cos, sin : (positions, d).
    turn : (d, d) ``J``, a signed permutation.

    Raises
    ------
    GramianError : shapes that do not fit.
    """
    d = len(second)
    if cos.shape != sin.shape or cos.shape[1:] != (d,) or turn.shape != (d, d):
        raise GramianError(
            f"rotary: tables of shape {tuple(cos.shape)} and {tuple(sin.shape)} and a turn of "
            f"{tuple(turn.shape)} for rows of {d} features"
        )
    n = len(cos)
    left = turn @ second
    both = left @ turn.T
    crossed = (sin.T @ cos / n) * left
    return (cos.T @ cos / n) * second + crossed + crossed.T + (sin.T @ sin / n) * both


def rotary_mean(mean: Tensor, cos: Tensor, sin: Tensor, turn: Tensor) -> Tensor:
    """The mean (d,) of the same rows, averaged over positions."""
    return cos.mean(0) * mean + sin.mean(0) * (turn @ mean)
