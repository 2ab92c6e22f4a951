"""What two sites leave behind over the same rows: their moments and their cross scatter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import LinearMap
from gramian.moments.moments import (
    Moments,
    centre,
    float64_rows,
    float64_weight,
    is_orthogonal,
    linear_part,
)
from gramian.moments.products import as_rows
from gramian.moments.quartic import CrossQuartic, Side, move_cross


@dataclass(frozen=True, eq=False)
class JointMoments:
    """Moments of ``x`` and of ``y`` over the same rows, and their cross scatter; they add.

    ``y`` is another site, the increment of a residual stream (``y - x`` formed before the
    product) or a one-hot class label.
    """

    x: Moments
    y: Moments
    """Often diagonal: a least squares fit needs no more of its target."""
    cross: Tensor
    """``sum w (x - mean_x)(y - mean_y)^T``, (dx, dy) float64."""
    quartic: CrossQuartic | None = None
    """O(d) cross sums of fourth order for debiased CKA; None when they were not kept."""

    def __post_init__(self) -> None:
        if tuple(self.cross.shape) != (self.x.d, self.y.d):
            raise GramianError(
                f"joint moments: cross scatter of shape {tuple(self.cross.shape)}, expected "
                f"({self.x.d}, {self.y.d})"
            )
        gap = abs(self.x.count - self.y.count)
        if gap > 1e-9 * max(self.x.count, self.y.count, 1.0):
            raise GramianError(
                f"joint moments of different rows: {self.x.count:g} of x, {self.y.count:g} of y"
            )

    @classmethod
    def from_rows(
        cls,
        x: Any,
        y: Any,
        weight: Any = None,
        *,
        source: str = "full",
        target: str = "full",
        quartic: bool = True,
    ) -> JointMoments:
        """Joint moments of paired rows (n, dx) and (n, dy), computed in float64.

        weight : (n,) not negative, optional. source, target : orders of the moments of ``x`` and
        of ``y``, ``"full"`` or ``"diagonal"``.

        Raises
        ------
        GramianError : wrong shapes, a negative weight, or NaN or infinity in a row.
        """
        rows_x, rows_y = float64_rows(x, "x"), float64_rows(y, "y")
        if len(rows_x) != len(rows_y):
            raise GramianError(f"{len(rows_x)} rows of x and {len(rows_y)} of y, expected pairs")
        w = float64_weight(weight, rows_x)
        u, v = centre(rows_x, w)[1], centre(rows_y, w)[1]
        weighted = u if w is None else u * w[:, None]
        norm_x, norm_y = (u * u).sum(1), (v * v).sum(1)
        scaled = norm_x if w is None else norm_x * w
        sums = CrossQuartic(scaled @ v, norm_y @ weighted, float(scaled @ norm_y))
        return cls(
            Moments.from_rows(rows_x, w, order=source, quartic=quartic),
            Moments.from_rows(rows_y, w, order=target, quartic=quartic),
            weighted.T @ v,
            sums if quartic else None,
        )

    @classmethod
    def from_labels(cls, x: Any, labels: Any, classes: int | None = None) -> JointMoments:
        """Joint moments of rows (n, d) and class labels (n,), integers from 0, as one-hot ``y``.

        Class means are ``mean_x + cross / count_k``; the scatter within and between classes
        follows. ``classes`` is the number of classes, by default the largest label plus one.
        """
        index = as_rows(labels)
        if index.ndim != 1 or index.is_floating_point() or index.is_complex():
            raise GramianError("labels must be integers of shape (n,), counted from 0")
        index = index.to(torch.long)
        top = int(index.max()) + 1 if index.numel() else 0
        classes = top if classes is None else classes
        if index.numel() and (int(index.min()) < 0 or top > classes):
            raise GramianError(
                f"labels from {int(index.min())} to {top - 1}, expected 0 to {classes - 1}"
            )
        onehot = torch.nn.functional.one_hot(index, classes).to(torch.float64)
        return cls.from_rows(x, onehot)

    @property
    def count(self) -> float:
        """``sum w`` of the pairs."""
        return self.x.count

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors."""
        return self.x.nbytes + self.y.nbytes + 8 * self.cross.numel()

    def raw_cross(self) -> Tensor:
        """Cross moments about zero, ``sum w x y^T``, (dx, dy)."""
        return torch.addr(self.cross, self.x.mean, self.y.mean, alpha=self.count)

    def swap(self) -> JointMoments:
        """The same with the two sites exchanged; needs full moments of ``y``."""
        if self.y.is_diagonal:
            raise GramianError("swap: only the diagonal of y is kept; collect y with order='full'")
        quartic = None if self.quartic is None else self.quartic.swap()
        return JointMoments(self.y, self.x, self.cross.T.contiguous(), quartic)

    def __add__(self, other: JointMoments) -> JointMoments:
        if not isinstance(other, JointMoments):
            return NotImplemented
        if self.cross.shape != other.cross.shape:
            raise GramianError(
                f"cross scatters of shape {tuple(self.cross.shape)} and "
                f"{tuple(other.cross.shape)} do not add"
            )
        x, y = self.x + other.x, self.y + other.y
        kept = self.quartic is not None and other.quartic is not None
        if self.count == 0 or other.count == 0:
            full = other if self.count == 0 else self
            return JointMoments(x, y, full.cross, full.quartic if kept else None)
        # Chan: cross = a + b + (n_a n_b/n) delta_x delta_y^T
        factor = self.count * other.count / x.count
        cross = torch.addr(
            self.cross + other.cross,
            other.x.mean - self.x.mean,
            other.y.mean - self.y.mean,
            alpha=factor,
        )
        quartic = None
        if kept:
            quartic = self._quartic_about(x.mean, y.mean) + other._quartic_about(x.mean, y.mean)
        return JointMoments(x, y, cross, quartic)

    def __radd__(self, other: int) -> JointMoments:
        return self if other == 0 else NotImplemented

    def _quartic_about(self, mean_x: Tensor, mean_y: Tensor) -> CrossQuartic:
        assert self.quartic is not None
        x = Side(self.x.trace, mean_x - self.x.mean)
        y = Side(self.y.trace, mean_y - self.y.mean)
        return move_cross(self.quartic, self.cross, x, y, self.count)

    def through(
        self, x_map: LinearMap | None = None, y_map: LinearMap | None = None
    ) -> JointMoments:
        """Joint moments of ``x_map(x)`` and ``y_map(y)``; None leaves a side as it is.

        The quartic part passes only through maps tagged orthogonal.
        """
        x = self.x if x_map is None else self.x.through(x_map)
        y = self.y if y_map is None else self.y.through(y_map)
        cross, quartic = self.cross, self.quartic
        for map in (x_map, y_map):
            if map is not None and not is_orthogonal(map):
                quartic = None
        if y_map is not None:
            cross = linear_part(y_map)(cross)
        if x_map is not None:
            cross = linear_part(x_map)(cross.T).T.contiguous()
        if quartic is not None:
            xy = quartic.xy if y_map is None else linear_part(y_map)(quartic.xy)
            yx = quartic.yx if x_map is None else linear_part(x_map)(quartic.yx)
            quartic = CrossQuartic(xy, yx, quartic.product)
        return JointMoments(x, y, cross, quartic)

    def with_source(self) -> JointMoments:
        """Joint moments of ``(x, x + y)``: the plain pair when ``y`` is an increment."""
        return self._shifted(1.0)

    def increment(self) -> JointMoments:
        """Joint moments of ``(x, y - x)``: what the target adds to the source.

        A difference of sums: when the two are nearly equal, increments formed row by row before
        the product keep more digits.
        """
        return self._shifted(-1.0)

    def _shifted(self, sign: float) -> JointMoments:
        if self.x.d != self.y.d:
            raise GramianError(
                f"x has width {self.x.d} and y has width {self.y.d}; an increment needs one width"
            )
        if self.x.is_diagonal:
            raise GramianError("an increment needs full moments of x; only the diagonal is kept")
        cross = self.cross + sign * self.x.scatter
        mean = self.y.mean + sign * self.x.mean
        if self.y.is_diagonal:
            scatter = self.y.scatter + 2 * sign * self.cross.diagonal() + self.x.variances
        else:
            scatter = self.y.scatter + sign * (self.cross + self.cross.T) + self.x.scatter
        y = Moments(self.y.count, self.y.count2, mean, scatter)
        return JointMoments(self.x, y, cross)

    def __repr__(self) -> str:
        return f"JointMoments({self.count:g} rows, {self.x.d} x {self.y.d})"
