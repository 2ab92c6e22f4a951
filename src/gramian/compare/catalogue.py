"""The measures that layers are compared by, under the names that a person gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gramian.errors import GramianError
from gramian.measures import (
    bures_distance,
    cca,
    frechet_distance,
    procrustes_distance,
    pwcca,
    regression_r2,
    shape_distance,
    svcca,
)
from gramian.moments import JointMoments, Moments


@dataclass(frozen=True)
class Measure:
    """One way to compare two sites."""

    name: str
    summary: str
    family: str
    """``alignment`` (from cross scatters and one number per site), ``joint`` (from both scatters
    and the cross scatter), ``spectrum`` or ``apart`` (from the scatters alone)."""
    similarity: bool = True
    """Whether larger means closer; else it is a distance."""
    symmetric: bool = True
    equal_widths: bool = False
    joint: Callable[[JointMoments], float] | None = None
    """Of a ``joint`` measure: row site ``x``, column site ``y``."""
    apart: Callable[[Moments, Moments], float] | None = None
    """Of an ``apart`` measure."""

    @property
    def paired(self) -> bool:
        """Whether it needs rows of both sites side by side."""
        return self.family in ("alignment", "joint")


def _of(*measures: Measure) -> dict[str, Measure]:
    return {measure.name: measure for measure in measures}


MEASURES = _of(
    Measure("cka", "debiased linear CKA: up to rotation and scale", "alignment"),
    Measure("cka_plain", "linear CKA without the correction for few rows", "alignment"),
    Measure(
        "cka_standardised",
        "plain CKA with every channel brought to one standard deviation",
        "alignment",
    ),
    Measure("cca", "mean canonical correlation", "joint", joint=lambda j: cca(j).mean),
    Measure("cca_r2", "mean squared canonical correlation", "joint", joint=lambda j: cca(j).r2),
    Measure(
        "svcca",
        "mean canonical correlation of the directions that hold 99 % of the variance",
        "joint",
        joint=lambda j: svcca(j).mean,
    ),
    Measure(
        "pwcca",
        "canonical correlations weighted by what they explain of the row site",
        "joint",
        symmetric=False,
        joint=pwcca,
    ),
    Measure(
        "regression_r2",
        "variance of the row site that least squares from the column site explains",
        "joint",
        symmetric=False,
        joint=regression_r2,
    ),
    Measure(
        "procrustes",
        "distance after the best rotation, in the units of the rows",
        "joint",
        similarity=False,
        joint=procrustes_distance,
    ),
    Measure(
        "angular",
        "angle after the best rotation, in radians",
        "joint",
        similarity=False,
        joint=lambda j: shape_distance(j, kind="angular"),
    ),
    Measure(
        "spectral",
        "distance between the shares of variance along principal directions; rows unpaired",
        "spectrum",
        similarity=False,
    ),
    Measure(
        "bures",
        "Bures-Wasserstein distance between covariances; rows unpaired, widths equal",
        "apart",
        similarity=False,
        equal_widths=True,
        apart=bures_distance,
    ),
    Measure(
        "frechet",
        "the same with the distance between the means; rows unpaired, widths equal",
        "apart",
        similarity=False,
        equal_widths=True,
        apart=frechet_distance,
    ),
)
"""Name to measure."""

PAIRED = ("cka", "cka_standardised")
"""Measures of sites whose rows were collected together, where none are named."""
UNPAIRED = ("spectral", "bures")
"""Measures of two collections made apart, where none are named."""


def named(names: Iterable[str], *, paired: bool) -> tuple[Measure, ...]:
    """The measures of these names, each once.

    Raises
    ------
    GramianError : an unknown one, or one that needs paired rows where there are none.
    """
    found = []
    for name in dict.fromkeys(names):
        if name not in MEASURES:
            raise GramianError(f"unknown measure {name!r}; expected some of {', '.join(MEASURES)}")
        if MEASURES[name].paired and not paired:
            free = [known for known, measure in MEASURES.items() if not measure.paired]
            raise GramianError(
                f"{name} compares rows side by side, and two collections made apart do not say "
                f"which rows belong together; use {', '.join(free)}, or collect both networks "
                "in one joint pass (gramian collect MODEL_A MODEL_B --for compare)"
            )
        found.append(MEASURES[name])
    if not found:
        raise GramianError(f"no measure is named; expected some of {', '.join(MEASURES)}")
    return tuple(found)
