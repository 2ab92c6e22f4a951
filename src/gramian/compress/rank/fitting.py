"""Every rank of one linear: its factors, what each rank loses, and on rows it was not made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gramian.compress.rank.matrices import Linear
from gramian.compress.rank.reading import Reading
from gramian.solvers.allocate import Curve
from gramian.solvers.truncate import Metric, Truncation, truncation
from gramian.solvers.truncated_error import truncated_errors


@dataclass(frozen=True)
class Options:
    """How linears are truncated; see `truncation`."""

    metric: Metric = "full"
    alpha: float = 0.5
    shrink: float = 0.0
    centred: bool | None = None
    """True gives every linear a bias that can have one, None only keeps the mean of those that
    have one, False none."""

    @property
    def diagonals(self) -> bool:
        """Whether diagonal moments of the inputs are read where full ones are not."""
        return self.metric == "diag" or (self.metric == "full" and self.shrink > 0)

    def centres(self, linear: Linear) -> bool:
        """Whether the mean output of a linear is kept by its bias."""
        return linear.matrix.has_bias if self.centred is None else self.centred and linear.has_slot


@dataclass(frozen=True, eq=False)
class Fitted:
    """One linear, truncated at every rank that makes it smaller."""

    linear: Linear
    truncation: Truncation
    curve: Curve
    errors: Tensor | None
    """Of rank 0, 1, ...: predicted squared error on ``report`` over the length of the target."""

    def error(self, rank: int | None) -> float | None:
        """The predicted relative error at a rank; 0 for the linear in one piece."""
        if rank is None:
            return 0.0
        return None if self.errors is None else float(self.errors[rank])

    def kept(self, rank: int | None) -> float:
        """The share of the parameters at a rank."""
        return self.curve.cost(rank) / self.curve.whole


def fit(
    reading: Reading, linear: Linear, options: Options, output_metric: Tensor | None = None
) -> Fitted:
    """Truncate one linear. Factors are held in the dtype of the weights, up to break-even."""
    weight = linear.weight(reading.checkpoint)
    sides = reading.fit(linear, diagonals=options.diagonals)
    found = truncation(
        weight,
        sides.inputs,
        outputs=sides.outputs,
        metric=options.metric,
        alpha=options.alpha,
        shrink=options.shrink,
        centred=options.centres(linear),
        output_metric=output_metric,
    )
    scale = found.total
    if options.metric == "full" and output_metric is None:
        # one over what a typical row of the output is long: a sink row owns the mean length
        scale = reading.typical(linear).power(weight.cpu())
    curve = Curve(found.values, *linear.shape, 1.0 / scale if scale > 0 else 0.0)
    stored = torch.promote_types(weight.dtype, torch.float32)
    return Fitted(
        linear, found.upto(curve.most, stored), curve, _errors(reading, linear, found, weight)
    )


def _errors(reading: Reading, linear: Linear, found: Truncation, weight: Tensor) -> Tensor | None:
    report = reading.report(linear)
    if report is None:
        return None
    judge: Any = (
        {"inputs": report.inputs} if report.outputs is None else {"outputs": report.outputs}
    )
    length = report.power(weight.cpu())
    if length <= 0:
        return None
    return truncated_errors(found, weight, **judge) / length
