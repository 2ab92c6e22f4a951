"""Attention that caches coordinates: what is written, what it computes, what it caches."""

from __future__ import annotations

import copy

import pytest
import torch
from transformers import AutoModelForCausalLM

from gramian.errors import GramianError
from gramian.maps import Affine, LowRank
from gramian.networks import (
    Arrange,
    CacheLatent,
    FoldNorm,
    FoldProjection,
    Plan,
    SplitLinear,
    apply,
)
from gramian.networks import open as open_checkpoint
from gramian.networks.certificate import outputs_of
from gramian.networks.projections import projection
from gramian.networks.rotary import attention_path, rotary_of, rotary_tables
from tests import tiny

KINDS = ("k", "v", "k_rope")


def map_of(checkpoint, site, ranks, *, constant=False, seed=0):
    """A projector in every group of heads, oblique."""
    width = checkpoint.blueprint.site_width(site.removesuffix("_rope"))
    each = width // len(ranks)
    generator = torch.Generator().manual_seed(seed)
    ups, downs = [], []
    for rank in ranks:
        basis = torch.linalg.qr(torch.randn(each, each, generator=generator, dtype=torch.float64)).Q
        scale = 1 + torch.rand(rank, 1, generator=generator, dtype=torch.float64)
        ups.append(basis[:, :rank] / scale.T)
        downs.append(basis[:, :rank].T * scale)
    map = LowRank(torch.block_diag(*ups), torch.block_diag(*downs))
    if not constant:
        return map
    return Affine(map, torch.randn(width, generator=generator, dtype=torch.float64))


def moves(checkpoint, ranks, sites=("k", "v"), *, fold=False, constant=False):
    found = []
    for layer in range(checkpoint.blueprint.depth):
        for kind in sites:
            site = f"{layer}.{kind}"
            map = map_of(checkpoint, site, ranks, constant=constant, seed=layer)
            found.append(CacheLatent(site, map, ranks, fold=fold and kind == "v"))
    return found


def written(checkpoint, out, *given):
    certificate = apply(checkpoint, Plan.of(checkpoint, *given), out)
    assert certificate.reference_error < 1e-5
    return open_checkpoint(out)


def generated(model, ids, *, tokens=10, **how):
    """Tokens, and bytes cached for each token of one sequence."""
    found = model.generate(
        ids,
        max_new_tokens=tokens,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        return_dict_in_generate=True,
        **how,
    )
    layers = [] if how.get("use_cache") is False else found.cache.layers
    cached = sum(layer.keys.nbytes + layer.values.nbytes for layer in layers)
    return found.sequences, cached / ids.shape[0] / (ids.shape[1] + tokens - 1)


@pytest.mark.parametrize("kinds", [("k", "v"), ("k_rope", "v")])
def test_all_coordinates_give_the_tokens_of_the_source(checkpoint, kinds, tmp_path):
    source = checkpoint()
    after = written(source, tmp_path / "out", *moves(source, (8, 8), kinds))
    expected = outputs_of(source.model, tiny.ids())
    torch.testing.assert_close(outputs_of(after.model, tiny.ids()), expected, rtol=0, atol=1e-4)
    ids = tiny.ids(3, 12)
    tokens, cached = generated(after.model, ids)
    source_tokens, source_cached = generated(source.model, ids)
    assert tokens.equal(source_tokens)
    assert cached == source_cached == 4 * 3 * 2 * 16


QUICK = ("llama", "qwen2", "gemma3_text", "gpt_oss", "opt")
FAMILIES = (*QUICK, "mistral", "mixtral", "qwen3", "qwen3_moe", "gemma2", "olmo2", "phi")
RANKS = {"opt": (3, 5, 8, 1), "phi": (3, 5)}


@pytest.mark.parametrize(
    "family",
    [pytest.param(f, marks=() if f in QUICK else pytest.mark.slow) for f in FAMILIES],
)
@pytest.mark.parametrize("kinds", [("k", "v"), ("k_rope",)])
def test_the_past_is_rebuilt_as_it_was(checkpoint, family, kinds, tmp_path):
    """With a cache, without one, and with one group or one for every head."""
    source = checkpoint(family)
    after = written(source, tmp_path / "a", *moves(source, RANKS.get(family, (3, 5)), kinds))
    ids = tiny.ids(2, 9)
    with_cache, _ = generated(after.model, ids)
    assert with_cache.equal(generated(after.model, ids, use_cache=False)[0])
    if kinds == ("k", "v"):
        joint = written(source, tmp_path / "b", *moves(source, (6,)))
        with_cache, _ = generated(joint.model, ids)
        assert with_cache.equal(generated(joint.model, ids, use_cache=False)[0])


