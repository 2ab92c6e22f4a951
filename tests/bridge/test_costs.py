"""Costs beside sums done by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gramian.bridge import SavedBridge, Space
from gramian.bridge.costs import bridge_bytes, plan_costs, words_to_tokens
from gramian.bridge.rates import Price, Rate
from gramian.errors import GramianError
from gramian.maps import Affine, Dense
from gramian.moments import JointMoments


@pytest.mark.parametrize(
    "text, per_token, currency",
    [
        ("0.02/M", 2e-8, ""),
        ("$0.02 per million", 2e-8, "$"),
        ("0.13 EUR / 1M tokens", 1.3e-7, "EUR"),
        ("€0.0001/1k", 1e-7, "€"),
        ("3/k", 3e-3, ""),
        ("1e-4/1k tokens", 1e-7, ""),
        ("0 / M", 0, ""),
    ],
)
def test_price(text, per_token, currency):
    found = Price.parse(text)
    assert found.per_token == pytest.approx(per_token)
    assert found.currency == currency


@pytest.mark.parametrize("text", ["0.02", "0.02/", "free", "-1/M", "0.02/G", "0.02/M texts", ""])
def test_price_without_a_unit(text):
    with pytest.raises(GramianError, match="amount per 1k or per million"):
        Price.parse(text)


@pytest.mark.parametrize(
    "text, per_minute, unit",
    [
        ("3000 texts/min", 3000, "texts"),
        ("1M tokens/min", 1e6, "tokens"),
        ("50 texts per second", 3000, "texts"),
        ("1.5k Tokens / s", 90_000, "tokens"),
        ("600 text/hour", 10, "texts"),
    ],
)
def test_rate(text, per_minute, unit):
    found = Rate.parse(text)
    assert found.per_minute == pytest.approx(per_minute)
    assert found.unit == unit


@pytest.mark.parametrize("text", ["3000", "3000/min", "3000 rows/min", "-3 texts/min", "9 texts"])
def test_rate_without_a_unit(text):
    with pytest.raises(GramianError, match="texts or tokens per second"):
        Rate.parse(text)


def test_by_hand():
    """A million texts of 250 tokens at 0.02 a million tokens and 500k tokens a minute."""
    found = plan_costs(
        1_000_000,
        768,
        new_dim=1024,
        new_dtype="float16",
        tokens_per_text=250,
        tokens_per_query=10,
        price=Price.parse("$0.02/M"),
        rate=Rate.parse("500k tokens/min"),
        pairs=5000,
        queries=1000,
        candidates=200,
        parts=(0.1,),
    )
    reindex, bridge, part = found.once
    assert (reindex.tokens, reindex.cost) == (250_000_000, pytest.approx(5.0))
    assert reindex.hours == pytest.approx(500 / 60)
    assert reindex.disk == 1_000_000 * 1024 * 2
    assert found.stored == 1_000_000 * 768 * 4
    assert (bridge.texts, bridge.cost) == (5000, pytest.approx(0.025))
    assert (part.name, part.texts, part.cost) == ("backfill_0.1", 100_000, pytest.approx(0.5))
    mapped, two = found.served
    assert (mapped.tokens, mapped.disk) == (10_000, 0)
    assert two.tokens == 10_000 + 1000 * 200 * 250
    assert two.cost == pytest.approx(1.0002)
    assert found.break_even == pytest.approx(5000)


def test_rate_of_texts_ignores_tokens():
    slow, fast = (
        plan_costs(6000, 8, tokens_per_text=t, rate=Rate(100, "texts")) for t in (1, 1000)
    )
    assert slow.once[0].hours == fast.once[0].hours == 1
    assert slow.once[0].cost is None


def test_a_small_store_gives_no_more_pairs_than_it_has():
    assert plan_costs(100, 8, tokens_per_text=1).once[1].texts == 100
    assert plan_costs(100, 8, tokens_per_text=0).break_even is None


@pytest.mark.parametrize("source, target", [(96, 64), (64, 96)])
def test_size_of_a_saved_bridge(tmp_path, source, target):
    random = np.random.default_rng(0)
    x = torch.tensor(random.standard_normal((200, source)))
    y = torch.tensor(random.standard_normal((200, target)))
    joint = JointMoments.from_rows(x, y)
    weight = Dense(torch.randn(target, source, dtype=torch.float64))
    saved = SavedBridge(
        Affine(weight, torch.zeros(target, dtype=torch.float64)),
        Space("a", source),
        Space("b", target),
        "query_to_old",
        "ridge",
        200,
        folds=dict.fromkeys(("train", "select", "report"), joint),
    ).save(tmp_path / "bridge")
    written = sum(path.stat().st_size for path in saved.iterdir())
    assert 0 <= written - bridge_bytes(source, target) < 10_000


def test_words():
    assert words_to_tokens(["a b", "c d e f"]) == pytest.approx(3.9)
    with pytest.raises(GramianError, match="no texts"):
        words_to_tokens([])


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"count": 0}, "count is 0"),
        ({"dim": 0}, "dim is 0"),
        ({"pairs": 0}, "pairs is 0"),
        ({"candidates": 0}, "candidates is 0"),
        ({"dtype": "text"}, "dtype is 'text'"),
        ({"tokens_per_text": -1}, "tokens_per_text is -1"),
        ({"tokens_per_text": float("nan")}, "tokens_per_text is nan"),
        ({"tokens_per_query": float("inf")}, "tokens_per_query is inf"),
        ({"parts": (1.0,)}, "a part of 1.0"),
    ],
)
def test_refusals(changes, message):
    with pytest.raises(GramianError, match=message):
        plan_costs(**{"count": 10, "dim": 4, "tokens_per_text": 1.0, **changes})


def test_refusals_of_rates():
    with pytest.raises(GramianError, match="expected texts or tokens"):
        Rate(1, "rows")
    with pytest.raises(GramianError, match="expected above 0"):
        Rate(0, "texts")
    with pytest.raises(GramianError, match="at least 0"):
        Price(-1)
