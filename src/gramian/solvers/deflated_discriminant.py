"""Orthonormal directions that tell classes apart, each the best of what the earlier ones leave."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from scipy.stats import chi2
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Dense
from gramian.moments import Moments
from gramian.registry import method
from gramian.solvers.discriminant import inverse_root, shrunk_within, within_classes

_EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True, eq=False)
class Deflated:
    """Orthonormal directions, in the order in which they were found."""

    projection: Tensor
    """Pi, (d, r) float64 with ``Pi^T Pi = I``: rows map to ``(x - mean) @ Pi``."""
    values: Tensor
    """(r,) scatter between classes over that within, along each direction."""
    mean: Tensor
    """(d,) what is subtracted first."""
    within: Tensor
    """(d, d) scatter within classes per row, with its shrinkage."""

    @property
    def map(self) -> Affine:
        """The same as a map from rows (..., d) to (..., r)."""
        weight = self.projection.T.contiguous()
        return Affine(Dense(weight), -(weight @ self.mean))


@method("deflated_discriminant", job="solve", paper="2302.05441")
def deflated_discriminant(
    total: Moments,
    counts: Tensor,
    means: Tensor,
    *,
    shrinkage: float | str | None = None,
    components: int | None = None,
    level: float | None = 0.05,
) -> Deflated:
    """Diverse directions for a few labels of a shifted task: the linear part of Project and Probe.

    The first is that of `discriminant`; every later one is the first discriminant direction
    within the orthogonal complement of those before. So a feature that the first leans on and that
    fails on new data is absent from the rest, and there may be more than K - 1 of them, up to d.
    Lengths are of the raw space: change the units of a coordinate and the directions change, and
    of two classes with equal spread in every direction (whitened rows) there is only one.

    Parameters
    ----------
    total, counts, means, shrinkage : as in `discriminant`.
    components : the most directions; None for all above the noise.
    level : stop once the class means agree in the complement, by Bartlett's test of Wilks' lambda
        at this level. As the earlier directions were chosen on the same rows, it stops early
        rather than late. None stops at float64 rounding only.

    Raises
    ------
    GramianError : see `discriminant`; too few rows for the test, or not one direction above noise.
    """
    within = within_classes(total, counts, means)
    counts = torch.as_tensor(counts, dtype=torch.float64)
    means = torch.as_tensor(means, dtype=torch.float64)
    d, classes = total.d, len(counts)
    most = d if components is None else components
    if not 1 <= most <= d:
        raise GramianError(f"components is {components}, expected 1 to {d}")
    if level is not None and not 0.0 < level < 1.0:
        raise GramianError(f"level is {level}, expected None or a number above 0 and below 1")
    if level is not None and total.count <= d + classes:
        raise GramianError(
            f"{total.count:g} rows of {d} coordinates in {classes} classes are too few to tell "
            "means from noise; pass level=None, with a shrinkage"
        )
    spread = shrunk_within(within, shrinkage)
    share = counts / counts.sum()
    centre = share @ means
    spokes = ((means - centre) * share.sqrt()[:, None]).T
    rounding = 8 * _EPS * math.sqrt(float(means.square().sum()))
    found = torch.zeros(d, 0, dtype=torch.float64)
    values: list[float] = []
    while len(values) < most:
        # w = N (N^T S N)^-1 N^T (m_1 - m_0), N a basis of the complement; for more classes the
        # first generalised eigenvector of N^T S_B N and N^T S N
        basis = torch.linalg.qr(found, mode="complete").Q[:, len(values) :]
        part = basis.T @ spread @ basis
        root = inverse_root((part + part.T) / 2)
        between = root.T @ (basis.T @ spokes)
        if not between.shape[0]:
            break
        u, s, _ = torch.linalg.svd(between, full_matrices=False)
        strongest = math.sqrt(max(values, default=0.0))
        if float(s[0]) <= max(rounding * float(root.norm()), d * _EPS * strongest, 1e-300):
            break
        if level is not None and not _apart(s, total.count, root.shape[1], classes, level):
            break
        w = basis @ (root @ u[:, 0])
        found = torch.cat([found, (w / w.norm())[:, None]], 1)
        values.append(float(s[0]) ** 2)
    if not values:
        raise GramianError(
            f"nothing tells the {classes} classes apart beyond noise; pass more rows, a higher "
            "level, or level=None to stop at rounding only"
        )
    return Deflated(found, torch.tensor(values, dtype=torch.float64), centre, spread)


def _apart(s: Tensor, n: float, width: int, classes: int, level: float) -> bool:
    """Whether means differ: -(n - 1 - (p + K)/2) ln L ~ chi^2 of p (K - 1), Bartlett 1938."""
    statistic = (n - 1 - (width + classes) / 2) * float(torch.log1p(s.square()).sum())
    return bool(statistic > chi2.isf(level, width * (classes - 1)))
