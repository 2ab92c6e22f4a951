"""Row weights that bound what any one row adds to the second moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from scipy.stats import chi2
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments.moments import Moments, float64_rows
from gramian.registry import method

STEPS = 200
"""Weiszfeld steps at most for a geometric median."""


@dataclass(frozen=True, eq=False)
class RobustPilot:
    """A centre and a scale fixed by the first rows, so that every later row is weighed alone.

    A weight then depends on nothing but its row: sums of weighted rows add, whatever the batches,
    machines and restarts, as long as all of them share the pilot.
    """

    centre: Tensor
    """(d,) float64, the geometric median of the pilot rows."""
    scale: float
    """Median distance of the pilot rows from the centre, in the units of the rows."""
    rows: int
    """Pilot rows behind both."""

    @classmethod
    def fit(cls, rows: Any) -> RobustPilot:
        """The pilot of rows (n, d), of any float dtype. Both figures stand up to nearly half of
        the rows being arbitrary.

        Raises
        ------
        GramianError : no rows, NaN or infinity, or half of the rows in one place (no scale).
        """
        x = float64_rows(rows, "rows")
        centre = geometric_median(x)
        scale = _median_distance(x, centre)
        return cls(centre, scale, len(x))

    def weights(self, rows: Any) -> Tensor:
        """``min(1, (scale / |x - centre|)^2)`` for rows (n, d), (n,) float64."""
        return robust_weights(rows, self.centre, self.scale)

    def rescale(self, moments: Moments) -> Moments:
        """Weighted moments with their scatter brought to the scale of the bulk of the rows.

        Down-weighting shrinks the scatter: it tells the shape only. The factor makes the median
        of ``|x - centre|^2`` under a Gaussian of that covariance equal to ``scale^2``; the median
        of a sum of scaled squares is taken from the scaled chi-square of equal mean and variance
        (Satterthwaite). Rows that lie far out along a dominant direction are weighed down too,
        which shortens it: of a total variance of which it holds a third, 5 % are missing. The
        quartic part is dropped.

        Raises
        ------
        GramianError : moments of no rows, of another width, or without any variance.
        """
        if moments.d != len(self.centre) or not moments.trace > 0:
            raise GramianError(
                f"rescale: {moments!r} of total variance {moments.trace:g}, expected rows of "
                f"width {len(self.centre)} that vary"
            )
        # median of sum l_i z_i^2 ~ g median(chi^2_h), g = sum l^2 / sum l, h = (sum l)^2 / sum l^2
        covariance = moments.scatter / moments.count
        total, square = moments.trace / moments.count, float(covariance.square().sum())
        median = square / total * float(chi2.ppf(0.5, total * total / square))
        factor = self.scale**2 / median
        return Moments(moments.count, moments.count2, moments.mean, moments.scatter * factor)


@method("robust_weights", job="collect", paper="2305.02544")
def robust_weights(rows: Any, centre: Any = None, scale: float | None = None) -> Tensor:
    """Weights of rows that bound what each adds to the second moments: give them as ``weight=``.

    ``w = min(1, (m / |x - a|)^2)`` with a centre ``a`` and a scale ``m``, so that
    ``w |x - a|^2 <= m^2`` however far a row lies. The square matters: with the Huber weight
    ``m / |x - a|`` a far row still adds in proportion to its distance, and a few of them own the
    leading direction. The weighted scatter tells the shape; `RobustPilot.rescale` its size.

    Parameters
    ----------
    rows : (n, d), of any float dtype.
    centre : (d,), by default the geometric median of these rows.
    scale : ``m``, in the units of the rows, by default the median distance from the centre.
        For a stream fix both on its first rows: `RobustPilot`.

    Returns
    -------
    (n,) float64, in (0, 1].

    Raises
    ------
    GramianError : NaN or infinity in a row, a centre of another width, a scale that is not above
        zero, or half of the rows in one place and no scale given.
    """
    x = float64_rows(rows, "rows")
    if centre is None:
        a = geometric_median(x)
    else:
        a = float64_rows(torch.as_tensor(centre)[None], "centre")[0]
        if len(a) != x.shape[1]:
            raise GramianError(f"centre has {len(a)} coordinates, expected {x.shape[1]}")
    m = _median_distance(x, a) if scale is None else float(scale)
    if not 0 < m < float("inf"):
        raise GramianError(f"scale is {m:g}, expected a finite number above 0")
    distance = torch.linalg.vector_norm(x - a, dim=1)
    weight: Tensor = m / distance.clamp_min(m)
    return weight.square()


def geometric_median(rows: Tensor) -> Tensor:
    """The point of least total distance to rows (n, d) float64, by Weiszfeld's iteration.

    Raises
    ------
    GramianError : no rows.
    """
    if not len(rows):
        raise GramianError("no rows to take a centre of; collect more text")
    origin = rows.median(0).values
    x = rows - origin
    point, size = torch.zeros_like(origin), float(torch.linalg.vector_norm(x, dim=1).median())
    for _ in range(STEPS):
        gap = x - point
        distance = torch.linalg.vector_norm(gap, dim=1)
        away = distance > 1e-12 * size
        if not bool(away.any()):
            break
        pull = 1.0 / distance[away]
        # Vardi and Zhang (2000): rows in the point itself hold it back with their number
        step = (pull @ gap[away]) / pull.sum()
        held = float((~away).sum()) / max(float(torch.linalg.vector_norm(pull @ gap[away])), 1e-300)
        step = step * max(0.0, 1.0 - held)
        point = point + step
        if float(torch.linalg.vector_norm(step)) <= 1e-10 * size:
            break
    return origin + point


def _median_distance(rows: Tensor, centre: Tensor) -> float:
    if not len(rows):
        raise GramianError("no rows to take a scale of; collect more text")
    scale = float(torch.linalg.vector_norm(rows - centre, dim=1).median())
    if not scale > 0:
        raise GramianError(
            f"half of the {len(rows)} rows or more lie in one place, so they have no scale; "
            "give scale= in the units of the rows"
        )
    return scale
