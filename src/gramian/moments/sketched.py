"""Second moments of sites too wide for a matrix of their own: ``C Omega`` in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import LinearMap
from gramian.moments.moments import centre, counts, float64_rows, float64_weight


@dataclass(frozen=True, eq=False)
class SketchedMoments:
    """Count, mean, total variance and the scatter times a fixed thin matrix; they add.

    ``sketch`` is a map from d to k coordinates (`gramian.maps.fjlt`, a Gaussian `Dense`); with its
    matrix ``Omega^T`` the sum kept is ``C Omega``, (d, k) instead of (d, d). All parts to be added
    must be of one sketch, which a seed fixes. `gramian.solvers.nystrom` reads them.
    """

    count: float
    """``sum w``."""
    mean: Tensor
    """(d,) float64."""
    trace: float
    """``sum w |x - mean|^2``, exact."""
    product: Tensor
    """``sum w (x - mean) sketch(x - mean)^T``, (d, k) float64."""
    sketch: LinearMap

    def __post_init__(self) -> None:
        expected = (len(self.mean), self.sketch.out_features)
        if self.sketch.in_features != len(self.mean) or tuple(self.product.shape) != expected:
            raise GramianError(
                f"sketched moments: a product of shape {tuple(self.product.shape)} and rows of "
                f"width {len(self.mean)} with {self.sketch!r}"
            )

    @classmethod
    def from_rows(cls, rows: Any, sketch: LinearMap, weight: Any = None) -> SketchedMoments:
        """Sketched moments of rows (n, d), of any float dtype, computed in float64.

        weight : (n,) not negative, optional.

        Raises
        ------
        GramianError : wrong shapes, a sketch with a bias or of another width, a negative weight,
            or NaN or infinity in a row.
        """
        if "bias" in sketch.tensor_names:
            raise GramianError(f"{sketch!r} has a bias; a sketch is linear: give its .map")
        x, w = float64_rows(rows, "rows"), float64_weight(weight, rows)
        if x.shape[1] != sketch.in_features:
            raise GramianError(f"rows of width {x.shape[1]} do not pass through {sketch!r}")
        mean, u = centre(x, w)
        weighted = u if w is None else u * w[:, None]
        trace = float((weighted * u).sum())
        return cls(counts(len(x), w)[0], mean, trace, weighted.T @ _thin(sketch, u), sketch)

    @classmethod
    def empty(cls, sketch: LinearMap) -> SketchedMoments:
        """Sketched moments of no rows: adding them changes nothing."""
        d, k = sketch.in_features, sketch.out_features
        zeros = torch.zeros(d, k, dtype=torch.float64)
        return cls(0.0, torch.zeros(d, dtype=torch.float64), 0.0, zeros, sketch)

    def __add__(self, other: SketchedMoments) -> SketchedMoments:
        if not isinstance(other, SketchedMoments):
            return NotImplemented
        if not _same(self.sketch, other.sketch):
            raise GramianError(
                f"moments sketched by {self.sketch!r} and by {other.sketch!r} do not add; use one "
                "sketch, of one seed, everywhere"
            )
        if self.count == 0 or other.count == 0:
            return other if self.count == 0 else self
        # Chan: C Omega = a + b + (n_a n_b / n) delta (Omega^T delta)^T
        count = self.count + other.count
        delta, factor = other.mean - self.mean, self.count * other.count / count
        product = torch.addr(
            self.product + other.product, delta, _thin(self.sketch, delta), alpha=factor
        )
        return SketchedMoments(
            count,
            self.mean + delta * (other.count / count),
            self.trace + other.trace + factor * float(delta @ delta),
            product,
            self.sketch,
        )

    def __radd__(self, other: int) -> SketchedMoments:
        return self if other == 0 else NotImplemented

    def core(self) -> Tensor:
        """``Omega^T C Omega``, (k, k), symmetric."""
        core = _thin(self.sketch, self.product.T)
        return (core + core.T) / 2

    def __repr__(self) -> str:
        d, k = self.product.shape
        return f"SketchedMoments({self.count:g} rows, d={d}, k={k})"


def _thin(sketch: LinearMap, rows: Tensor) -> Tensor:
    return sketch(rows).to(torch.float64)


def _same(left: LinearMap, right: LinearMap) -> bool:
    if left is right:
        return True
    ours, theirs = left.tensors(), right.tensors()
    return (
        left.spec() == right.spec()
        and ours.keys() == theirs.keys()
        and all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())
    )
