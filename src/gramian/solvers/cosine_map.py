"""A map that makes a sum point in the right direction, by descent from the identity."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import Quadratic


@dataclass(frozen=True, eq=False)
class Directed:
    """The map found, and how well the sums point with it and without it."""

    step: Tensor
    """(d, d) float64: the map is the identity plus this."""
    loss: float
    """Mean of ``1 - cos`` on the judged rows."""
    loss_identity: float
    epochs: int
    """Passes over the rows until the judged loss no longer fell."""


@dataclass(frozen=True, eq=False)
class BranchRows:
    """Rows of a branch, of the stream with it, and of where the stream should point."""

    branch: Tensor
    """(n, d)."""
    stream: Tensor
    """(n, d), ``branch`` included."""
    target: Tensor
    """(n, d)."""

    def loss(self, step: Tensor) -> Tensor:
        """Mean of ``1 - cos(stream + step branch, target)``."""
        moved = self.stream + self.branch @ step.T
        return 1.0 - torch.nn.functional.cosine_similarity(moved, self.target, dim=1).mean()

    def part(self, index: Tensor) -> BranchRows:
        """Some of the rows."""
        return BranchRows(self.branch[index], self.stream[index], self.target[index])


def cosine_map(
    rows: BranchRows,
    judge: BranchRows,
    *,
    beside: Quadratic | None = None,
    epochs: int = 30,
    batch: int = 1024,
    rate: float = 5e-3,
    patience: int = 4,
    seed: int = 0,
) -> Directed:
    """Minimise the mean of ``1 - cos(stream + W branch, target)`` with Adam from ``W = 0``.

    There is no closed form; near the optimum the objective is least squares with every row
    weighted by one over its target's squared length. The epoch of least loss on ``judge`` is kept.

    Parameters
    ----------
    rows, judge : what is fitted and what decides when to stop.
    beside : a quadratic in ``W`` added to the mean loss: of rows that are known by their moments
        alone.
    rate, batch, epochs : of Adam (a cosine schedule to zero). patience : epochs without a fall.

    Raises
    ------
    GramianError : no rows, or rows that do not match.
    """
    for part, name in ((rows, "rows"), (judge, "judge")):
        shapes = {tuple(x.shape) for x in (part.branch, part.stream, part.target)}
        if len(shapes) != 1 or len(part.branch) == 0:
            raise GramianError(
                f"{name} of shapes {sorted(shapes)}, expected one shape (n, d) with n above 0"
            )
    generator = torch.Generator().manual_seed(seed)
    width = rows.branch.shape[1]
    step = torch.zeros(width, width, dtype=rows.branch.dtype, requires_grad=True)
    optimiser = torch.optim.Adam([step], lr=rate)
    count = len(rows.branch)
    batches = -(-count // batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs * batches)
    identity = best = float(judge.loss(torch.zeros_like(step)))
    kept, last = torch.zeros_like(step).detach(), 0
    for epoch in range(epochs):
        order = torch.randperm(count, generator=generator)
        for index in torch.split(order, batch):
            optimiser.zero_grad()
            loss = rows.part(index).loss(step)
            if beside is not None:
                loss = loss + ((step @ beside.A - 2.0 * beside.B.T) * step).sum() + beside.c
            loss.backward()
            optimiser.step()
            schedule.step()
        with torch.no_grad():
            judged = float(judge.loss(step))
        if judged < best:
            best, kept, last = judged, step.detach().clone(), epoch + 1
        elif epoch + 1 - last >= patience:
            break
    return Directed(kept.double(), best, identity, last)
