"""Perplexity against the definition written out in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.evaluate import perplexity

from .models import VOCABULARY, Scripted, gpt2, ids, llama


def by_definition(model: nn.Module, text: Tensor, length: int) -> tuple[float, int]:
    """Mean surprisal of every token but the first of each window, one at a time."""
    model.eval()
    nats = []
    for start in range(0, len(text) - length + 1, length):
        window = text[start : start + length]
        with torch.no_grad():
            logits = model(window[None]).logits[0].double()
        for t in range(1, length):
            p = logits[t - 1].exp() / logits[t - 1].exp().sum()
            nats.append(-math.log(p[window[t]]))
    return float(np.mean(nats)), len(nats)


@pytest.mark.parametrize("make", [llama, gpt2])
@pytest.mark.parametrize(("count", "length"), [(64, 16), (70, 16), (17, 16), (200, 2), (40, 40)])
def test_equals_the_definition(make: Any, count: int, length: int) -> None:
    model, text = make(), ids(count)
    nll, tokens = by_definition(model, text, length)
    result = perplexity(model, text, length=length)
    assert result.tokens == tokens == count // length * (length - 1)
    assert result.nll == pytest.approx(nll, rel=1e-6)
    assert result.perplexity == pytest.approx(math.exp(nll), rel=1e-5)
    assert result.to_json() == {"perplexity": result.perplexity, "tokens": tokens}


def test_windows_longer_than_a_chunk_of_positions() -> None:
    model, text = llama(), ids(600)
    for length in (129, 130, 200, 256):
        nll, _ = by_definition(model, text, length)
        assert perplexity(model, text, length=length).nll == pytest.approx(nll, rel=1e-6)


def test_batches_change_nothing() -> None:
    model, text = llama(), ids(80)
    one = perplexity(model, text, length=16)
    for batch in (2, 3, 99):
        many = perplexity(model, text, length=16, batch=batch)
        assert many.nll == pytest.approx(one.nll, rel=1e-6)
        assert many.tokens == one.tokens


def test_windows_are_taken_from_the_start() -> None:
    model, text = llama(), ids(80)
    assert perplexity(model, text, length=16, windows=2) == perplexity(model, text[:32], length=16)
    assert perplexity(model, text, length=16, windows=9) == perplexity(model, text, length=16)


def test_a_partial_window_counts_only_alone() -> None:
    model, text = llama(), ids(25)
    assert perplexity(model, text[:20], length=16) == perplexity(model, text[:16], length=16)
    assert perplexity(model, text[:9], length=16).tokens == 8


def test_a_uniform_model_has_its_vocabulary_as_perplexity() -> None:
    assert perplexity(Scripted(torch.zeros(50)), ids(20) % 50, length=5).perplexity == (
        pytest.approx(50, rel=1e-6)
    )


def test_impossible_tokens_give_infinity() -> None:
    certain = torch.full((5,), -torch.inf)
    certain[3] = 0
    result = perplexity(Scripted(certain), torch.tensor([3, 3, 1]), length=3)
    assert result.perplexity == result.nll == math.inf
    assert perplexity(Scripted(certain), torch.tensor([1, 3, 3]), length=3).perplexity == 1.0
    assert perplexity(Scripted(3e4 * certain.nan_to_num(neginf=-1)), [3, 1]).perplexity == math.inf


def test_half_precision_is_widened_before_the_softmax() -> None:
    logits = torch.linspace(-8, 8, VOCABULARY).half()
    text = ids(200)
    exact = -torch.log_softmax(logits.double(), -1)[text[1:]].mean()
    assert perplexity(Scripted(logits), text, length=200).nll == pytest.approx(float(exact), 1e-6)


def test_the_model_reads_without_dropout_and_is_left_as_it_was() -> None:
    model = gpt2().train()
    model.transformer.h[0].eval()
    before = [module.training for module in model.modules()]
    first = perplexity(model, ids(32), length=16)
    assert first == perplexity(model, ids(32), length=16)
    assert [module.training for module in model.modules()] == before
    scripted = Scripted(torch.zeros(3)).train()
    perplexity(scripted, [0, 1, 2], length=2)
    assert scripted.trained == [False]
    assert scripted.training


def test_no_token_is_added() -> None:
    scripted = Scripted(torch.zeros(VOCABULARY))
    text = ids(10)
    perplexity(scripted, text, length=5)
    assert torch.equal(torch.cat(scripted.asked), text.reshape(2, 5))


def test_progress_tells_tokens() -> None:
    calls: list[tuple[int, int]] = []
    perplexity(llama(), ids(50), length=10, batch=2, progress=lambda *call: calls.append(call))
    assert calls == [(20, 50), (40, 50), (50, 50)]


def test_ids_of_every_integer_kind() -> None:
    model, text = llama(), ids(32)
    expected = perplexity(model, text, length=16)
    array = text.numpy()
    frozen = array.astype(np.uint16)
    frozen.flags.writeable = False
    for given in (text.int(), array, frozen, array[::-1].copy()[::-1], text.tolist()):
        assert perplexity(model, given, length=16) == expected


def test_nan_logits_name_the_window() -> None:
    good, bad = torch.zeros(VOCABULARY), torch.full((VOCABULARY,), torch.nan)
    with pytest.raises(GramianError, match=r"NaN logits in window 2 of 4 \(tokens 10 to 14\)"):
        perplexity(Scripted(good, good, bad), ids(20), length=5)
    infinite = good.clone()
    infinite[4] = torch.inf
    with pytest.raises(GramianError, match="NaN logits in window 0 of 4"):
        perplexity(Scripted(infinite), ids(20), length=5, batch=4)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (torch.zeros(2, 3).long(), {}, r"ids has shape \(2, 3\) and dtype torch.int64"),
        (torch.zeros(5), {}, "dtype torch.float32, expected the token ids"),
        ("text", {}, "ids is a str that is no array of integers"),
        ([], {}, r"ids has shape \(0,\)|has 0 tokens"),
        ([1], {}, "the text has 1 tokens, expected at least 2"),
        ([1, 2, 3], {"length": 1}, "length is 1, expected 2 or more"),
        ([1, 2, 3], {"windows": 0}, "windows is 0, expected 1 or more; leave it out for all"),
        ([1, 2, 3], {"batch": 0}, "batch is 0, expected 1 or more"),
        ([1, 97, 3], {}, "ids run from 1 to 97 and the model has a vocabulary of 97"),
        ([-1, 97, 3], {}, "ids run from -1 to 97"),
        ([1] * 300, {}, "length is 300 and the model has 256 positions; pass length=256 or less"),
    ],
)
def test_bad_input(text: Any, options: dict[str, int], message: str) -> None:
    with pytest.raises(GramianError, match=message):
        perplexity(llama(), text, **options)
