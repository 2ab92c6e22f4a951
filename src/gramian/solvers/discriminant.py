"""Directions that tell classes apart: between-class against within-class scatter."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Dense
from gramian.moments import Moments
from gramian.registry import method
from gramian.solvers.shrinkage import ledoit_wolf, linear_shrinkage
from gramian.solvers.spectrum import eigh

_EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True, eq=False)
class Directions:
    """Projections of a generalised eigenproblem, strongest first."""

    projection: Tensor
    """P, (d, r) float64: rows map to ``(x - mean) @ P``."""
    values: Tensor
    """(r,) generalised eigenvalues, descending."""
    mean: Tensor
    """(d,) what is subtracted first."""
    denominator: Tensor
    """(d, d) scatter per row that was divided by, with its shrinkage: ``P^T S P = I``."""

    @property
    def map(self) -> Affine:
        """The same as a map from rows (..., d) to (..., r)."""
        weight = self.projection.T.contiguous()
        return Affine(Dense(weight), -(weight @ self.mean))


@method("discriminant", job="solve", paper="Fisher 1936, Annals of Eugenics 7(2); 2503.12562")
def discriminant(
    total: Moments,
    counts: Tensor,
    means: Tensor,
    *,
    shrinkage: float | str | None = None,
    components: int | None = None,
) -> Directions:
    """Directions that part classes most for their spread within, from class means and moments.

    Solves ``S_B v = l S_W v``; at most K - 1 directions, scaled so that the scatter within is the
    identity. Spans the same space as scikit-learn's ``LinearDiscriminantAnalysis(solver="eigen")``.

    Parameters
    ----------
    total : moments of all rows; `discriminant_within` takes the scatter within classes instead.
    counts : (K,) rows of each class, above 0. means : (K, d) class means.
    shrinkage : None leaves out directions without spread within classes (d above n); a number
        from 0 to 1 draws ``S_W`` towards its mean variance; ``"ledoit_wolf"`` chooses that number
        by 1308.2608, as a difference of moments has no fourth-order sums; `discriminant_within`
        takes Ledoit and Wolf's own where its moments keep them.
    components : how many directions are kept.

    Raises
    ------
    GramianError : shapes that do not fit, fewer than two classes, diagonal moments, means that do
        not belong to the moments, a shrinkage that does not exist, or nothing that tells apart.
    """
    within = within_classes(total, counts, means)
    return discriminant_within(within, counts, means, shrinkage=shrinkage, components=components)


def within_classes(total: Moments, counts: Tensor, means: Tensor) -> Moments:
    """Moments of the rows about their class means: the total scatter less the one between.

    Raises
    ------
    GramianError : see `discriminant`.
    """
    counts, means = _classes(total, counts, means)
    gaps = (means - total.mean) * counts.sqrt()[:, None]
    scatter = total.scatter - gaps.T @ gaps
    floor = 1e-8 * float(total.scatter.diagonal().abs().max())
    if float(scatter.diagonal().min()) < -max(floor, 1e-300):
        raise GramianError(
            "the class means spread more than the rows: means and moments are of different rows"
        )
    return Moments(total.count, total.count2, total.mean, scatter)


def discriminant_within(
    within: Moments,
    counts: Tensor,
    means: Tensor,
    *,
    shrinkage: float | str | None = None,
    components: int | None = None,
) -> Directions:
    """`discriminant` from the scatter within classes, of rows about their class means.

    within : its scatter is of the rows about their class means, its mean that of all rows.

    Raises
    ------
    GramianError : see `discriminant`.
    """
    counts, means = _classes(within, counts, means)
    spread = shrunk_within(within, shrinkage)
    share = counts / counts.sum()
    centre = share @ means
    spokes = ((means - centre) * share.sqrt()[:, None]).T
    root = inverse_root(spread)
    # S_B v = l S_W v with S_B = Z Z^T: v = R u, where u s w^T is the SVD of R^T Z
    u, s, _ = torch.linalg.svd(root.T @ spokes, full_matrices=False)
    length = float(spokes.norm()) + 1e-300
    # means are rounded against the rows they were taken of
    noise = 8 * _EPS * math.sqrt(float(means.square().sum())) * float(root.norm())
    floor = max(noise, max(spokes.shape) * _EPS * float(s[0]) if len(s) else 0.0)
    rank = min(int((s > floor).sum()), len(counts) - 1)
    if rank == 0:
        raise GramianError(
            f"nothing tells the {len(counts)} classes apart: their means agree to rounding "
            f"({length:g}) in every direction in which classes spread"
        )
    kept = rank if components is None else components
    if not 1 <= kept <= rank:
        raise GramianError(f"components is {components}, expected 1 to {rank}")
    return Directions(root @ u[:, :kept], s[:kept].square(), centre, spread)


def shrunk_within(within: Moments, shrinkage: float | str | None) -> Tensor:
    """``S_W`` per row, drawn towards its mean variance as asked."""
    if shrinkage is None:
        return within.scatter / within.count
    if isinstance(shrinkage, str):
        if shrinkage != "ledoit_wolf":
            raise GramianError(
                f"shrinkage is {shrinkage!r}, expected None, a number from 0 to 1 or 'ledoit_wolf'"
            )
        known = within.quartic is not None
        return (ledoit_wolf(within) if known else linear_shrinkage(within)).covariance
    if not 0.0 <= shrinkage <= 1.0:
        raise GramianError(f"shrinkage is {shrinkage}, expected 0 to 1")
    spread = within.scatter / within.count
    mean = float(spread.diagonal().mean())
    spread = (1.0 - shrinkage) * spread
    spread.diagonal().add_(shrinkage * mean)
    return spread


def inverse_root(spread: Tensor) -> Tensor:
    """R (d, r) with ``R^T S R = I``; directions without spread are left out.

    Cut after scaling to unit diagonal, so that units of single coordinates do not matter.
    """
    diagonal = spread.diagonal().clamp_min(0.0)
    floor = _EPS * float(diagonal.max()) if len(diagonal) else 0.0
    scale = torch.where(diagonal > floor * _EPS, diagonal.clamp_min(1e-300).rsqrt(), 0.0)
    values, vectors = eigh(scale[:, None] * spread * scale)
    kept = values > 16 * _EPS * len(spread) * values[-1].clamp_min(0.0)
    return scale[:, None] * vectors[:, kept] * values[kept].rsqrt()


def _classes(moments: Moments, counts: Tensor, means: Tensor) -> tuple[Tensor, Tensor]:
    counts = torch.as_tensor(counts, dtype=torch.float64)
    means = torch.as_tensor(means, dtype=torch.float64)
    if moments.is_diagonal:
        raise GramianError("discriminant needs full moments; collect the site with order='full'")
    if counts.ndim != 1 or tuple(means.shape) != (len(counts), moments.d):
        raise GramianError(
            f"counts of shape {tuple(counts.shape)} and means of shape {tuple(means.shape)}, "
            f"expected (K,) and (K, {moments.d})"
        )
    if len(counts) < 2 or not bool((counts > 0).all()):
        raise GramianError("discriminant needs at least two classes, each with rows")
    if abs(float(counts.sum()) - moments.count) > 1e-6 * moments.count:
        raise GramianError(
            f"classes of {float(counts.sum()):g} rows in all and moments of {moments.count:g}"
        )
    return counts, means
