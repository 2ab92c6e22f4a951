"""MiniLM, a real sentence encoder: no head, not causal, norms on the stream."""

from __future__ import annotations

import pytest
import torch

import gramian as gm
from gramian.errors import GramianError
from gramian.networks import Need, Needs, capture
from gramian.networks.collect import batches


@pytest.fixture(scope="module")
def minilm():
    return gm.open("bundled:minilm")


def test_it_opens_as_an_encoder_without_a_head(minilm):
    plan = minilm.blueprint
    assert type(minilm.model).__name__ == "BertModel"
    assert (plan.depth, plan.width, plan.vocabulary) == (6, 384, 30522)
    assert plan.head is None
    assert not plan.causal
    assert not plan.inferred
    with pytest.raises(GramianError, match=r"bundled:minilm .* does not make"):
        gm.lens.needs(minilm)


def test_the_stream_is_the_one_that_transformers_returns(minilm):
    texts = ["The harbour was quiet.", "def area(width, height): return width * height"]
    encoded = minilm.tokenizer(texts, padding=True, return_tensors="pt")
    sites = [*minilm.blueprint.residual_sites(), "3.attn_out", "3.resid_mid", "3.mlp_out"]
    mask = encoded.attention_mask.bool()
    rows = capture(minilm.model, minilm.blueprint, sites, encoded.input_ids, mask).rows
    with torch.no_grad():
        hidden = minilm.model(**encoded, output_hidden_states=True).hidden_states
    for site, expected in zip(minilm.blueprint.residual_sites(), hidden, strict=True):
        torch.testing.assert_close(rows[site][mask], expected[mask], rtol=1e-4, atol=1e-5)
    layer = minilm.blueprint.layers[3]
    middle = rows["3.resid_pre"] + rows["3.attn_out"]
    middle = minilm.model.get_submodule(layer.norms["resid_mid_norm"].path)(middle)
    torch.testing.assert_close(middle, rows["3.resid_mid"], rtol=1e-4, atol=1e-5)
    after = minilm.model.get_submodule(layer.norms["resid_post_norm"].path)(
        middle + rows["3.mlp_out"]
    )
    torch.testing.assert_close(after, rows["4.resid_pre"], rtol=1e-4, atol=1e-5)


def test_moments_are_those_of_the_hidden_states(minilm):
    """[CLS] stands first in every window, and is a row like the others."""
    docs = gm.documents("bundled:pydocs")
    settings = {"tokens": 2000, "length": 100, "batch_rows": 500}
    needs = Needs.of([Need("3.resid_pre", "final")])
    moments = gm.collect(minilm, docs, needs, **settings)
    rows = []
    for batch in batches(minilm, docs, **settings):
        if batch.fold != "train":
            continue
        assert (batch.ids[:, 0] == minilm.tokenizer.cls_token_id).all()
        with torch.no_grad():
            hidden = minilm.model(
                input_ids=batch.ids,
                attention_mask=batch.mask.long(),
                output_hidden_states=True,
            ).hidden_states
        rows.append((hidden[3][batch.mask].double(), hidden[-1][batch.mask].double()))
    x, y = (torch.cat(parts) for parts in zip(*rows, strict=True))
    joint = moments.joint("3.resid_pre", "final", fold="train")
    assert joint.x.count + moments.counts["train"]["sinks"] == len(x)
    # No row is a sink: the first token of an encoder is none, and no norm stands out.
    assert moments.counts["train"]["sinks"] == 0
    torch.testing.assert_close(joint.x.mean, x.mean(0), rtol=1e-5, atol=1e-6)
    cross = (x - x.mean(0)).T @ (y - y.mean(0))
    torch.testing.assert_close(joint.cross, cross, rtol=1e-4, atol=1e-4 * float(cross.abs().max()))
