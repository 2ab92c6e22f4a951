"""Token ids in consecutive windows, and a model read window by window."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gramian.errors import GramianError

CHUNK = 128
"""Positions whose log-probabilities are held at once."""

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def _tensor(ids: Any) -> Tensor:
    if isinstance(ids, Tensor):
        return ids
    try:
        array = np.asarray(ids)
        return torch.from_numpy(array.astype(np.int64) if array.dtype.kind in "iu" else array)
    except (TypeError, ValueError):
        raise GramianError(
            f"ids is a {type(ids).__name__} that is no array of integers; give the token ids of "
            "one text"
        ) from None


def cut(ids: Tensor | NDArray[Any], length: int, windows: int | None) -> Tensor:
    """Consecutive windows (count, length) of the ids; a partial one only if there is no other.

    Raises
    ------
    GramianError : ids that are no 1-d integers or fewer than two, length below 2, windows below 1.
    """
    tokens = _tensor(ids)
    if tokens.ndim != 1 or tokens.dtype not in INTEGERS:
        raise GramianError(
            f"ids has shape {tuple(tokens.shape)} and dtype {tokens.dtype}, expected the token ids "
            "of one text, 1-d integers"
        )
    if length < 2:
        raise GramianError(f"length is {length}, expected 2 or more: the first token is not scored")
    if windows is not None and windows < 1:
        raise GramianError(f"windows is {windows}, expected 1 or more; leave it out for all")
    if len(tokens) < 2:
        raise GramianError(f"the text has {len(tokens)} tokens, expected at least 2")
    length = min(length, len(tokens))
    count = min(len(tokens) // length, windows or len(tokens))
    return tokens[: count * length].reshape(count, length).to(torch.int64)


def check_fits(model: nn.Module, rows: Tensor, name: str) -> None:
    """Refuse ids outside the model's vocabulary and windows beyond its positions.

    Raises
    ------
    GramianError : says which of both, with the model's own size.
    """
    config = getattr(model, "config", None)
    if config is not None and hasattr(config, "get_text_config"):
        config = config.get_text_config()
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and rows.shape[1] > positions:
        raise GramianError(
            f"length is {rows.shape[1]} and the {name} has {positions} positions; "
            f"pass length={positions} or less"
        )
    size = vocabulary(model)
    lowest, highest = int(rows.min()), int(rows.max())
    if lowest < 0 or (size is not None and highest >= size):
        raise GramianError(
            f"ids run from {lowest} to {highest} and the {name} has a vocabulary of {size}; "
            "tokenize the text with the tokenizer of this model"
        )


def vocabulary(model: nn.Module) -> int | None:
    """How many tokens the model can read, or None when it does not tell."""
    find = getattr(model, "get_input_embeddings", None)
    weight = getattr(find(), "weight", None) if callable(find) else None
    return None if weight is None else int(weight.shape[0])


@contextmanager
def reading(*models: nn.Module) -> Iterator[None]:
    """No gradients and no dropout inside; every module as it was afterwards."""
    training = {module: module.training for model in models for module in model.modules()}
    try:
        for model in models:
            model.eval()
        with torch.no_grad():
            yield
    finally:
        for module, was in training.items():
            module.training = was


def device_of(model: nn.Module) -> torch.device:
    """Where the model takes its input: where its first parameter lies."""
    parameter = next(model.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


def logits_of(model: nn.Module, rows: Tensor) -> Tensor:
    """Logits (batch, length, vocabulary) of token ids (batch, length) on the model's device.

    Raises
    ------
    GramianError : the model has no head.
    """
    forward = inspect.signature(model.forward).parameters
    cache = {"use_cache": False} if "use_cache" in forward else {}
    logits: Tensor | None = getattr(model(rows, **cache), "logits", None)
    if logits is None:
        raise GramianError(
            f"a {type(model).__name__} has no language-model head, so that it predicts no tokens; "
            "give a causal language model"
        )
    return logits


def chunks(*rows: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The same few positions of each of these, in order."""
    for start in range(0, len(rows[0]), CHUNK):
        yield tuple(some[start : start + CHUNK] for some in rows)


def log_probabilities(logits: Tensor) -> Tensor:
    """Log-softmax over the last axis, in float32 or wider."""
    wide = torch.promote_types(logits.dtype, torch.float32)
    return torch.log_softmax(logits.to(wide), dim=-1)


def target_nats(logp: Tensor, targets: Tensor) -> float:
    """Summed surprisal of the targets (n,) under log-probabilities (n, vocabulary), in float64."""
    return -float(logp.gather(-1, targets[:, None]).sum(dtype=torch.float64))


def check_number(value: float, name: str, window: int, count: int, length: int) -> None:
    """Refuse a sum that is not a number, naming the window that made it.

    Raises
    ------
    GramianError : the value is NaN.
    """
    if value != value:
        first = window * length
        raise GramianError(
            f"the {name} gives NaN logits in window {window} of {count} (tokens {first} to "
            f"{first + length - 1}); load it in float32 or bfloat16, or check its weights"
        )


def check_causal(model: nn.Module, ids: Tensor, name: str) -> None:
    """Refuse a model whose early predictions change with a later token: it sees what it is
    scored on, and its perplexity would mean nothing.

    Raises
    ------
    GramianError : it does.
    """
    head = ids[:16].reshape(1, -1).clone()
    if head.shape[1] < 2:
        return
    other = head.clone()
    other[0, -1] = head[0, 0] if head[0, 0] != head[0, -1] else (head[0, -1] + 1) % head.max()
    with reading(model):
        before, after = (
            logits_of(model, rows.to(device_of(model)))[0, :-1].double() for rows in (head, other)
        )
    if bool((before - after).abs().max() > 1e-5 * before.abs().max()):
        raise GramianError(
            f"{name} is not a causal language model: its prediction at one position depends on "
            "later tokens, so it has no perplexity"
        )
