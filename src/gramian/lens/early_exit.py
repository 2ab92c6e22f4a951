"""The early-exit rule: stop at the first layer that is sure enough (2303.09435, 2207.07061)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.lens.judge import Judgement

TEMPERATURE = 4.0
"""tau of the threshold, as in CALM."""


@dataclass(frozen=True)
class EarlyExit:
    """The rule tuned on one half of the rows and measured on the other."""

    threshold: float
    """lambda: 0 leaves at once, 1 almost never."""
    asked: float
    agreement: float
    """Share of the second half's rows on which the early answer is the full network's."""
    layers_saved: float
    """Mean number of layers not computed, on the second half."""
    depth: int

    @property
    def share_saved(self) -> float:
        """Saved layers as a share of the depth."""
        return self.layers_saved / self.depth


def early_exit(judgement: Judgement, *, agreement: float = 0.95, length: int = 512) -> EarlyExit:
    """Find the laxest threshold that keeps ``agreement`` and measure it on other rows.

    A row leaves at the first layer whose largest probability is at least
    ``0.9 lambda + 0.1 exp(-tau t / N)`` at position t of N. Lambda is chosen on the first half of
    the rows (in text order) and all figures are of the second half.

    Raises
    ------
    GramianError : fewer than 4 rows, or ``agreement`` outside (0, 1].
    """
    rows = judgement.confidence.shape[1]
    if rows < 4 or not 0 < agreement <= 1:
        raise GramianError(
            f"the early-exit rule needs at least 4 rows and an agreement in (0, 1]; given {rows} "
            f"rows and {agreement}"
        )
    half = rows // 2
    first, second = slice(0, half), slice(half, rows)
    chosen = 1.0
    for threshold in torch.linspace(0, 1, 101).tolist():
        if _outcome(judgement, first, threshold, length)[0] >= agreement:
            chosen = threshold
            break
    kept, saved = _outcome(judgement, second, chosen, length)
    return EarlyExit(chosen, agreement, kept, saved, judgement.confidence.shape[0])


def _outcome(
    judgement: Judgement, rows: slice, threshold: float, length: int
) -> tuple[float, float]:
    """(agreement, mean layers saved) of a threshold on some rows."""
    time = judgement.position[rows].double()
    needed: Tensor = 0.9 * threshold + 0.1 * torch.exp(-TEMPERATURE * time / length)
    sure = judgement.confidence[:, rows].double() >= needed
    depth = sure.shape[0]
    leaves = torch.where(sure.any(0), sure.int().argmax(0), depth)
    answers = torch.cat([judgement.agrees[:, rows], torch.ones_like(sure[:1])])
    right = answers.gather(0, leaves[None])[0]
    return float(right.double().mean()), float((depth - leaves).double().mean())
