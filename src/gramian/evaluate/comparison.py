"""Two models side by side on one text."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.evaluate.perplexity import exponential
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
    vocabulary,
)


@dataclass(frozen=True)
class Comparison:
    """A model against its base, over the same scored tokens."""

    agreement: float
    """Share of positions where both rank the same token first."""
    kl: float
    """Mean KL(base || model) of the next token, in nats."""
    speed_ratio: float
    """Seconds of the base over seconds of the model: above 1 when the model is faster."""
    perplexity: float
    """Perplexity of the model."""
    perplexity_base: float
    """Perplexity of the base."""
    seconds: float
    """Median seconds of the model's forward pass over one window."""
    seconds_base: float
    """Median seconds of the base's forward pass over one window."""
    tokens: int
    """How many tokens were scored."""

    def to_json(self) -> dict[str, Any]:
        """``{"perplexity", "tokens", "agreement", "kl", "speed_ratio"}``."""
        return {
            "perplexity": self.perplexity,
            "tokens": self.tokens,
            "agreement": self.agreement,
            "kl": self.kl,
            "speed_ratio": self.speed_ratio,
        }


@dataclass(frozen=True)
class _Sums:
    nats: float
    nats_base: float
    kl: float
    agreed: int

    def __add__(self, other: _Sums) -> _Sums:
        return _Sums(
            self.nats + other.nats,
            self.nats_base + other.nats_base,
            self.kl + other.kl,
            self.agreed + other.agreed,
        )


def compare(
    model: nn.Module,
    base: nn.Module,
    ids: Tensor | NDArray[Any],
    *,
    length: int = 512,
    windows: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Agreement, KL divergence and speed of a model against a base on one text.

    Windows, scored positions and numbers as in `perplexity`; the logits of one window are held
    for each model. Both run every window in turn, the first to go alternating, and speed is the
    ratio of the median times; the first window warms up and is not timed when there are others.

    Parameters
    ----------
    model, base : causal language models with ``model(input_ids).logits`` over one vocabulary.
    ids, length, windows, progress : as in `perplexity`.

    Raises
    ------
    GramianError : as in `perplexity`, or two vocabularies.
    """
    rows = cut(ids, length, windows)
    sizes = vocabulary(model), vocabulary(base)
    if None not in sizes and sizes[0] != sizes[1]:
        raise _two_vocabularies(sizes[0], sizes[1])
    check_fits(model, rows, "model")
    check_fits(base, rows, "base")
    count, length = rows.shape
    total = _Sums(0.0, 0.0, 0.0, 0)
    times: list[tuple[float, float]] = []
    with reading(model, base):
        for i, row in enumerate(rows):
            if i % 2:
                right, slow = _timed(base, row)
                left, fast = _timed(model, row)
            else:
                left, fast = _timed(model, row)
                right, slow = _timed(base, row)
            if left.shape[-1] != right.shape[-1]:
                raise _two_vocabularies(left.shape[-1], right.shape[-1])
            sums = _window(left, right, row)
            del left, right
            check_number(sums.nats, "model", i, count, length)
            check_number(sums.nats_base, "base", i, count, length)
            total, times = total + sums, [*times, (fast, slow)]
            if progress:
                progress((i + 1) * length, rows.numel())
    tokens = count * (length - 1)
    model_times, base_times = zip(*(times[1:] or times), strict=True)
    seconds, seconds_base = median(model_times), median(base_times)
    return Comparison(
        agreement=total.agreed / tokens,
        kl=max(0.0, total.kl / tokens),
        speed_ratio=seconds_base / seconds,
        perplexity=exponential(total.nats / tokens),
        perplexity_base=exponential(total.nats_base / tokens),
        seconds=seconds,
        seconds_base=seconds_base,
        tokens=tokens,
    )


def _two_vocabularies(model: int | None, base: int | None) -> GramianError:
    return GramianError(
        f"the model has a vocabulary of {model} tokens and the base one of {base}; "
        "compare models that share a tokenizer"
    )


def _timed(model: nn.Module, row: Tensor) -> tuple[Tensor, float]:
    """Logits (length, vocabulary) of one window and the seconds they took."""
    device = device_of(model)
    ids = row[None].to(device)
    _wait(device)
    begin = time.perf_counter()
    logits = logits_of(model, ids)[0]
    _wait(device)
    return logits, time.perf_counter() - begin


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def _window(left: Tensor, right: Tensor, row: Tensor) -> _Sums:
    total = _Sums(0.0, 0.0, 0.0, 0)
    targets = row[1:].to(left.device)
    for some, other, following in chunks(left[:-1], right[:-1], targets):
        other = other.to(some.device)
        p, q = log_probabilities(some), log_probabilities(other)
        # KL(q || p) = sum q (log q - log p), where q = 0 adds nothing
        terms = torch.where(q == -torch.inf, torch.zeros_like(q), q.exp() * (q - p))
        total += _Sums(
            target_nats(p, following),
            target_nats(q, following),
            float(terms.sum(dtype=torch.float64)),
            int((some.argmax(-1) == other.argmax(-1)).sum()),
        )
    return total
