"""The weighting vector of a set of points: which lie at its edge, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments.moments import float64_rows
from gramian.registry import method
from gramian.solvers.spectrum import LARGEST


@dataclass(frozen=True, eq=False)
class Magnitude:
    """Weights of points, and their sum."""

    weights: Tensor
    """(n,) float64: near 1 for a point apart from the others, near 0 inside a crowd, sometimes
    below. Points at one place share the weight of that place."""
    scale: float
    """``t``: similarity is ``exp(-t distance)``."""
    points: Tensor
    """(m, d), the different points, about ``origin``."""
    origin: Tensor
    """(d,) what the points were measured from."""
    place_weights: Tensor
    """(m,) weights of the different points."""
    factor: Tensor
    """(m, m) lower Cholesky factor of their similarities."""

    @property
    def value(self) -> float:
        """The magnitude, an effective number of points, from 1 to n."""
        return float(self.weights.sum())

    def weight_of(self, rows: Any) -> Tensor:
        """The weight that each of some new points (p, d) would have if it alone joined, (p,).

        A point that is there already has the weight of its place. Large weights are outliers.

        Raises
        ------
        GramianError : rows of another width, or NaN or infinity in a row.
        """
        new = float64_rows(rows, "rows")
        if new.shape[1] != len(self.origin):
            raise GramianError(f"rows of width {new.shape[1]}, expected {len(self.origin)}")
        near = _similarity(self.points, new - self.origin, self.scale)
        # (1 - k^T w) / (1 - k^T Z^-1 k)
        solved = torch.linalg.solve_triangular(self.factor, near, upper=False)
        left = 1.0 - solved.square().sum(0)
        similarity, place = near.max(0)
        same = similarity >= 1.0
        weight = (1.0 - self.place_weights @ near) / left.where(~same, torch.ones_like(left))
        return torch.where(same, self.place_weights[place], weight)


@method("magnitude_weights", job="inspect", paper="2006.14063")
def magnitude_weights(rows: Any, *, scale: float | None = None) -> Magnitude:
    """Weights w with ``Z w = 1``, ``Z_ij = exp(-t |x_i - x_j|)``: how far each point lies at the
    edge of the set.

    It needs all pairwise distances: run it on a reservoir of rows, on centroids or class means.
    In many dimensions distances concentrate and all weights become alike; project first.

    Parameters
    ----------
    rows : (n, d) in any float dtype, 1 <= n <= 8192.
    scale : t, per unit of distance; by default one over the median distance between different
        points.

    Raises
    ------
    GramianError : no rows, more than 8192 different ones, a scale that is not positive, NaN, or
        points so near to each other at this scale that their similarities are one to rounding.
    """
    x = float64_rows(rows, "rows")
    if len(x) == 0:
        raise GramianError("magnitude of no rows")
    if scale is not None and not (scale > 0 and scale < float("inf")):
        raise GramianError(f"scale is {scale!r}, expected a positive number, or None for 1/median")
    origin = x.mean(0)
    places, place, copies = torch.unique(x, dim=0, return_inverse=True, return_counts=True)
    if len(places) > LARGEST:
        raise GramianError(
            f"magnitude of {len(places)} different rows, expected at most {LARGEST}; give a sample "
            "or centroids"
        )
    points = places - origin
    if scale is None:
        distances = torch.pdist(points)
        scale = 1.0 / float(distances.median()) if len(distances) else 1.0
    factor, info = torch.linalg.cholesky_ex(_similarity(points, points, scale))
    if int(info) != 0:
        raise GramianError(
            f"some rows are so near to each other at scale {scale:g} that they cannot be told "
            "apart in float64; give a larger scale, or round the rows so that they coincide"
        )
    ones = torch.ones(len(points), 1, dtype=torch.float64)
    weights = torch.cholesky_solve(ones, factor)[:, 0]
    return Magnitude((weights / copies)[place], scale, points, origin, weights, factor)


def _similarity(a: Tensor, b: Tensor, scale: float) -> Tensor:
    """``exp(-t |a_i - b_j|)``; distances from differences, not from products."""
    mode = "donot_use_mm_for_euclid_dist"
    return (-scale * torch.cdist(a, b, compute_mode=mode)).exp()
