"""The objective that most solvers minimise, and the exact error of a map."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, LinearMap
from gramian.moments.joint import JointMoments
from gramian.moments.moments import Moments, linear_part


@dataclass(frozen=True, eq=False)
class Quadratic:
    """``tr(W A W^T) - 2 tr(W B) + c`` for a weight ``W`` of shape (dy, dx); quadratics add.

    Least squares, ridge to zero or to a given weight, and merging by regression are sums of a
    few of these.
    """

    A: Tensor
    """(dx, dx) float64, symmetric."""
    B: Tensor
    """(dx, dy) float64."""
    c: float
    n: float
    """Rows behind the objective; zero for a prior."""

    def __post_init__(self) -> None:
        dx = self.A.shape[0]
        if self.A.shape != (dx, dx) or self.B.ndim != 2 or self.B.shape[0] != dx:
            raise GramianError(
                f"quadratic: A of shape {tuple(self.A.shape)} and B of shape "
                f"{tuple(self.B.shape)}, expected (dx, dx) and (dx, dy)"
            )

    @classmethod
    def from_joint(cls, joint: JointMoments, *, intercept: bool = True) -> Quadratic:
        """Squared error of predicting ``y`` from ``x``, summed over the rows.

        With an intercept its best value is taken for each ``W``, ``b = mean_y - W mean_x``;
        without one the second moments are about zero.
        """
        if intercept:
            return cls.about(joint, joint.x.mean, joint.y.mean)
        return cls.about(joint, torch.zeros_like(joint.x.mean), torch.zeros_like(joint.y.mean))

    @classmethod
    def about(cls, joint: JointMoments, x: Tensor, y: Tensor) -> Quadratic:
        """Squared error of ``W (row_x - x)`` as a prediction of ``row_y - y``, over the rows."""
        if joint.x.is_diagonal:
            raise GramianError("a quadratic needs full moments of x; only the diagonal is kept")
        u, v, n = joint.x.mean - x, joint.y.mean - y, joint.count
        return cls(
            torch.addr(joint.x.scatter, u, u, alpha=n),
            torch.addr(joint.cross, u, v, alpha=n),
            joint.y.trace + n * float(v @ v),
            n,
        )

    @classmethod
    def from_weight(
        cls, weight: Tensor | LinearMap, moments: Moments, *, intercept: bool = True
    ) -> Quadratic:
        """Squared difference of the outputs of ``W`` and of a given weight (dy, dx) on its input.

        Summed over models, the minimiser is their merge by regression. ``intercept=False`` for
        layers without a bias: second moments about zero.
        """
        if moments.is_diagonal:
            raise GramianError("a quadratic needs full moments; only the diagonal is kept")
        dense = _weight(weight, moments.d)
        second = moments.scatter if intercept else moments.raw()
        target = second @ dense.T
        return cls(second, target, float((dense.T * target).sum()), moments.count)

    @classmethod
    def prior(cls, weight: Tensor | LinearMap, strength: float) -> Quadratic:
        """``strength * |W - weight|^2``, in Frobenius norm."""
        if strength < 0:
            raise GramianError(f"strength of a prior is {strength}, expected at least 0")
        dense = _weight(weight)
        eye = torch.eye(dense.shape[1], dtype=torch.float64, device=dense.device)
        norm = float(dense.square().sum())
        return cls(strength * eye, strength * dense.T, strength * norm, 0.0)

    def __add__(self, other: Quadratic) -> Quadratic:
        if not isinstance(other, Quadratic):
            return NotImplemented
        if self.B.shape != other.B.shape:
            raise GramianError(
                f"quadratics of shape {tuple(self.B.shape)} and {tuple(other.B.shape)} do not add"
            )
        return Quadratic(self.A + other.A, self.B + other.B, self.c + other.c, self.n + other.n)

    def __radd__(self, other: int) -> Quadratic:
        return self if other == 0 else NotImplemented

    def __mul__(self, factor: float) -> Quadratic:
        return Quadratic(self.A * factor, self.B * factor, self.c * factor, self.n * factor)

    __rmul__ = __mul__

    def value(self, weight: Tensor | LinearMap) -> float:
        """The objective at a weight (dy, dx) or at the linear part of a map."""
        dense = _weight(weight, self.A.shape[0])
        if dense.shape[0] != self.B.shape[1]:
            raise GramianError(
                f"weight of shape {tuple(dense.shape)}, expected {tuple(self.B.T.shape)}"
            )
        return float(((dense @ self.A - 2.0 * self.B.T) * dense).sum()) + self.c

    def per_row(self, weight: Tensor | LinearMap) -> float:
        """The objective over the number of rows."""
        if self.n <= 0:
            raise GramianError("per_row: this quadratic has no rows behind it")
        return self.value(weight) / self.n


def squared_error(joint: JointMoments, map: LinearMap) -> float:
    """``sum |map(x) - y|^2`` over the rows behind the moments, exactly, without the rows.

    ``map`` takes rows of width dx to dy, with a bias or without. On the fold it was fitted on or
    on any other.
    """
    if (map.in_features, map.out_features) != (joint.x.d, joint.y.d):
        raise GramianError(f"{map!r} does not fit moments of {joint.x.d} -> {joint.y.d}")
    # tr Syy - 2 tr(W Sxy) + tr(W Sxx W^T) + n |W mx + b - my|^2
    centred = Quadratic.from_joint(joint).value(linear_part(map))
    bias = map.bias.to(torch.float64) if isinstance(map, Affine) else 0.0
    gap = _weight(map) @ joint.x.mean + bias - joint.y.mean
    return centred + joint.count * float(gap @ gap)


def _weight(weight: Tensor | LinearMap, dx: int | None = None) -> Tensor:
    if isinstance(weight, LinearMap):
        dense = linear_part(weight).to_dense(torch.float64)
    else:
        dense = weight.detach().to(torch.float64)
    if dense.ndim != 2 or (dx is not None and dense.shape[1] != dx):
        wanted = "(dy, dx)" if dx is None else f"(dy, {dx})"
        raise GramianError(f"weight of shape {tuple(dense.shape)}, expected {wanted}")
    return dense