def test_the_cache_holds_coordinates_alone(checkpoint, tmp_path):
    source = checkpoint()
    after = written(source, tmp_path / "out", *moves(source, (3, 5), ("k", "v"), fold=True))
    _, cached = generated(after.model, tiny.ids(2, 9))
    assert cached == 4 * 3 * 2 * 8
    # Of keys alone, and in half precision.
    keys = written(source, tmp_path / "keys", *moves(source, (4,), ("k",)))
    half = open_checkpoint(tmp_path / "keys", dtype="bfloat16")
    assert generated(keys.model, tiny.ids(2, 9))[1] == 4 * 3 * (4 + 16)
    assert generated(half.model, tiny.ids(2, 9))[1] == 2 * 3 * (4 + 16)


def test_padded_prompts_and_beams_give_what_the_dense_network_gives(checkpoint, tmp_path):
    """Positions are counted back from the present, whatever stands in front of a prompt."""
    source = checkpoint()
    latent = moves(source, (3, 5))
    after = written(source, tmp_path / "latent", *latent)
    dense = written(
        source, tmp_path / "dense", *(FoldProjection(one.site, one.map) for one in latent)
    )
    ids = tiny.ids(2, 9)
    mask = torch.ones_like(ids)
    ids[0, :4], mask[0, :4] = 0, 0
    for how in ({}, {"num_beams": 3}):
        expected, _ = generated(dense.model, ids, attention_mask=mask, **how)
        assert generated(after.model, ids, attention_mask=mask, **how)[0].equal(expected)
    alone, _ = generated(after.model, ids[:1, 4:])
    assert generated(after.model, ids, attention_mask=mask)[0][:1, 4:].equal(alone)


