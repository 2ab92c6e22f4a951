"""How much of a weight matrix the data uses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures.effective_rank import spectrum_of
from gramian.moments import Moments
from gramian.moments.products import as_rows
from gramian.registry import method
from gramian.solvers.spectrum import eigenvalues, eigh


@dataclass(frozen=True)
class UtilisedRank:
    """Directions that hold a share of the variance on both sides of a linear layer."""

    input: int
    """``k_S``: directions of the input that hold the share."""
    output: int
    """``k_T``: the same of the output."""
    inputs: int
    outputs: int
    energy: float

    @property
    def rank(self) -> int:
        """The smaller of the two."""
        return min(self.input, self.output)

    @property
    def utilisation(self) -> float:
        """``rank / min(inputs, outputs)``, 0 to 1."""
        return self.rank / min(self.inputs, self.outputs)


@dataclass(frozen=True, eq=False)
class InputBasis:
    """The principal directions of the input of linear layers: computed once for all its readers."""

    values: Tensor
    """(d,) variances, descending, rounding below zero clamped."""
    vectors: Tensor
    """(d, d), directions as columns."""

    @classmethod
    def of(cls, moments: Moments) -> InputBasis:
        """Of the covariance of full moments.

        Raises
        ------
        GramianError : diagonal moments, or an order above 8192.
        """
        if moments.is_diagonal:
            raise GramianError(
                "the utilised rank needs full moments of the input; only the diagonal is kept"
            )
        values, vectors = eigh(moments.scatter)
        return cls(values.flip(0).clamp_min(0.0), vectors.flip(1))

    def utilised(self, weight: Any, energy: float) -> UtilisedRank:
        """The utilised rank of one reader of this input; see `utilised_rank`."""
        matrix = self._weight(weight)
        outputs, inputs = matrix.shape
        # W C W^T has the eigenvalues of (W V sqrt(L))^T (W V sqrt(L)): take the smaller product.
        image = (matrix @ self.vectors) * self.values.sqrt()
        gram = image.T @ image if inputs < outputs else image @ image.T
        mapped = eigenvalues((gram + gram.T) / 2).clamp_min(0.0)
        return UtilisedRank(
            energy_rank(self.values, energy), energy_rank(mapped, energy), inputs, outputs, energy
        )

    def project(self, weight: Any, energy: float) -> Tensor:
        """The weight with all that is not used projected away, ``P_T W P_S`` (out, in)."""
        matrix = self._weight(weight)
        used = self.vectors[:, : energy_rank(self.values, energy)]
        image = (matrix @ self.vectors) * self.values.sqrt()
        left: Tensor
        left, singular, _ = torch.linalg.svd(image, full_matrices=False)
        kept = left[:, : energy_rank(singular.square(), energy)]
        return kept @ (kept.T @ (matrix @ used)) @ used.T

    def _weight(self, weight: Any) -> Tensor:
        matrix = as_rows(weight).to("cpu", torch.float64)
        if matrix.ndim != 2 or matrix.shape[1] != len(self.values):
            raise GramianError(
                f"a weight of shape {tuple(matrix.shape)} for inputs of width "
                f"{len(self.values)}, expected (out, {len(self.values)})"
            )
        return matrix


@method("utilised_rank", job="inspect", paper="2407.04797")
def utilised_rank(moments: Moments, weight: Any, *, energy: float = 0.99) -> UtilisedRank:
    """How many directions of its input and of its output a linear layer uses: those that hold a
    share of the variance, from C and from ``W C W^T``.

    Parameters
    ----------
    moments : full moments of the layer's input. Leave sink rows out: one row a hundred times
        longer than the others holds 99 % of the energy on its own.
    weight : (out, in).
    energy : the share, in (0, 1].

    Raises
    ------
    GramianError : shapes that do not fit, diagonal moments, or a share outside (0, 1].
    """
    return InputBasis.of(moments).utilised(weight, energy)


def energy_rank(moments: Moments | Tensor, energy: float) -> int:
    """The least number of principal directions that hold a share of the variance.

    Of moments (full) or of eigenvalues (d,) in any order. ``energy=1`` counts the directions
    above rounding; 0 when nothing varies.

    Raises
    ------
    GramianError : a share outside (0, 1].
    """
    if not 0 < energy <= 1:
        raise GramianError(f"energy is {energy!r}, expected a share in (0, 1]")
    values = spectrum_of(moments).sort(descending=True).values
    total = float(values.sum())
    if total <= 0:
        return 0
    above = int((values > len(values) * torch.finfo(torch.float64).eps * values[0]).sum())
    if energy == 1:
        return above
    needed = int((values.cumsum(0) < energy * total * (1 - 4 * math.ulp(1.0))).sum()) + 1
    return min(needed, above)
