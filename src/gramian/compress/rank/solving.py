"""Every linear of a network at every rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from gramian.compress.rank.fitting import Fitted, Options, fit
from gramian.compress.rank.matrices import linears_of
from gramian.compress.rank.reading import Reading
from gramian.errors import GramianError
from gramian.moments import MomentSet
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.draft import Draft
from gramian.solvers.truncate import Metric


@dataclass(frozen=True, eq=False)
class Solved:
    """Linears truncated at every rank, from which plans of any size are made."""

    linears: tuple[Fitted, ...]
    options: Options
    rows: int
    """Rows that they were solved from."""


def solve(
    checkpoint: Checkpoint,
    moments: MomentSet,
    *,
    metric: Metric = "full",
    alpha: float = 0.5,
    shrink: float = 0.0,
    centred: bool | None = None,
    output_metrics: Mapping[str, Tensor] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Solved:
    """Truncate every linear at every rank that makes it smaller; no rank is chosen.

    The factors take as much memory as the linears themselves. Options and errors: those of
    :func:`gramian.compress.rank.plan`.
    """
    Draft.of(checkpoint)
    options = Options(metric, alpha, shrink, centred)
    linears = linears_of(checkpoint)
    metrics = dict(output_metrics or {})
    if unknown := set(metrics) - {linear.matrix.weight for linear in linears}:
        raise GramianError(f"output_metrics names {min(unknown)!r}, which is no linear of a block")
    reading = Reading(checkpoint, moments)
    reading.require(linears, diagonals=options.diagonals)
    found: list[Fitted] = []
    for linear in linears:
        found.append(fit(reading, linear, options, metrics.get(linear.matrix.weight)))
        if progress:
            progress(len(found), len(linears))
    rows = int(reading.fit(linears[0], diagonals=False).count)
    return Solved(tuple(found), options, rows)
