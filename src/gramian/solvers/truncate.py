"""A linear layer of a given rank that gives what the layer gave, from second moments alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, LinearMap, LowRank
from gramian.moments import Moments
from gramian.registry import method
from gramian.solvers.spectrum import eigh

Metric = Literal["full", "diag", "none"]
"""What is known of the input: all second moments, those of each coordinate, nothing."""
FLOOR = 1e-6
"""Share of its mean that is added to a metric on the outputs, so that it can be inverted."""


@dataclass(frozen=True, eq=False)
class Truncation:
    """Every rank of one truncation: of rank r it is ``up[:, :r] @ down[:r]``."""

    values: Tensor
    """(k,) float64, descending: expected squared error per row, in the metric, that each
    direction saves. What a rank loses is the sum of those dropped."""
    up: Tensor
    """(m, k), a direction of the outputs in each column."""
    down: Tensor
    """(k, n), what gives its coordinate in each row."""
    encode: Tensor | None = None
    """(k, m) with ``down = encode @ W``; None where the inputs drift."""
    orthonormal: bool = False
    """Whether ``encode`` is ``up^T``, so that ``up encode`` is a projector."""
    constant: Tensor | None = None
    """(m,) the mean output without its bias, which a centred truncation keeps; else None."""
    coordinates: Tensor | None = None
    """(k,) what ``down`` makes of the mean input."""
    unreachable: float = 0.0
    """Expected squared error that no rank removes: what drift of the inputs has destroyed."""

    @property
    def total(self) -> float:
        """What all directions save, in the metric."""
        return float(self.values.sum())

    def lost(self, rank: int) -> float:
        """Expected squared error per row, in the metric, on the moments behind it."""
        return float(self.values[rank:].sum()) + self.unreachable

    def map(self, rank: int) -> LinearMap:
        """``W'`` as two factors; of a centred truncation an `Affine` whose constant is what has
        to be added to the layer's bias.

        Raises
        ------
        GramianError : a rank outside 1 to k.
        """
        if not 1 <= rank <= len(self.values):
            raise GramianError(f"rank is {rank}, expected 1 to {len(self.values)}")
        factors = LowRank(self.up[:, :rank].contiguous(), self.down[:rank].contiguous())
        if self.constant is None or self.coordinates is None:
            return factors
        # b' = b + W mu - W' mu
        given = self.up[:, :rank].to(self.coordinates) @ self.coordinates[:rank]
        return Affine(factors, self.constant - given)

    def upto(self, rank: int, dtype: torch.dtype) -> Truncation:
        """The same with the factors of higher ranks left out and the others in ``dtype``."""
        up, down = self.up[:, :rank].to(dtype), self.down[:rank].to(dtype)
        inner = None if self.coordinates is None else self.coordinates[:rank]
        return replace(self, up=up, down=down, encode=None, coordinates=inner)


@method("truncate", job="compress", paper="2403.07378")
def truncate(
    weight: Tensor,
    inputs: Moments | None = None,
    *,
    rank: int,
    outputs: Moments | None = None,
    metric: Metric = "full",
    alpha: float = 0.5,
    shrink: float = 0.0,
    centred: bool = False,
    output_metric: Tensor | None = None,
) -> LinearMap:
    """Linear layer of a rank whose outputs are nearest to the layer's own, without an inverse.

    The minimiser of ``E |W x - W' x|^2`` is ``W' = U U^T W`` with ``U`` the leading eigenvectors
    of ``W C W^T``. SVD-LLM (Cholesky factor of ``C``, singular values, inverse) is the same
    matrix, and so are the weight update of Dobi-SVD (2502.02723) and, centred, the layers of
    LiteASR (2502.20583); a singular ``C`` does no harm. All arguments but ``rank``: `truncation`.

    Raises
    ------
    GramianError : a rank outside 1 to min(m, n); see also `truncation`.
    """
    return truncation(
        weight,
        inputs,
        outputs=outputs,
        metric=metric,
        alpha=alpha,
        shrink=shrink,
        centred=centred,
        output_metric=output_metric,
    ).map(rank)


def truncation(
    weight: Tensor,
    inputs: Moments | None = None,
    *,
    outputs: Moments | None = None,
    metric: Metric = "full",
    alpha: float = 0.5,
    shrink: float = 0.0,
    centred: bool = False,
    output_metric: Tensor | None = None,
) -> Truncation:
    """Every rank of `truncate` at once, from one eigendecomposition of order min(m, n).

    Parameters
    ----------
    weight : (m, n), (out, in).
    inputs : moments of the layer's input, width n; diagonal ones serve ``metric="diag"``.
    outputs : moments of ``W x`` (without the bias), width m. They take the place of the inputs'
        for ``metric="full"``: where a layer narrows they are smaller.
    metric : ``"full"``: second moments ``C``. ``"diag"``: ``diag(C)^alpha``, which is ASVD
        (2312.05821) with root mean squares for its mean absolute values. ``"none"``: the
        identity, the plain singular value decomposition; no moments are needed.
    alpha : of ``"diag"``; ASVD takes 0.5, and 1 is the whole diagonal.
    shrink : of ``"full"``: ``(1 - a) C + a diag(C)``, for few rows; with ``outputs`` it also
        needs ``inputs``, diagonal ones at least.
    centred : second moments about the mean, and the mean output restored by the bias.
    output_metric : ``D``, what an error costs: (m,) for each output (FWSVD, 2207.00112: the
        summed Fisher information of each row) or (m, m), such as second moments of gradients.
        Minimises ``E |D^(1/2) (W x - W' x)|^2``; ``D`` is given a floor of 1e-6 of its mean.

    Raises
    ------
    GramianError : shapes that do not fit, numbers that are not finite, moments that the metric
        needs and that are missing, no rows, ``alpha`` or ``shrink`` outside their range.
    """
    w = checked_weight(weight)
    _check_options(metric, alpha, shrink, inputs, outputs, w)
    root, back = _output_roots(output_metric, len(w))
    scaled = w if root is None else root @ w
    # G = Q (T C T^T) Q^T with W = Q T, so that its order is never above the rank of W
    basis, inner = torch.linalg.qr(scaled) if w.shape[0] > w.shape[1] else (None, scaled)
    second = torch.zeros(len(inner), len(inner), dtype=torch.float64)
    if metric == "none":
        second = inner @ inner.T
    elif metric == "diag":
        assert inputs is not None
        second = (inner * _diagonal(inputs, centred).pow(alpha)) @ inner.T
    else:
        if shrink < 1:
            second = (1 - shrink) * _full(inner, inputs, outputs, root, basis, centred)
        if shrink > 0:
            assert inputs is not None
            second = second + shrink * (inner * _diagonal(inputs, centred)) @ inner.T
    values, vectors = eigh((second + second.T) / 2)
    vectors = vectors.flip(1).contiguous()
    up = vectors if basis is None else basis @ vectors
    encode = up.T if root is None else up.T @ root
    up = up if back is None else back @ up
    down = vectors.T @ inner
    constant = _mean_output(w, inputs, outputs) if centred else None
    coordinates = None if constant is None else encode @ constant
    values = values.flip(0).clamp_min(0.0)
    return Truncation(values, up, down, encode, root is None, constant, coordinates)


def _full(
    inner: Tensor,
    inputs: Moments | None,
    outputs: Moments | None,
    root: Tensor | None,
    basis: Tensor | None,
    centred: bool,
) -> Tensor:
    """``T C T^T`` per row, from the moments of either side."""
    if outputs is None:
        assert inputs is not None
        return inner @ _second(inputs, centred) @ inner.T
    found = _second(outputs, centred)
    found = found if root is None else root @ found @ root
    return found if basis is None else basis.T @ found @ basis


def _second(moments: Moments, centred: bool) -> Tensor:
    return (moments.scatter if centred else moments.raw()) / moments.count


def _diagonal(moments: Moments, centred: bool) -> Tensor:
    """(n,) second moments of each coordinate, per row."""
    variances = moments.variances / moments.count
    return (variances if centred else variances + moments.mean.square()).clamp_min(0.0)


def _mean_output(w: Tensor, inputs: Moments | None, outputs: Moments | None) -> Tensor:
    if outputs is not None:
        return outputs.mean
    assert inputs is not None
    return w @ inputs.mean


def _output_roots(metric: Tensor | None, m: int) -> tuple[Tensor | None, Tensor | None]:
    """``D^(1/2)`` and its inverse, (m, m); None without a metric."""
    if metric is None:
        return None, None
    if tuple(metric.shape) not in ((m,), (m, m)) or not bool(metric.isfinite().all()):
        raise GramianError(
            f"output_metric of shape {tuple(metric.shape)}, expected finite numbers of shape "
            f"({m},) or ({m}, {m})"
        )
    d = metric.detach().to("cpu", torch.float64)
    values, axes = (d, torch.eye(m, dtype=torch.float64)) if d.ndim == 1 else eigh((d + d.T) / 2)
    if float(values.min()) < -1e-9 * float(values.abs().max()):
        raise GramianError(
            f"output_metric has the eigenvalue {float(values.min()):.2e}, expected none below zero"
        )
    mean = float(values.clamp_min(0.0).mean())
    if mean == 0:
        raise GramianError("output_metric is zero: no output counts; leave it out")
    root = (values.clamp_min(0.0) + FLOOR * mean).sqrt()
    return (axes * root) @ axes.T, (axes / root) @ axes.T


def checked_weight(weight: Tensor) -> Tensor:
    """The weight (out, in) in float64; refused where it is none, or not finite."""
    if weight.ndim != 2 or not weight.is_floating_point():
        raise GramianError(
            f"weight is {weight.dtype} of shape {tuple(weight.shape)}, expected floating point "
            "(out, in)"
        )
    w = weight.detach().to("cpu", torch.float64)
    if not bool(w.isfinite().all()):
        raise GramianError("the weight holds NaN or infinity")
    return w


def check_moments(moments: Moments, name: str, width: int, *, full: bool) -> None:
    """Refuse moments of another width, of no rows, diagonal ones, or of numbers not finite."""
    if moments.d != width:
        raise GramianError(f"{name} have width {moments.d}, expected {width}, that of the weight")
    if moments.count <= 0:
        raise GramianError(f"{name} have no rows; collect more text")
    if full and moments.is_diagonal:
        raise GramianError(
            f"{name} have diagonal moments only; collect the site with order='full', or take "
            "metric='diag'"
        )
    if not bool(moments.scatter.isfinite().all()) or not bool(moments.mean.isfinite().all()):
        raise GramianError(f"{name} hold NaN or infinity; collect the moments again")


def _check_options(
    metric: str,
    alpha: float,
    shrink: float,
    inputs: Moments | None,
    outputs: Moments | None,
    w: Tensor,
) -> None:
    if metric not in get_args(Metric):
        raise GramianError(f"metric is {metric!r}, expected one of {', '.join(get_args(Metric))}")
    for name, value in (("alpha", alpha), ("shrink", shrink)):
        if not 0 <= value <= 1:
            raise GramianError(f"{name} is {value}, expected 0 to 1")
    if metric == "none":
        return
    full = metric == "full" and shrink < 1
    if full and inputs is None and outputs is None:
        raise GramianError("metric 'full' needs moments of the inputs or of the outputs")
    if inputs is None and (metric == "diag" or shrink > 0):
        raise GramianError(
            f"{'metric diag' if metric == 'diag' else 'shrink'} needs moments of the inputs; "
            "diagonal ones are enough"
        )
    if inputs is not None:
        check_moments(inputs, "inputs", w.shape[1], full=full and outputs is None)
    if outputs is not None:
        check_moments(outputs, "outputs", w.shape[0], full=full)
