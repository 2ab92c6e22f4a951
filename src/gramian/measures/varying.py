"""Which channels vary, and how many rows stand behind a measure."""

from __future__ import annotations

from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import Moments

CONSTANT = 1e-8
"""A channel whose standard deviation is below this times its RMS value counts as constant."""


def varying(moments: Moments, floor: float = CONSTANT) -> Tensor:
    """(d,) bool: the channels whose standard deviation is above ``floor`` x their RMS value.

    What is left of a constant channel after rounding is not taken for variation. Of a site that
    does not vary at all every entry is False.

    Raises
    ------
    GramianError : a floor outside [0, 1).
    """
    if not 0 <= floor < 1:
        raise GramianError(f"floor is {floor:g}, expected 0 <= floor < 1: a share of the RMS value")
    energy = moments.variances + moments.count * moments.mean.square()
    return moments.variances > floor * floor * energy


def varies(moments: Moments) -> bool:
    """Whether any channel varies."""
    return bool(varying(moments).any())


def rows(moments: Moments) -> float:
    """Number of rows; of weighted rows their effective number, ``(sum w)^2 / sum w^2``."""
    return moments.count * moments.count / moments.count2 if moments.count2 > 0 else 0.0


def require_rows(moments: Moments, least: int, what: str) -> float:
    """The number of rows, refused when it is below ``least``."""
    n = rows(moments)
    if n < least * (1 - 1e-9):
        raise GramianError(
            f"{what} needs {least} rows or more, these moments hold {n:g}; collect more text"
        )
    return n


def require_full(moments: Moments, side: str, what: str) -> None:
    """Refuse moments of which only the diagonal is kept."""
    if moments.is_diagonal:
        raise GramianError(
            f"{what}: only the diagonal of {side} is kept; collect that site with order='full'"
        )
