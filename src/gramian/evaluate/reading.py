"""What a model says of a text: how surprised it is, and which token it ranks first everywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.evaluate.perplexity import Perplexity, exponential
from gramian.evaluate.windows import (
    check_fits,
    check_number,
    chunks,
    cut,
    device_of,
    log_probabilities,
    logits_of,
    reading,
    target_nats,
)


@dataclass(frozen=True, eq=False)
class Reading:
    """One pass of a model over a text, to be compared with that of others."""

    perplexity: Perplexity
    choices: Tensor
    """(windows, length - 1): the token that is ranked first at every scored position."""

    def agreement(self, other: Reading) -> float:
        """Share of positions where both rank the same token first.

        Raises
        ------
        GramianError : they read windows of another shape.
        """
        if self.choices.shape != other.choices.shape:
            raise GramianError(
                f"readings of {tuple(self.choices.shape)} and {tuple(other.choices.shape)} "
                "positions; read the same windows with both models"
            )
        return float((self.choices == other.choices).double().mean())


def read(
    model: nn.Module,
    ids: Tensor | NDArray[Any],
    *,
    length: int = 512,
    windows: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Reading:
    """Read a text in the windows of :func:`gramian.evaluate.perplexity`, with its numbers.

    Raises
    ------
    GramianError : as there.
    """
    rows = cut(ids, length, windows)
    check_fits(model, rows, "model")
    count, length = rows.shape
    total, found = 0.0, []
    with reading(model):
        for window, row in enumerate(rows.to(device_of(model))):
            logits = logits_of(model, row[None])[0, :-1]
            targets = row[1:].to(logits.device)
            nats = sum(
                target_nats(log_probabilities(some), right)
                for some, right in chunks(logits, targets)
            )
            check_number(nats, "model", window, count, length)
            total += nats
            found.append(logits.argmax(-1).cpu())
            if progress:
                progress(window + 1, count)
    tokens = count * (length - 1)
    mean = total / tokens
    return Reading(Perplexity(exponential(mean), mean, tokens), torch.stack(found))
