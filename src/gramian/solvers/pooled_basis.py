"""One orthonormal basis for several places, ordered by the energy that they have in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.registry import method
from gramian.solvers.spectrum import eigh


@dataclass(frozen=True, eq=False)
class PooledBasis:
    """Principal directions of several second moments at once."""

    values: Tensor
    """(d,) float64, descending, rounding below zero clamped: their sum is that of the weights."""
    rows: Tensor
    """(d, d) float64, orthonormal, in the order of the values."""

    def kept(self, width: int) -> float:
        """Share of the pooled energy in the first ``width`` directions."""
        return float(self.values[:width].sum() / self.values.sum())


@method("pooled_basis", job="solve", paper="2401.15024")
def pooled_basis(
    seconds: Iterable[tuple[float, Tensor]], *, apart: Tensor | None = None
) -> PooledBasis:
    """Eigenvectors of the weighted sum of second moments, each at unit trace.

    ``sum_i w_i C_i / tr C_i``: no place counts for more because its numbers are larger. The first
    k rows are the projection of rank k that keeps most of it (PCA about zero).

    Parameters
    ----------
    seconds : weight and ``C`` (d, d), symmetric; those without any energy are passed over.
    apart : (d,) a direction to be left out: it comes last, with the value zero.

    Raises
    ------
    GramianError : nothing with energy, other shapes, negative weights, NaN or infinity, an order
        above 8192.
    """
    total: Tensor | None = None
    for weight, second in seconds:
        matrix = second.to(torch.float64)
        shape = matrix.shape if total is None else total.shape
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape != shape:
            raise GramianError(
                f"second moments of shape {tuple(matrix.shape)}, expected {tuple(shape)} for all"
            )
        if not weight >= 0:
            raise GramianError(f"a weight is {weight}, expected none below zero")
        if not bool(matrix.isfinite().all()):
            raise GramianError("second moments hold NaN or infinity; collect them again")
        without = matrix if apart is None else _without(matrix, apart)
        trace = float(without.trace())
        if total is None:
            total = torch.zeros_like(matrix)
        if weight > 0 and trace > 0:
            total = total.add_(without, alpha=weight / trace)
    if total is None or not float(total.trace()) > 0:
        raise GramianError("no second moments with any energy to take a basis of")
    if apart is not None:
        unit = apart.to(torch.float64) / apart.to(torch.float64).norm()
        # Behind the null space of the others.
        total = total - float(total.trace()) * torch.outer(unit, unit)
    values, vectors = eigh((total + total.T) / 2)
    return PooledBasis(values.flip(0).clamp_min(0.0), vectors.T.flip(0).contiguous())


def _without(matrix: Tensor, direction: Tensor) -> Tensor:
    """``(I - u uᵀ) C (I - u uᵀ)``."""
    unit = direction.to(torch.float64) / direction.to(torch.float64).norm()
    image = matrix @ unit
    inner = float(unit @ image)
    first = torch.outer(unit, image)
    return matrix - first - first.T + inner * torch.outer(unit, unit)
