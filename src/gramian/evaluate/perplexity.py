"""How well a model predicts a text."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from torch import Tensor, nn

from gramian.errors import GramianError
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


@dataclass(frozen=True)
class Perplexity:
    """How surprised a model is by a text."""

    perplexity: float
    """exp(nll)."""
    nll: float
    """Mean negative log-likelihood of a scored token, in nats."""
    tokens: int
    """How many tokens were scored."""

    def to_json(self) -> dict[str, Any]:
        """``{"perplexity", "tokens"}``."""
        return {"perplexity": self.perplexity, "tokens": self.tokens}


def exponential(nll: float) -> float:
    """exp(nll), infinite where float64 overflows."""
    return math.exp(nll) if nll < 709 else math.inf


def perplexity(
    model: nn.Module,
    ids: Tensor | NDArray[Any],
    *,
    length: int = 512,
    windows: int | None = None,
    batch: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Perplexity:
    """Perplexity of a causal language model on a text in consecutive windows.

    Nothing is added to the windows (no BOS) and none sees another; the first token of each is
    not scored. Log-softmax in float32, a few positions at a time; sums in float64.

    Parameters
    ----------
    model : any causal language model with ``model(input_ids).logits``.
    ids : (n,) token ids of the whole text. A last partial window is dropped unless it is the
        only one.
    length : tokens per window.
    windows : how many windows from the start; all by default, and all when there are fewer.
    batch : windows per forward pass; the logits of one pass are held.
    progress : called after every pass with the tokens done and the tokens in all.

    Raises
    ------
    GramianError : ids, length or windows that do not fit the model, or NaN logits (says in which
        window).
    """
    rows = cut(ids, length, windows)
    if batch < 1:
        raise GramianError(f"batch is {batch}, expected 1 or more")
    check_fits(model, rows, "model")
    count, length = rows.shape
    total = 0.0
    with reading(model):
        for start in range(0, count, batch):
            part = rows[start : start + batch].to(device_of(model))
            logits = logits_of(model, part)
            for i in range(len(part)):
                nats = _window_nats(logits[i], part[i])
                check_number(nats, "model", start + i, count, length)
                total += nats
            del logits
            if progress:
                progress((start + len(part)) * length, rows.numel())
    tokens = count * (length - 1)
    return Perplexity(exponential(total / tokens), total / tokens, tokens)


def _window_nats(logits: Tensor, ids: Tensor) -> float:
    """Summed surprisal of tokens 2 to length of one window."""
    targets = ids[1:].to(logits.device)
    scored = chunks(logits[:-1], targets)
    return sum(target_nats(log_probabilities(some), right) for some, right in scored)
