"""Directions of keys or values, in the order in which a cache should keep them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.registry import method
from gramian.solvers.spectrum import eigh

FLOOR = 1e-9
"""Share of the mean weight that every direction is given, so that a metric can be inverted."""


@dataclass(frozen=True, eq=False)
class Latent:
    """Every rank of one truncation: of rank r it is ``decode[:, :r] @ encode[:r]``."""

    values: Tensor
    """(d,) what each direction carries, descending; what is lost is the sum of those dropped."""
    decode: Tensor
    """(d, d), a direction in each column."""
    encode: Tensor
    """(d, d), what gives its coordinate in each row."""

    @property
    def total(self) -> float:
        """What all directions carry."""
        return float(self.values.sum())

    def projector(self, rank: int) -> Tensor:
        """The projector (d, d) on the leading directions."""
        return self.decode[:, :rank] @ self.encode[:rank]

    def lost(self, rank: int) -> float:
        """Expected squared error, in the metric, at a rank."""
        return float(self.values[rank:].sum())


@method("palu", job="compress", paper="2407.21118")
def latent(second: Tensor, metric: Tensor | None = None) -> Latent:
    """Coordinates that lose least of keys or values when only the leading ones are cached.

    With ``y = W x`` the projector ``P`` of rank r that minimises ``E |M^(1/2) (y - P y)|^2`` has
    ``M^(1/2) P M^(-1/2) = U U^T`` with ``U`` the leading eigenvectors of
    ``M^(1/2) W C W^T M^(1/2)``. Without a metric that is Palu's whitened decomposition of ``W``
    with neither Cholesky factor nor inverse; with ``M`` the second moments of the queries it is
    the truncation of least error of the attention logits (MatryoshkaKV, 2410.14731, starts from
    the plain eigenvectors).

    Parameters
    ----------
    second : (d, d) second moments of the rows, about zero or about what is added back.
    metric : (d, d) ``M``, symmetric and not negative; None counts every coordinate alike.

    Raises
    ------
    GramianError : shapes that do not fit, or numbers that are not finite.
    """
    _check(second, "second", len(second))
    if metric is None:
        values, vectors = eigh(second)
        order = values.flip(0).clamp_min(0.0)
        basis = vectors.flip(1).contiguous()
        return Latent(order, basis, basis.T.contiguous())
    _check(metric, "metric", len(second))
    weights, axes = eigh(metric)
    weights = weights.clamp_min(0.0)
    mean = float(weights.mean())
    if mean <= 0:
        raise GramianError("the metric is zero: nothing reads these rows; leave it out")
    weights = (weights + FLOOR * mean).sqrt()
    root, back = (axes * weights) @ axes.T, (axes / weights) @ axes.T
    values, vectors = eigh(_symmetric(root @ second @ root))
    basis = vectors.flip(1)
    return Latent(
        values.flip(0).clamp_min(0.0), (back @ basis).contiguous(), (basis.T @ root).contiguous()
    )


def _symmetric(matrix: Tensor) -> Tensor:
    return (matrix + matrix.T) / 2


def _check(matrix: Tensor, name: str, d: int) -> None:
    if matrix.dtype != torch.float64 or tuple(matrix.shape) != (d, d):
        raise GramianError(
            f"{name} is {matrix.dtype} of shape {tuple(matrix.shape)}, expected float64 ({d}, {d})"
        )
    if not bool(matrix.isfinite().all()):
        raise GramianError(f"{name} holds NaN or infinity; collect the moments again")
