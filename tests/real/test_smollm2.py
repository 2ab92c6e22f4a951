"""The slice end to end on real weights: SmolLM2-135M, de-quantized from GGUF."""

from __future__ import annotations

import json

import pytest
import torch

import gramian as gm
from gramian.maps import IdentityPlus, LowRank
from gramian.networks import capture
from gramian.networks.rows import kept_rows

TOKENS = 2400


@pytest.fixture(scope="module")
def base():
    return gm.open("bundled:smollm2")


@pytest.fixture(scope="module")
def moments(base, tmp_path_factory):
    docs = gm.documents("bundled:pydocs")
    needs = gm.Needs.of(
        [
            gm.Need("27.resid_pre", "final", increment=True),
            gm.Need("13.resid_pre", "14.resid_pre", increment=True),
        ]
    )
    out = tmp_path_factory.mktemp("real") / "m.moments"
    return gm.collect(base, docs, needs, tokens=TOKENS, length=256, out=out)


def test_the_blueprint_adds_up(base):
    ids = torch.randint(base.blueprint.vocabulary, (1, 32), generator=torch.manual_seed(0))
    sites = ["11.resid_pre", "11.attn_out", "11.mlp_out", "12.resid_pre"]
    rows = capture(base.model, base.blueprint, sites, ids).rows
    total = rows["11.resid_pre"] + rows["11.attn_out"] + rows["11.mlp_out"]
    torch.testing.assert_close(total, rows["12.resid_pre"], rtol=1e-4, atol=1e-2)


def test_one_sink_token_owns_the_middle_of_the_network(base, moments):
    """With it the step of layer 13 looks perfectly linear; it is not."""
    step = moments.joint("13.resid_pre", "14.resid_pre", fold=gm.moments.FOLDS)
    with_sinks = moments.joint("13.resid_pre", "14.resid_pre", fold=gm.moments.FOLDS, sinks=True)
    assert gm.measures.linearity(with_sinks) > 0.999
    assert gm.measures.linearity(step) < 0.99
    clean = moments.moments("13.resid_pre", gm.moments.FOLDS)
    dirty = moments.moments("13.resid_pre", gm.moments.FOLDS, sinks=True)
    assert dirty.raw().trace() > 50 * clean.raw().trace()


def test_a_cast_agrees_more_than_the_identity(base, moments):
    folds = [moments.joint("27.resid_pre", "final", f, increment=True) for f in gm.moments.FOLDS]
    step = gm.solvers.ridge(*folds).map
    docs = gm.documents(["The river rises in the hills and flows north to the sea. " * 12])
    packing = gm.data.Packing(docs, base.tokenizer, length=128, tokens=128, fold="report")
    batch = next(iter(packing))
    seen = capture(
        base.model, base.blueprint, ["27.resid_pre", "final"], batch.ids, batch.mask, norms=True
    )
    keep = kept_rows(batch.mask, seen.norms, moments.recipe.rows, base.blueprint)
    x, y = (seen.rows[site][keep].double() for site in ("27.resid_pre", "final"))
    cast = x + step(x)
    assert (cast - y).square().sum() < 0.5 * (x - y).square().sum()


def test_moves_on_real_weights_are_certified_and_load_in_transformers(base, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    generator = torch.Generator().manual_seed(0)
    up, down = (0.05 * torch.randn(s, generator=generator) for s in ((576, 4), (4, 576)))
    plan = gm.Plan.of(
        base,
        gm.FoldNorm("12.mlp"),
        gm.FoldNorm("final"),
        gm.FoldMap("5.mlp_out", IdentityPlus(LowRank(up, down))),
        gm.DropLayers((25,)),
    )
    certificate = gm.apply(base, plan, tmp_path / "out")
    assert certificate.reference_error < 1e-4
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert model.config.num_hidden_layers == 29
    assert model.config.tie_word_embeddings is False
    ids = tokenizer("The capital of France is", return_tensors="pt").input_ids
    assert tokenizer.decode(model.generate(ids, max_new_tokens=1, do_sample=False)[0, -1]).strip()
    document = json.loads((tmp_path / "out" / "gramian.json").read_text())
    assert document["certificate"]["parameters"] == sum(p.numel() for p in model.parameters())


def test_a_gguf_becomes_an_ordinary_checkpoint(base, tmp_path):
    base.model.save_pretrained(tmp_path)
    base.tokenizer.save_pretrained(tmp_path)
    again = gm.open(tmp_path)
    assert "quantization_config" not in json.loads((tmp_path / "config.json").read_text())
    assert again.digest == base.digest
    assert again.tokenizer_digest == base.tokenizer_digest
