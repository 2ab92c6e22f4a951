"""A matrix that writes into the stream, and the moments of what it reads: features go from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import Moments, MomentSet
from gramian.networks.blueprint import Matrix
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.offloaded import present
from gramian.networks.structures import structures_of
from gramian.solvers.reconstruct import Reconstruction, reconstruct
from gramian.solvers.spectrum import middle_eigenvalue


@dataclass(frozen=True, eq=False)
class Narrowing:
    """The writer of one branch as (out, features), its bias, and the moments of the features.

    Sink rows are among the rows: few features make them, and what is fitted without them loses
    the attention sink.
    """

    site: str
    weight: Tensor
    bias: Tensor | None
    train: Moments
    select: Moments
    report: Moments

    @classmethod
    def of(cls, checkpoint: Checkpoint, moments: MomentSet, site: str, matrix: Matrix) -> Narrowing:
        """Read the weights and the moments of one layer.

        Raises
        ------
        GramianError : moments of which only the diagonal is kept, or without rows to fit on.
        """
        train, select, report = (
            moments.moments(site, fold=fold, sinks=True).without_quartic()
            for fold in ("train", "select", "report")
        )
        if train.is_diagonal:
            raise GramianError(
                f"of {site} only the diagonal of the second moments is kept; collect it whole"
            )
        if train.count <= 0:
            raise GramianError(f"no rows of {site} to fit on; collect more text")
        model = checkpoint.model
        if matrix.weight.removesuffix(".weight") in structures_of(checkpoint.config):
            raise GramianError(f"{matrix.weight} is stored as two factors; narrow before that")

        def stored(name: str) -> Tensor:
            return present(model, name, model.get_parameter(name)).detach().cpu().double()

        weight = stored(matrix.weight)
        weight = (weight.T if matrix.inputs_first else weight).contiguous()
        bias = stored(matrix.bias) if matrix.has_bias else None
        return cls(site, weight, bias, train, select, report)

    @property
    def rows(self) -> int:
        """Rows that maps are fitted on."""
        return round(self.train.count + self.select.count)

    @cached_property
    def second(self) -> Tensor:
        """Second moments that count: about the mean where a bias takes it, about zero else."""
        return self.train.raw() if self.bias is None else self.train.scatter

    @cached_property
    def scale(self) -> float:
        """Their median eigenvalue."""
        return middle_eigenvalue(self.second)

    @property
    def noise(self) -> float:
        """The ridge that leaves out what so few rows do not settle: their number for each
        dimension bounds how well second moments are known, relative to their size."""
        return self.scale * min(1.0, self.train.d / self.train.count)

    @property
    def energy(self) -> Tensor:
        """(features,): the squared length of what each alone adds to the output."""
        return self.second.diagonal() * self.weight.square().sum(0)

    def keeping(self, kept: Sequence[int] | Tensor, *, refit: bool) -> Reconstruction:
        """The writer over some features, refitted or as it is."""
        return reconstruct(
            self.weight,
            kept,
            self.train,
            self.select,
            self.report,
            bias=self.bias,
            refit=refit,
            scale=self.scale if refit else None,
        )


def kept_by(scores: Tensor, number: int) -> Tensor:
    """The indices of the largest scores, ascending."""
    order = torch.argsort(scores, descending=True, stable=True)
    return order[:number].sort().values
