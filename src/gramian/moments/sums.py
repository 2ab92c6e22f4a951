"""Running sums about a fixed shift: what an accumulator keeps for each stream and each pair."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.moments.moments import Moments
from gramian.moments.place import like, zeros
from gramian.moments.products import symmetric
from gramian.moments.quartic import CrossQuartic, Quartic, Side, move, move_cross

TOLERATED = 4.0
"""A shift is left when the mean lies further from it than this many mean squared deviations."""


@dataclass(eq=False)
class StreamSums:
    """Sums over the rows of one stream, ``u = x - shift`` and ``r = |u|^2``."""

    shift: Tensor
    total: Tensor
    """``sum w u``."""
    second: Tensor
    """``sum w u u^T``, of which only the lower triangle is valid, or its diagonal (d,)."""
    vector: Tensor
    """``sum w r u``; of size 0 for a diagonal stream."""
    square: Tensor
    """``sum w r^2``, a scalar tensor."""

    @classmethod
    def zeros(cls, d: int, diagonal: bool, device: torch.device) -> StreamSums:
        def zero(*shape: int) -> Tensor:
            return zeros(shape, torch.float64, device)

        second = zero(d) if diagonal else zero(d, d)
        return cls(zero(d), zero(d), second, zero(0 if diagonal else d), zero())

    @property
    def is_diagonal(self) -> bool:
        return self.second.ndim == 1

    @property
    def trace(self) -> float:
        """``sum w r``."""
        return float((self.second if self.is_diagonal else self.second.diagonal()).sum())

    def spread(self, count: float) -> tuple[float, float]:
        """Squared distance from shift to mean, and the mean squared deviation from the mean."""
        if count == 0:
            return 0.0, 0.0
        offset = float(self.total @ self.total) / count**2
        return offset, max(self.trace / count - offset, 0.0)

    def move(self, shift: Tensor, count: float) -> None:
        """Express the sums about another shift."""
        delta = shift - self.shift
        if self.is_diagonal:
            self.second += delta * (count * delta - 2.0 * self.total)
        else:
            full = symmetric(self.second)
            quartic = Quartic(self.vector, float(self.square))
            quartic = move(quartic, full, self.total, count, delta)
            self.vector.copy_(quartic.vector)
            self.square.fill_(quartic.square)
            # sum (u - delta)(u - delta)^T
            full.addr_(delta, self.total, alpha=-1.0).addr_(self.total, delta, alpha=-1.0)
            self.second.copy_(full.addr_(delta, delta, alpha=count))
        self.total -= count * delta
        self.shift.copy_(shift)

    def add(self, other: StreamSums) -> None:
        """Add sums about the same shift."""
        for mine, theirs in zip(self.tensors().values(), other.tensors().values(), strict=True):
            if mine is not self.shift:
                mine += theirs

    def moments(self, count: float, count2: float) -> Moments:
        """The moments about the mean, in main memory."""
        if count == 0:
            return Moments.empty(len(self.shift), order="diagonal" if self.is_diagonal else "full")
        delta = self.total / count
        mean = self.shift + delta
        if self.is_diagonal:
            scatter = (self.second - delta * self.total).clamp_min(0.0)
            return Moments(count, count2, mean.cpu(), scatter.cpu())
        full = symmetric(self.second)
        quartic = Quartic(self.vector, float(self.square))
        quartic = move(quartic, full, self.total, count, delta)
        quartic = Quartic(quartic.vector.cpu(), quartic.square)
        scatter = full.addr_(delta, delta, alpha=-count).cpu()
        return Moments(count, count2, mean.cpu(), scatter, quartic)

    def tensors(self) -> dict[str, Tensor]:
        """All the tensors by name, live."""
        names = ("shift", "total", "second", "vector", "square")
        return {name: getattr(self, name) for name in names}


@dataclass(eq=False)
class PairSums:
    """Cross sums of two streams about their shifts."""

    cross: Tensor
    """``sum w u v^T``, (dx, dy)."""
    xy: Tensor
    """``sum w r_x v``."""
    yx: Tensor
    """``sum w r_y u``."""
    product: Tensor
    """``sum w r_x r_y``, a scalar tensor."""

    @classmethod
    def zeros(cls, dx: int, dy: int, device: torch.device) -> PairSums:
        def zero(*shape: int) -> Tensor:
            return zeros(shape, torch.float64, device)

        return cls(zero(dx, dy), zero(dy), zero(dx), zero())

    def _quartic_about(
        self, x: StreamSums, y: StreamSums, delta_x: Tensor, delta_y: Tensor, count: float
    ) -> CrossQuartic:
        quartic = CrossQuartic(self.xy, self.yx, float(self.product))
        sides = Side(x.trace, delta_x, x.total), Side(y.trace, delta_y, y.total)
        return move_cross(quartic, self.cross, *sides, count)

    def move(
        self, x: StreamSums, y: StreamSums, delta_x: Tensor, delta_y: Tensor, count: float
    ) -> None:
        """Express the sums about shifts moved by the deltas; ``x`` and ``y`` not yet moved."""
        quartic = self._quartic_about(x, y, delta_x, delta_y, count)
        self.xy.copy_(quartic.xy)
        self.yx.copy_(quartic.yx)
        self.product.fill_(quartic.product)
        self.cross.addr_(delta_x, y.total, alpha=-1.0).addr_(x.total, delta_y, alpha=-1.0)
        self.cross.addr_(delta_x, delta_y, alpha=count)

    def about_means(
        self, x: StreamSums, y: StreamSums, count: float
    ) -> tuple[Tensor, CrossQuartic]:
        """Cross scatter and cross quartic about the means, in main memory."""
        n = count or 1.0
        delta_x, delta_y = x.total / n, y.total / n
        cross = torch.addr(self.cross, delta_x, delta_y, alpha=-count, out=like(self.cross))
        quartic = self._quartic_about(x, y, delta_x, delta_y, count)
        return cross.cpu(), CrossQuartic(quartic.xy.cpu(), quartic.yx.cpu(), quartic.product)

    def add(self, other: PairSums) -> None:
        """Add sums about the same shifts."""
        for mine, theirs in zip(self.tensors().values(), other.tensors().values(), strict=True):
            mine += theirs

    def tensors(self) -> dict[str, Tensor]:
        """All the tensors by name, live."""
        return {name: getattr(self, name) for name in ("cross", "xy", "yx", "product")}
