"""Second moments of rows with missing entries: every pair of coordinates counts for itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments.moments import NonFiniteRows
from gramian.moments.products import as_rows


@dataclass(frozen=True, eq=False)
class MaskedMoments:
    """Counts, sums and products of the entries that were seen, for every pair; they add.

    With a mask ``M`` of ones where an entry was seen and rows about the mean of what was seen,
    ``u = x - mean``. Unbiased when entries are missing at random; entries that are missing because
    of their value bias every estimate, and no count shows it.
    """

    rows: int
    """Rows, also those of which nothing was seen."""
    mean: Tensor
    """(d,) mean of the entries seen of each coordinate; 0 where none was."""
    pairs: Tensor
    """``M^T M``, (d, d): rows in which both coordinates were seen."""
    totals: Tensor
    """``sum m_a m_b u_a``, (d, d): of coordinate a over the rows in which b was seen too."""
    products: Tensor
    """``(M o U)^T (M o U)``, (d, d)."""

    def __post_init__(self) -> None:
        d = len(self.mean)
        for name in ("pairs", "totals", "products"):
            if tuple(getattr(self, name).shape) != (d, d):
                raise GramianError(
                    f"masked moments: {name} of shape {tuple(getattr(self, name).shape)}, "
                    f"expected {(d, d)}"
                )

    @classmethod
    def from_rows(cls, rows: Any, mask: Any = None) -> MaskedMoments:
        """Masked moments of rows (n, d), of any float dtype, computed in float64.

        mask : (n, d) of booleans, true where an entry was seen; None for all. What a masked entry
        holds does not matter, NaN included.

        Raises
        ------
        GramianError : wrong shapes, a mask that is not boolean, or an entry that was seen and is
            NaN or infinite.
        """
        x, seen = as_rows(rows), None if mask is None else as_rows(mask)
        if x.ndim != 2 or not x.is_floating_point():
            raise GramianError(
                f"{x.dtype} rows of shape {tuple(x.shape)}, expected floating point (n, d)"
            )
        if seen is None:
            seen = torch.ones_like(x, dtype=torch.bool)
        if seen.dtype != torch.bool or seen.shape != x.shape:
            raise GramianError(
                f"{seen.dtype} mask of shape {tuple(seen.shape)}, expected booleans of shape "
                f"{tuple(x.shape)}; of rows with NaN for what is missing, ~torch.isnan(rows)"
            )
        seen = seen.cpu()
        x = x.to("cpu", torch.float64).where(seen, torch.zeros((), dtype=torch.float64))
        bad = ~torch.isfinite(x).all(1)
        if bool(bad.any()):
            raise NonFiniteRows(
                "rows", int(bad.nonzero()[0]), "holds NaN or infinity that was seen"
            )
        ones = seen.to(torch.float64)
        number = ones.sum(0)
        mean = x.sum(0) / number.clamp_min(1.0)
        # Again about the first mean: the rounding of a large sum is gone from the second.
        mean = mean + ((x - mean) * ones).sum(0) / number.clamp_min(1.0)
        u = (x - mean) * ones
        products = u.T @ u
        return cls(len(x), mean, ones.T @ ones, u.T @ ones, (products + products.T) / 2)

    @classmethod
    def empty(cls, d: int) -> MaskedMoments:
        """Masked moments of no rows: adding them changes nothing."""
        square = torch.zeros(d, d, dtype=torch.float64)
        return cls(0, torch.zeros(d, dtype=torch.float64), square, square, square)

    @property
    def d(self) -> int:
        """Width of a row."""
        return len(self.mean)

    @property
    def seen(self) -> Tensor:
        """(d,) rows in which each coordinate was seen."""
        return self.pairs.diagonal()

    def __add__(self, other: MaskedMoments) -> MaskedMoments:
        if not isinstance(other, MaskedMoments):
            return NotImplemented
        if self.d != other.d:
            raise GramianError(f"masked moments of width {self.d} and {other.d} do not add")
        share = other.seen / (self.seen + other.seen).clamp_min(1.0)
        mean = self.mean + (other.mean - self.mean) * share
        mean = torch.where(self.seen > 0, mean, other.mean)
        left, right = self._about(mean), other._about(mean)
        return MaskedMoments(
            self.rows + other.rows,
            mean,
            left.pairs + right.pairs,
            left.totals + right.totals,
            left.products + right.products,
        )

    def __radd__(self, other: int) -> MaskedMoments:
        return self if other == 0 else NotImplemented

    def _about(self, centre: Tensor) -> MaskedMoments:
        # u' = u - g:  sum m m u'_a = T_ab - g_a N_ab
        #              sum m m u'_a u'_b = P_ab - g_b T_ab - g_a T_ba + g_a g_b N_ab
        gap = centre - self.mean
        totals = self.totals - gap[:, None] * self.pairs
        moved = self.totals * gap
        products = self.products - moved - moved.T + torch.outer(gap, gap) * self.pairs
        return MaskedMoments(self.rows, centre, self.pairs, totals, products)

    def second(self, *, centred: bool = True) -> Tensor:
        """Mean product of each pair over the rows in which both were seen, (d, d).

        About the means, or about zero with ``centred=False``. NaN where a pair was never seen
        together (``pairs == 0``). With nothing missing ``X^T X / n``; else indefinite in general:
        `gramian.solvers.complete` makes a second moment of it.
        """
        part = self if centred else self._about(torch.zeros_like(self.mean))
        return part.products / part.pairs.where(
            part.pairs > 0, torch.full_like(part.pairs, torch.nan)
        )

    def __repr__(self) -> str:
        share = float(self.seen.sum()) / max(self.rows * self.d, 1)
        return f"MaskedMoments({self.rows} rows, d={self.d}, {share:.1%} of the entries seen)"
