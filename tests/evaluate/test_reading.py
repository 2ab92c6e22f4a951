"""One pass: the perplexity of `perplexity`, and the agreement of `compare`."""

from __future__ import annotations

import pytest
import torch

from gramian.errors import GramianError
from gramian.evaluate import compare, perplexity, read
from tests import tiny

IDS = torch.randint(3, 90, (200,), generator=torch.Generator().manual_seed(0))


def test_it_says_what_the_others_say():
    model, base = tiny.model("llama").eval(), tiny.model("llama", hidden_size=64).eval()
    text = {"length": 40, "windows": 4}
    found, other = read(model, IDS, **text), read(base, IDS, **text)
    expected = compare(model, base, IDS, **text)
    assert found.perplexity == perplexity(model, IDS, **text)
    assert found.perplexity.perplexity == pytest.approx(expected.perplexity, rel=1e-9)
    assert found.agreement(other) == pytest.approx(expected.agreement)
    assert found.agreement(found) == 1
    assert found.choices.shape == (4, 39)


def test_other_windows_are_not_compared():
    model = tiny.model("llama").eval()
    one, two = (read(model, IDS, length=length) for length in (40, 50))
    with pytest.raises(GramianError, match="read the same windows"):
        one.agreement(two)
