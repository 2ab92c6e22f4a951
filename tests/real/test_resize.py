"""SmolLM2 grown to twice its neurons and forty blocks says what it said."""

from __future__ import annotations

import pytest
import torch

from gramian.compress import resize
from gramian.data import documents
from gramian.evaluate import perplexity
from gramian.networks import apply
from gramian.networks import open as open_checkpoint
from gramian.networks.collect import collect


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_larger_smollm2_has_the_perplexity_of_the_source(tmp_path):
    source = open_checkpoint("bundled:smollm2")
    plan = resize.grow(source, mlp=3072, layers=40)
    assert plan.evidence["parameters"] == 276_084_288
    certificate = apply(source, plan, tmp_path / "larger", tolerance=1e-5)
    assert certificate.agreement == 1.0
    text = "The tower is 324 metres tall, about the same height as an 81-storey building. " * 12
    ids = torch.tensor(source.tokenizer(text, add_special_tokens=False)["input_ids"])
    larger = open_checkpoint(tmp_path / "larger")
    found, expected = (perplexity(m.model, ids, length=128) for m in (larger, source))
    assert found.nll == pytest.approx(expected.nll, rel=1e-5)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_smollm2_twice_as_wide(tmp_path):
    source = open_checkpoint("bundled:smollm2")
    certificate = apply(source, resize.grow(source, width=1152), tmp_path / "w", tolerance=1e-5)
    assert certificate.change < 1e-5


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_moments_choose_where_weights_do_not(tmp_path):
    """A third of the neurons goes: chosen by moments the network still reads, by the lengths of
    weights alone it is lost, as the plan warns."""
    source = open_checkpoint("bundled:smollm2")
    needs = resize.needs(source, refit=False)
    moments = collect(source, documents("bundled:pydocs"), needs, tokens=8192)
    text = "The tower is 324 metres tall, about the same height as an 81-storey building. " * 12
    ids = torch.tensor(source.tokenizer(text, add_special_tokens=False)["input_ids"])
    losses = []
    for found in (moments, None):
        out = tmp_path / f"{found is None}"
        apply(source, resize.shrink(source, found, mlp=1024), out)
        losses.append(perplexity(open_checkpoint(out).model, ids, length=128).nll)
    assert losses[0] < losses[1] - 2
