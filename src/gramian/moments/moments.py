"""What one site leaves behind: count, mean and scatter, in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Diagonal, Identity, LinearMap, Permutation, Tag
from gramian.moments.products import as_rows
from gramian.moments.quartic import Quartic, move

ORDERS = ("full", "diagonal")


class NonFiniteRows(GramianError):
    """Rows that hold NaN or infinity, with the site and the index of the first such row."""

    def __init__(self, site: str, row: int, reason: str | None = None) -> None:
        self.site, self.row, self.reason = site, row, reason
        super().__init__(
            f"row {row} of site {site!r} {reason or 'holds NaN or infinity'}; nothing of this "
            "batch was added. Look at the input of that row, or run the model in a wider dtype"
        )


def check_order(order: str, what: str) -> str:
    """The order itself, when it is one."""
    if order not in ORDERS:
        raise GramianError(f"{what}: order is {order!r}, expected 'full' or 'diagonal'")
    return order


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and scatter of the rows of one site; they add.

    ``a + b`` are the moments of the rows of both, exact up to float64 rounding (Chan, Golub and
    LeVeque 1983), and ``sum(parts)`` works. Of rows that were weighted, every count and sum is
    weighted.
    """

    count: float
    """``sum w``; the number of rows when they carry no weight."""
    count2: float
    """``sum w^2``."""
    mean: Tensor
    """(d,) float64."""
    scatter: Tensor
    """``sum w (x - mean)(x - mean)^T``: (d, d) float64, or its diagonal (d,)."""
    quartic: Quartic | None = None
    """O(d) sums of fourth order for debiased CKA; None when they were not kept."""

    def __post_init__(self) -> None:
        d = self.mean.shape[0] if self.mean.ndim == 1 else -1
        if d < 0 or tuple(self.scatter.shape) not in ((d, d), (d,)):
            raise GramianError(
                f"moments: mean of shape {tuple(self.mean.shape)} and scatter of shape "
                f"{tuple(self.scatter.shape)}, expected (d,) and (d, d) or (d,)"
            )

    @classmethod
    def from_rows(
        cls,
        rows: Any,
        weight: Any = None,
        *,
        order: str = "full",
        quartic: bool = True,
    ) -> Moments:
        """Moments of rows (n, d), of any float dtype, computed in float64.

        weight : (n,) not negative, optional. order : ``"full"`` or ``"diagonal"``; only full
        moments have a quartic part.

        Raises
        ------
        GramianError : wrong shapes, a negative weight, or NaN or infinity in a row.
        """
        check_order(order, "Moments.from_rows")
        x, w = float64_rows(rows, "rows"), float64_weight(weight, rows)
        mean, centred = centre(x, w)
        weighted = centred if w is None else centred * w[:, None]
        norms = (centred * centred).sum(1)
        if order == "diagonal":
            return cls(*counts(len(x), w), mean, (weighted * centred).sum(0))
        sums = Quartic(norms @ weighted, float(norms @ (norms if w is None else norms * w)))
        scatter = weighted.T @ centred
        scatter = (scatter + scatter.T) / 2
        return cls(*counts(len(x), w), mean, scatter, sums if quartic else None)

    @classmethod
    def empty(cls, d: int, *, order: str = "full", quartic: bool = True) -> Moments:
        """Moments of no rows: adding them changes nothing."""
        full = check_order(order, "Moments.empty") == "full"
        zero = torch.zeros(d, dtype=torch.float64)
        scatter = torch.zeros(d, d, dtype=torch.float64) if full else zero
        return cls(0.0, 0.0, zero, scatter, Quartic(zero, 0.0) if quartic and full else None)

    @property
    def d(self) -> int:
        """Width of a row."""
        return self.mean.shape[0]

    @property
    def is_diagonal(self) -> bool:
        """Whether only the diagonal of the scatter is kept."""
        return self.scatter.ndim == 1

    @property
    def variances(self) -> Tensor:
        """Diagonal of the scatter, (d,); divide by the count for variances proper."""
        return self.scatter if self.is_diagonal else self.scatter.diagonal()

    @property
    def trace(self) -> float:
        """``sum w |x - mean|^2``."""
        return float(self.variances.sum())

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors."""
        vectors = self.mean.numel() + (0 if self.quartic is None else self.quartic.vector.numel())
        return 8 * (vectors + self.scatter.numel())

    def covariance(self, ddof: float = 1.0) -> Tensor:
        """Scatter over ``count - ddof``, of the same shape as the scatter.

        Weights count as repetitions, as ``fweights`` in ``numpy.cov``.
        """
        if self.count <= ddof:
            raise GramianError(
                f"covariance: {self.count:g} rows and ddof = {ddof:g}; needs more rows than ddof"
            )
        return self.scatter / (self.count - ddof)

    def raw(self) -> Tensor:
        """Second moments about zero, ``sum w x x^T``, of the same shape as the scatter."""
        if self.is_diagonal:
            return self.scatter + self.count * self.mean * self.mean
        return self.scatter + self.count * torch.outer(self.mean, self.mean)

    def diagonal(self) -> Moments:
        """The same with only the diagonal of the scatter."""
        return Moments(self.count, self.count2, self.mean, self.variances)

    def without_quartic(self) -> Moments:
        """The same without the sums of fourth order."""
        return Moments(self.count, self.count2, self.mean, self.scatter)

    def __add__(self, other: Moments) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        self._check_like(other)
        count = self.count + other.count
        quartic = None if self.quartic is None or other.quartic is None else self.quartic
        if self.count == 0 or other.count == 0:
            kept = other if self.count == 0 else self
            return kept if quartic is not None else kept.without_quartic()
        # Chan: mean = mean_a + delta n_b/n, scatter = a + b + (n_a n_b/n) delta delta^T
        delta = other.mean - self.mean
        mean = self.mean + delta * (other.count / count)
        factor = self.count * other.count / count
        if self.is_diagonal:
            scatter = self.scatter + other.scatter + factor * delta * delta
        else:
            scatter = torch.addr(self.scatter + other.scatter, delta, delta, alpha=factor)
        if self.quartic is not None and other.quartic is not None:
            first = move(self.quartic, self.scatter, None, self.count, mean - self.mean)
            second = move(other.quartic, other.scatter, None, other.count, mean - other.mean)
            quartic = first + second
        return Moments(count, self.count2 + other.count2, mean, scatter, quartic)

    def __radd__(self, other: int) -> Moments:
        return self if other == 0 else NotImplemented

    def _check_like(self, other: Moments) -> None:
        if self.d != other.d:
            raise GramianError(f"moments of width {self.d} and {other.d} do not add")
        if self.is_diagonal != other.is_diagonal:
            raise GramianError(
                "full and diagonal moments do not add; reduce the full ones with .diagonal()"
            )

    def through(self, map: LinearMap) -> Moments:
        """Moments of ``map(x)``: ``W C W^T``, and the mean mapped with its bias.

        The quartic part passes only through a map tagged orthogonal. Diagonal moments pass only
        through diagonal maps and permutations.

        Raises
        ------
        GramianError : the map takes rows of another width, or mixes coordinates of which only
            the diagonal is kept.
        """
        if map.in_features != self.d:
            raise GramianError(f"moments of width {self.d} do not pass through {map!r}")
        if self.is_diagonal and not isinstance(linear_part(map), _COORDINATEWISE):
            raise GramianError(
                f"diagonal moments do not pass through {map!r}, which mixes coordinates; "
                "collect the site with order='full'"
            )
        mean = map(self.mean)
        if self.is_diagonal:
            weight = map.to_dense(torch.float64)
            return Moments(self.count, self.count2, mean, (weight * weight) @ self.scatter)
        linear = linear_part(map)
        scatter = linear(linear(self.scatter).T)
        scatter = (scatter + scatter.T) / 2
        quartic = None
        if self.quartic is not None and is_orthogonal(map):
            quartic = Quartic(linear(self.quartic.vector), self.quartic.square)
        return Moments(self.count, self.count2, mean, scatter, quartic)

    def select(self, indices: Sequence[int] | Tensor) -> Moments:
        """Moments of some coordinates, in the order given; the quartic part is dropped."""
        index = torch.as_tensor(indices, dtype=torch.long)
        if index.numel() and (int(index.min()) < 0 or int(index.max()) >= self.d):
            raise GramianError(f"select: indices must lie in [0, {self.d})")
        chosen = self.scatter[index] if self.is_diagonal else self.scatter[index][:, index]
        return Moments(self.count, self.count2, self.mean[index], chosen)

    def __repr__(self) -> str:
        kind = "diagonal" if self.is_diagonal else "full"
        return f"Moments({self.count:g} rows, d={self.d}, {kind})"


_COORDINATEWISE = (Identity, Diagonal, Permutation)


def linear_part(map: LinearMap) -> LinearMap:
    """The map without its bias."""
    return map.map if isinstance(map, Affine) else map


def is_orthogonal(map: LinearMap) -> bool:
    """Whether distances pass unchanged through the map, as its tags declare."""
    return Tag.ORTHOGONAL in linear_part(map).tags


def float64_rows(rows: Any, site: str) -> Tensor:
    """Rows (n, d) as float64 in main memory, refused when they are not finite."""
    x = as_rows(rows)
    if x.ndim != 2:
        raise GramianError(f"{site}: rows of shape {tuple(x.shape)}, expected (n, d)")
    x = x.to("cpu", torch.float64)
    bad = ~torch.isfinite(x).all(1)
    if bool(bad.any()):
        raise NonFiniteRows(site, int(bad.nonzero()[0]))
    return x


def float64_weight(weight: Any, rows: Any) -> Tensor | None:
    """Weights (n,) as float64 in main memory, or None."""
    if weight is None:
        return None
    w = as_rows(weight).to("cpu", torch.float64)
    if tuple(w.shape) != (len(rows),):
        raise GramianError(f"weight of shape {tuple(w.shape)}, expected ({len(rows)},)")
    if not bool((w >= 0).all()) or not bool(torch.isfinite(w).all()):
        raise GramianError("weights must be finite and not negative")
    return w


def counts(n: int, weight: Tensor | None) -> tuple[float, float]:
    """``sum w`` and ``sum w^2``."""
    if weight is None:
        return float(n), float(n)
    return float(weight.sum()), float(weight @ weight)


def centre(x: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
    """Mean (d,) and rows about it, with the rounding of the first mean removed."""
    total = float(len(x)) if weight is None else float(weight.sum())
    if total == 0:
        return torch.zeros(x.shape[1], dtype=x.dtype, device=x.device), torch.zeros_like(x)

    def average(rows: Tensor) -> Tensor:
        return (rows.sum(0) if weight is None else weight @ rows) / total

    mean = average(x)
    correction = average(x - mean)
    mean = mean + correction
    return mean, x - mean
