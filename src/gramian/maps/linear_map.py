"""The verbs that every map has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.maps.arrays import as_floats, promoted
from gramian.maps.stored import Stored
from gramian.maps.tags import Tag, as_tags, defect, pinv_tags

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator


@dataclass(frozen=True, eq=False, repr=False)
class LinearMap(Stored, ABC):
    """A linear map on the last axis: ``y = x @ W.T`` with ``W`` of shape (out, in).

    ``tags`` are facts declared about ``W`` (see `Tag`); `check_tags` verifies them.
    Every kind is a frozen dataclass over tensors: a verb returns a new map.
    """

    inherent: ClassVar[frozenset[Tag]] = frozenset()
    """Facts true of every map of this kind."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tags", as_tags(self.tags) | self.inherent)
        if self.tags and self.in_features != self.out_features:
            raise GramianError(
                f"{type(self).__name__} of shape {self.shape} cannot be "
                f"{' or '.join(sorted(self.tags))}: only a square map can"
            )
        devices = {str(tensor.device) for tensor in self.tensors().values()}
        if len(devices) > 1:
            raise GramianError(
                f"the tensors of a {type(self).__name__} lie on {' and '.join(sorted(devices))}; "
                "move them to one device first"
            )

    # What a kind tells about itself.

    @abstractmethod
    def _apply(self, x: Tensor) -> Tensor:
        """Rows (..., in) to (..., out), computed in the dtype of x."""

    @abstractmethod
    def _dense(self, dtype: torch.dtype, device: torch.device) -> Tensor: ...

    @abstractmethod
    def _inverse(self) -> LinearMap: ...

    @abstractmethod
    def _pinv(self, rtol: float | None) -> LinearMap: ...

    # What follows for all kinds.

    def __call__(self, x: Tensor | NDArray[Any]) -> Tensor:
        """Apply to rows (..., in) and return (..., out).

        Computes in the dtype that holds both the input and the map. A NumPy array comes back as
        a tensor. An identity returns its input itself.

        Raises
        ------
        GramianError : wrong last dimension, no floating point numbers, or another device.
        """
        rows = as_floats(x, "input", device=self.device)
        if rows.ndim == 0 or rows.shape[-1] != self.in_features:
            raise GramianError(
                f"input has shape {tuple(rows.shape)}, expected (..., {self.in_features}) "
                f"for {self!r}"
            )
        if self.device is not None and rows.device != self.device:
            raise GramianError(
                f"input lies on {rows.device} and the map on {self.device}; "
                f"move one of them, for example map.to(device={str(rows.device)!r})"
            )
        return self._apply(rows.to(promoted((rows.dtype, self.dtype))))

    def __matmul__(self, other: LinearMap) -> LinearMap:
        """``g @ f``: g after f, simplified where that is cheap, else a `Chain`."""
        from gramian.maps.compose import compose

        if not isinstance(other, LinearMap):
            raise GramianError(
                f"@ composes two maps and got a {type(other).__name__}; apply a map to rows by "
                "calling it, map(x), or wrap a weight of shape (out, in) as Dense(weight)"
            )
        return compose(self, other)

    __array_ufunc__ = None

    @property
    @abstractmethod
    def T(self) -> LinearMap:
        """The map with the transposed matrix."""

    def inverse(self) -> LinearMap:
        """The inverse; of an orthogonal map, its transpose. Solved in float64, same dtype out.

        Raises
        ------
        GramianError : not square, or singular to the precision of its dtype.
        """
        if self.in_features != self.out_features:
            raise GramianError(f"{self!r} is not square and has no inverse; use pinv()")
        if Tag.ORTHOGONAL in self.tags:
            return self.T
        return self._inverse().with_tags(*self.tags)

    def pinv(self, rtol: float | None = None) -> LinearMap:
        """The Moore-Penrose pseudo-inverse; singular values up to rtol x the largest count as zero.

        ``rtol`` defaults to the rounding noise of the map's dtype, max(16, in, out) x its unit (of
        thin factors, relative to their own norms), and to exact zeros for a diagonal map.
        """
        if rtol is not None and not 0 <= rtol < 1:
            raise GramianError(f"rtol is {rtol}, expected a number from 0 to below 1")
        if Tag.ORTHOGONAL in self.tags:
            return self.T
        if {Tag.PROJECTION, Tag.SYMMETRIC} <= self.tags:
            return self
        return self._pinv(rtol).with_tags(*pinv_tags(self.tags))

    def to_dense(self, dtype: torch.dtype | None = None) -> Tensor:
        """The matrix W, (out, in); of an `Affine`, its linear part. May share memory.

        ``dtype`` defaults to the map's, or torch's default for a map without numbers.
        """
        dtype = dtype or self.dtype or torch.get_default_dtype()
        return self._dense(dtype, self.device or torch.device("cpu"))

    def to_linear(self) -> nn.Linear:
        """The same map as a trainable ``nn.Linear`` with its own memory."""
        weight = self.to_dense().detach().clone()
        linear = nn.Linear(self.in_features, self.out_features, bias=False, device="meta")
        linear.weight = nn.Parameter(weight.contiguous())
        return linear

    def aslinearoperator(self) -> LinearOperator:
        """The same map as a SciPy ``LinearOperator`` of shape (out, in)."""
        from gramian.maps.scipy_operator import linear_operator

        return linear_operator(self)

    def with_tags(self, *tags: Tag | str) -> Self:
        """The same map with more facts declared about it."""
        if as_tags(tags) <= self.tags:
            return self
        return self.assemble(self.shape, self._own(), self.parts(), as_tags(tags) | self.tags)

    def tag_defect(self, tag: Tag | str) -> float:
        """How far the matrix is from a fact: |W Wᵀ - I|, |W - Wᵀ|, |W W - W|, Frobenius norms
        relative to the norm of the identity or of W. Forms the matrix in float64.
        """
        (fact,) = as_tags((tag,))
        return defect(self.to_dense(torch.float64), fact)

    def check_tags(self, tol: float = 1e-6) -> Self:
        """Verify the declared tags and return the map itself.

        Raises
        ------
        GramianError : a declared fact is off by more than ``tol`` (see `tag_defect`).
        """
        for tag in sorted(set(self.tags) - self.inherent):
            defect = self.tag_defect(tag)
            if not defect <= tol:
                raise GramianError(
                    f"{self!r} is declared {tag.value} and is off by {defect:.2e}, more than "
                    f"tol = {tol:.2e}; drop the tag or raise tol"
                )
        return self

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write to one safetensors file, whole or not at all; `load_map` reads it.

        Raises
        ------
        GramianError : the file exists and ``force`` is off, or it cannot be written.
        """
        from gramian.maps.storage import save_map

        return save_map(self, path, force=force)

    def _detail(self) -> str:
        return ""

    def __repr__(self) -> str:
        dtype = "" if self.dtype is None else f", {str(self.dtype).removeprefix('torch.')}"
        tags = "".join(f", {tag}" for tag in sorted(set(self.tags) - self.inherent))
        return (
            f"{type(self).__name__}({self.in_features} -> {self.out_features}{self._detail()}"
            f"{dtype}, {self.parameters:,} parameters{tags})"
        )
