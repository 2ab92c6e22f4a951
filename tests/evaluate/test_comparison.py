"""Two models side by side, against the definitions written out in float64."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
import torch

from gramian.errors import GramianError
from gramian.evaluate import compare, perplexity

from .models import VOCABULARY, Scripted, gpt2, ids, llama


@pytest.mark.parametrize("length", [16, 150])
def test_equals_the_definitions(length: int) -> None:
    model, base, text = llama(1), llama(2), ids(400)
    result = compare(model, base, text, length=length)
    kl, agreed = [], []
    for start in range(0, len(text) - length + 1, length):
        window = text[None, start : start + length]
        with torch.no_grad():
            p, q = (m.eval()(window).logits[0, :-1].double().softmax(-1) for m in (model, base))
        kl += (q * (q / p).log()).sum(-1).tolist()
        agreed += (p.argmax(-1) == q.argmax(-1)).tolist()
    assert result.tokens == len(kl)
    assert result.kl == pytest.approx(sum(kl) / len(kl), rel=1e-5)
    assert result.agreement == sum(agreed) / len(agreed)
    assert 0 < result.agreement < 1
    alone, alone_base = (perplexity(m, text, length=length) for m in (model, base))
    assert result.perplexity == pytest.approx(alone.perplexity, rel=1e-9)
    assert result.perplexity_base == pytest.approx(alone_base.perplexity, rel=1e-9)
    assert result.tokens == alone.tokens
    assert result.to_json() == {
        "perplexity": result.perplexity,
        "tokens": result.tokens,
        "agreement": result.agreement,
        "kl": result.kl,
        "speed_ratio": result.speed_ratio,
    }


@pytest.mark.parametrize("make", [llama, gpt2])
def test_a_model_agrees_with_itself(make: Any) -> None:
    model = make()
    result = compare(model, model, ids(64), length=16)
    assert result.agreement == 1.0
    assert result.kl == 0.0
    assert result.perplexity == result.perplexity_base
    assert result.speed_ratio > 0


def test_kl_is_of_the_base_from_the_model() -> None:
    model = Scripted(torch.tensor([0.5, 0.25, 0.25]).log())
    base = Scripted(torch.tensor([0.25, 0.5, 0.25]).log())
    result = compare(model, base, [0, 1, 2, 0], length=4)
    assert result.kl == pytest.approx(0.25 * math.log(0.5) + 0.5 * math.log(2), rel=1e-6)
    assert result.agreement == 0.0


def test_kl_where_a_probability_is_zero() -> None:
    narrow = torch.tensor([0.0, 0.0, -torch.inf])
    wide = torch.zeros(3)
    text = [0, 1, 0, 1]
    assert compare(Scripted(wide), Scripted(narrow), text).kl == pytest.approx(math.log(1.5))
    assert compare(Scripted(narrow), Scripted(narrow), text).kl == 0.0
    assert compare(Scripted(narrow), Scripted(wide), text).kl == math.inf


class Slow(Scripted):
    def forward(self, input_ids: torch.Tensor) -> Any:
        time.sleep(0.6 if not self.asked else 0.1)  # the first call warms up
        return super().forward(input_ids)


def test_speed_is_base_over_model_without_the_warm_up() -> None:
    fast, slow = Scripted(torch.zeros(VOCABULARY)), Slow(torch.zeros(VOCABULARY))
    result = compare(fast, slow, ids(20), length=10)
    assert result.speed_ratio > 2
    assert 0.1 <= result.seconds_base < 0.3
    assert result.speed_ratio == result.seconds_base / result.seconds
    assert compare(slow, fast, ids(20), length=10).speed_ratio < 1 / 2


def test_both_are_run_in_turn_once_per_window() -> None:
    order: list[str] = []

    class Named(Scripted):
        def __init__(self, name: str) -> None:
            super().__init__(torch.zeros(VOCABULARY))
            self.name = name

        def forward(self, input_ids: torch.Tensor) -> Any:
            order.append(self.name)
            return super().forward(input_ids)

    compare(Named("model"), Named("base"), ids(40), length=10)
    assert order == ["model", "base", "base", "model"] * 2


def test_two_vocabularies_are_refused() -> None:
    with pytest.raises(GramianError, match=r"vocabulary of 97 tokens and the base one of 101; "):
        compare(llama(), llama(vocabulary=101), ids(32), length=16)
    with pytest.raises(GramianError, match="vocabulary of 3 tokens and the base one of 4"):
        compare(Scripted(torch.zeros(3)), Scripted(torch.zeros(4)), [0, 1, 2], length=3)


def test_nan_names_the_model_and_the_window() -> None:
    good, bad = torch.zeros(VOCABULARY), torch.full((VOCABULARY,), torch.nan)
    with pytest.raises(GramianError, match="the base gives NaN logits in window 1 of 2"):
        compare(Scripted(good), Scripted(good, bad), ids(10), length=5)
    with pytest.raises(GramianError, match="the model gives NaN logits in window 0 of 2"):
        compare(Scripted(bad), Scripted(good), ids(10), length=5)


def test_positions_of_the_base_are_checked_too() -> None:
    with pytest.raises(GramianError, match="length is 100 and the base has 64 positions"):
        compare(llama(), gpt2(), ids(200), length=100)


def test_progress_tells_tokens() -> None:
    calls: list[tuple[int, int]] = []
    compare(llama(), llama(), ids(35), length=10, progress=lambda *call: calls.append(call))
    assert calls == [(10, 30), (20, 30), (30, 30)]