@pytest.mark.parametrize("family", ["llama", "opt"])
@pytest.mark.parametrize("constant", [False, True])
def test_folded_and_rebuilt_values_agree(checkpoint, family, constant, tmp_path):
    source = checkpoint(family)
    ranks = (3, 2) if family == "llama" else (3, 2, 4, 1)
    outputs = []
    for fold in (False, True):
        given = moves(source, ranks, ("v",), fold=fold, constant=constant)
        after = written(source, tmp_path / f"{fold}", *given)
        outputs.append(outputs_of(after.model, tiny.ids()))
        if fold:
            path = source.blueprint.layers[1].taps["z"].path
            read = after.model.get_parameter(f"{path}.up.weight")
            assert read.shape == (32, sum(ranks) * 4 // len(ranks))
            assert generated(after.model, tiny.ids(2, 9))[0].equal(
                generated(after.model, tiny.ids(2, 9), use_cache=False)[0]
            )
    torch.testing.assert_close(*outputs, rtol=1e-5, atol=1e-5 * float(outputs[0].abs().max()))


def test_transformers_loads_it_with_the_code_in_the_folder(checkpoint, tmp_path):
    source = checkpoint()
    out = tmp_path / "out"
    after = written(source, out, *moves(source, (3, 5), ("k_rope", "v"), fold=True))
    model = AutoModelForCausalLM.from_pretrained(out, trust_remote_code=True)
    ids = tiny.ids(2, 9)
    found, expected = generated(model, ids), generated(after.model, ids)
    assert found[0].equal(expected[0])
    assert found[1] == expected[1]
    assert "gramian" not in (out / "modeling_gramian.py").read_text().partition("import")[2].split(
        "class"
    )[0].replace("configuration_gramian", "")


def test_copies_cache_apart(checkpoint, tmp_path):
    source = checkpoint()
    after = written(source, tmp_path / "out", *moves(source, (3, 5)))
    twin = copy.deepcopy(after.model)
    ids = tiny.ids(2, 9)
    before, _ = generated(twin, ids)
    with torch.no_grad():
        for parameter in after.model.parameters():
            parameter.zero_()
    assert generated(twin, ids)[0].equal(before)


def test_plans_are_saved_and_other_moves_go_on(checkpoint, tmp_path):
    source = checkpoint()
    given = moves(source, (3, 5), fold=True)
    plan = Plan.of(source, *given)
    plan.save(tmp_path / "plan.safetensors")
    read = Plan.load(tmp_path / "plan.safetensors")
    assert [move.describe() for move in read.moves] == [move.describe() for move in given]
    assert read.moves[1].fold
    assert read.moves[1].ranks == (3, 5)
    norms = [FoldNorm("1.attn"), FoldNorm("1.mlp")]
    for order in ((*norms, *given), (*given, norms[1])):
        out = tmp_path / order[0].kind
        assert apply(source, Plan.of(source, *order), out).reference_error < 1e-5
    two = written(source, tmp_path / "two", *given, Arrange((2, 0)))
    ids = tiny.ids(2, 9)
    assert generated(two.model, ids)[0].equal(generated(two.model, ids, use_cache=False)[0])
    with pytest.raises(GramianError, match="make this move before"):
        Plan.of(source, *given, norms[0])
    with pytest.raises(GramianError, match="no one matrix of their outputs"):
        Plan.of(source, *given, FoldProjection("1.k", map_of(source, "1.k", (3, 5))))


def test_what_it_refuses(checkpoint, tmp_path):
    source, ranks = checkpoint(), (3, 5)
    map = map_of(source, "1.k", ranks)
    with pytest.raises(GramianError, match="rank 3 \\+ 4"):
        CacheLatent("1.k", map, (3, 4))
    with pytest.raises(GramianError, match="only values"):
        CacheLatent("1.k", map, ranks, fold=True)
    with pytest.raises(GramianError, match="one for each head"):
        Plan.of(source, CacheLatent("1.k_rope", map_of(source, "1.k", (8,)), (8,)))
    mixed = LowRank(map.up + 0.1, map.down)
    with pytest.raises(GramianError, match="mix groups"):
        Plan.of(source, CacheLatent("1.k", mixed, ranks))
    with pytest.raises(GramianError, match="another structure already"):
        Plan.of(source, *[CacheLatent("1.k", map, ranks)] * 2)
    with pytest.raises(GramianError, match="would grow"):
        Plan.of(source, CacheLatent("1.v", map_of(source, "1.v", (9,)), (9,), fold=True))
    output = "model.layers.1.self_attn.o_proj.weight"
    weight = source.model.get_parameter(output).double()
    split = SplitLinear(output, LowRank(weight[:, :4], torch.eye(32, dtype=torch.float64)[:4]))
    with pytest.raises(GramianError, match="no values fold"):
        Plan.of(source, split, CacheLatent("1.v", map_of(source, "1.v", ranks), ranks, fold=True))
    biased = checkpoint("qwen2")
    with pytest.raises(GramianError, match="no bias slot"):
        Plan.of(biased, CacheLatent("1.v", map_of(biased, "1.v", ranks), ranks, fold=True))
    fused = checkpoint("gpt2")
    with pytest.raises(GramianError, match="--dense"):
        Plan.of(fused, CacheLatent("1.k", map_of(fused, "1.k", (3,)), (3,)))
    after = written(source, tmp_path / "out", *moves(source, ranks))
    with pytest.raises(ValueError, match="cache that grows"):
        generated(after.model, tiny.ids(), cache_implementation="static")


@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_neox", "falcon_new", "qwen2"])
def test_projections_are_the_outputs_that_sites_name(checkpoint, family):
    from gramian.networks import capture

    source = checkpoint(family)
    sites = ("1.attn_in", "1.q", "1.k", "1.v")
    rows = capture(source.model, source.blueprint, sites, tiny.ids()).rows
    named = dict(source.model.named_parameters())
    for site in sites[1:]:
        found = projection(source.blueprint, site)
        weight = found.weight(named[found.matrix.weight])
        bias = found.bias(named.get(found.matrix.bias))
        made = rows["1.attn_in"].double() @ weight.T + bias
        torch.testing.assert_close(made, rows[site].double(), rtol=1e-4, atol=1e-4)
    with pytest.raises(GramianError, match=r"expected <layer>\.q"):
        projection(source.blueprint, "1.z")


@pytest.mark.parametrize("family", ["gpt2", "gpt_neox", "falcon_new"])
def test_a_map_folds_into_some_outputs_of_a_matrix(checkpoint, family, tmp_path):
    source = checkpoint(family)
    width = source.blueprint.site_width("1.k")
    map = map_of(source, "1.k", (width // 2,))
    certificate = apply(source, Plan.of(source, FoldProjection("1.k", map)), tmp_path / "out")
    assert certificate.reference_error < 1e-5
    assert certificate.change > 1e-5
    assert len(certificate.changed) <= 2


@pytest.mark.parametrize("family", ["llama", "gpt_oss", "gemma3_text", "phi", "gpt_neox"])
def test_tables_are_what_the_network_rotates_by(checkpoint, family):
    source = checkpoint(family)
    layer = source.blueprint.layers[1]
    rotary = rotary_of(source.model, layer)
    width = 8
    cos, sin, turn = rotary_tables(rotary, width, 40)
    rows = torch.randn(1, 3, 40, width, generator=torch.Generator().manual_seed(0))
    expected = rotary(rows, torch.arange(40)[None])[0].double()
    found = cos * rows[0].double() + sin * (rows[0].double() @ turn.T)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert rotary_of(checkpoint("gpt2").model, checkpoint("gpt2").blueprint.layers[0]) is None
    assert attention_path(layer).endswith(("self_attn", "attention"))
