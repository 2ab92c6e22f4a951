"""Three ways to hold back the small eigenvalues of a least squares fit."""

from __future__ import annotations

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.registry import method
from gramian.solvers.spectrum import Spectrum

FILTERS = ("ridge", "spectral", "nuclear")


@method("spectral_filter", job="solve", paper="2311.11093")
def filter_factors(spectrum: Spectrum, strength: float, filter: str = "ridge") -> Tensor:
    """What a fit multiplies each eigen-direction of ``Sxy`` by, instead of ``1 / s``.

    Among linear estimators ``L`` of bounded bias ``|L X - I| <= C`` the one of least variance
    ``tr L L^T`` has these factors, by the Schatten norm of the bound::

        ridge     1 / (s + strength)         Frobenius norm
        spectral  1 / (s (1 + strength))     spectral norm: least squares, all of it scaled
        nuclear   1 / max(s, strength)       nuclear norm: large directions without any bias

    At strength 0 all three are the pseudo-inverse. `ridge` takes them as ``filter=``.

    Parameters
    ----------
    spectrum : eigenvalues ``s`` (d,) of the second moments of the input.
    strength : not negative; in the units of ``s`` for ridge and nuclear, a pure number for
        spectral.

    Returns
    -------
    (d,) float64.

    Raises
    ------
    GramianError : an unknown filter or a negative strength.
    """
    check_filter(filter)
    if not 0 <= strength < float("inf"):
        raise GramianError(f"strength is {strength}, expected a finite number of at least 0")
    if filter == "spectral":
        return spectrum.inverse(0.0) / (1.0 + strength)
    if filter == "nuclear" and strength > 0:
        return 1.0 / spectrum.values.clamp_min(strength)
    return spectrum.inverse(strength)


def check_filter(filter: str) -> None:
    """Refuse a filter that there is not."""
    if filter not in FILTERS:
        known = ", ".join(map(repr, FILTERS))
        raise GramianError(f"filter is {filter!r}, expected one of {known}")


def unit(spectrum: Spectrum, filter: str) -> float:
    """The strength that a relative strength of 1 stands for."""
    return 1.0 if filter == "spectral" else spectrum.median


def described(spectrum: Spectrum, strength: float, filter: str) -> list[str]:
    """What to say about a filter other than the ridge."""
    if filter == "spectral":
        return [f"spectral filter: least squares times {1.0 / (1.0 + strength):.4g}"]
    if filter == "nuclear":
        held = int((spectrum.values < torch.tensor(strength)).sum())
        return [f"nuclear filter: {held} of {spectrum.d} directions held back, the rest unbiased"]
    return []
