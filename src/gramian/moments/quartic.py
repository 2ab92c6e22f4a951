"""The O(d) sums of fourth order that debiased CKA needs, and how they move with the centre.

With ``u = x - a`` and ``r = |u|^2`` about a centre ``a``, the sums ``sum w r u`` and
``sum w r^2`` are enough for the U-statistic of linear HSIC (Song et al. 2012), and between two
sites ``sum w r_x v``, ``sum w r_y u`` and ``sum w r_x r_y``. All of them move exactly to another
centre with the help of the second moments.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Quartic:
    """Sums of fourth order of one site about its mean, ``r = |x - mean|^2``."""

    vector: Tensor
    """``sum w r (x - mean)``, shape (d,)."""
    square: float
    """``sum w r^2``."""

    def __add__(self, other: Quartic) -> Quartic:
        """Sum of two parts about the same centre."""
        return Quartic(self.vector + other.vector, self.square + other.square)


@dataclass(frozen=True, eq=False)
class CrossQuartic:
    """Sums of fourth order between two sites about their means."""

    xy: Tensor
    """``sum w r_x (y - mean_y)``, shape (dy,)."""
    yx: Tensor
    """``sum w r_y (x - mean_x)``, shape (dx,)."""
    product: float
    """``sum w r_x r_y``."""

    def __add__(self, other: CrossQuartic) -> CrossQuartic:
        """Sum of two parts about the same centres."""
        return CrossQuartic(self.xy + other.xy, self.yx + other.yx, self.product + other.product)

    def swap(self) -> CrossQuartic:
        """The same sums with the two sites exchanged."""
        return CrossQuartic(self.yx, self.xy, self.product)


def move(
    quartic: Quartic, second: Tensor, total: Tensor | None, count: float, delta: Tensor
) -> Quartic:
    """The sums about ``a + delta``, given those about ``a``.

    ``second`` is ``sum w u u^T`` (d, d) and ``total`` is ``sum w u`` (None when it is zero),
    both about ``a``.
    """
    # u' = u - delta, r' = r - 2 delta.u + |delta|^2
    trace = float(second.diagonal().sum())
    norm = float(delta @ delta)
    pushed = second @ delta
    along = 0.0 if total is None else float(total @ delta)
    moved_trace = trace - 2.0 * along + count * norm
    vector = quartic.vector - 2.0 * pushed - delta * moved_trace
    if total is not None:
        vector = vector + norm * total
    square = (
        quartic.square
        - 4.0 * float(delta @ quartic.vector)
        + 4.0 * float(delta @ pushed)
        + 2.0 * norm * trace
        - 4.0 * norm * along
        + count * norm * norm
    )
    return Quartic(vector, square)


@dataclass(frozen=True, eq=False)
class Side:
    """What moving a cross sum needs of one side, about the old centre."""

    trace: float
    """``sum w |u|^2``."""
    delta: Tensor
    """new centre minus old centre, (d,)."""
    total: Tensor | None = None
    """``sum w u`` (d,), None when it is zero."""

    @property
    def norm(self) -> float:
        return float(self.delta @ self.delta)

    @property
    def along(self) -> float:
        return 0.0 if self.total is None else float(self.total @ self.delta)

    def moved_trace(self, count: float) -> float:
        return self.trace - 2.0 * self.along + count * self.norm


def move_cross(
    quartic: CrossQuartic, cross: Tensor, x: Side, y: Side, count: float
) -> CrossQuartic:
    """The cross sums about moved centres; ``cross`` is ``sum w u v^T`` (dx, dy) about the old."""
    # r_x' = r_x - 2 dx.u + |dx|^2, v' = v - dy, and the same with x and y exchanged
    to_y, to_x = x.delta @ cross, cross @ y.delta
    xy = quartic.xy - 2.0 * to_y - y.delta * x.moved_trace(count)
    yx = quartic.yx - 2.0 * to_x - x.delta * y.moved_trace(count)
    if y.total is not None:
        xy = xy + x.norm * y.total
    if x.total is not None:
        yx = yx + y.norm * x.total
    product = (
        quartic.product
        - 2.0 * float(y.delta @ quartic.xy)
        - 2.0 * float(x.delta @ quartic.yx)
        + 4.0 * float(x.delta @ to_x)
        + y.norm * (x.trace - 2.0 * x.along)
        + x.norm * y.moved_trace(count)
    )
    return CrossQuartic(xy, yx, product)
