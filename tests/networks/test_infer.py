"""Blueprints of models without a table: found, verified by running, or refused."""

from __future__ import annotations

from functools import cache

import pytest
import torch
import transformers

from gramian.errors import GramianError
from gramian.lens.decode import logits
from gramian.networks import Blueprint, capture
from gramian.networks import open as open_checkpoint
from gramian.networks.families import FAMILIES, blueprint
from tests import tiny

SHAPE = tiny.SHAPE
PLAIN = {k: v for k, v in SHAPE.items() if k != "num_key_value_heads"}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 16,
    "patch_size": 8,
}
MAMBA = {"mamba_d_state": 4, "mamba_dt_rank": 4, "use_mamba_kernels": False}
HYBRID = {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2}
UNKNOWN = {
    "cohere": lambda: transformers.CohereConfig(**SHAPE),
    "stablelm": lambda: transformers.StableLmConfig(**SHAPE),
    "stablelm parallel": lambda: transformers.StableLmConfig(use_parallel_residual=True, **SHAPE),
    "granite": lambda: transformers.GraniteConfig(
        residual_multiplier=0.22, embedding_multiplier=12.0, logits_scaling=8.0, **SHAPE
    ),
    "smollm3": lambda: transformers.SmolLM3Config(**SHAPE),
    "starcoder2": lambda: transformers.Starcoder2Config(**SHAPE),
    "gptj": lambda: transformers.GPTJConfig(
        n_embd=32, n_layer=3, n_head=4, n_positions=64, rotary_dim=4, **PLAIN
    ),
    "glm4": lambda: transformers.Glm4Config(head_dim=8, **SHAPE),
    "mamba": lambda: transformers.MambaConfig(
        hidden_size=32, num_hidden_layers=3, vocab_size=97, state_size=4
    ),
    "jamba": lambda: transformers.JambaConfig(num_experts=2, **MAMBA, **HYBRID, **SHAPE),
    "lfm2": lambda: transformers.Lfm2Config(
        layer_types=["conv", "full_attention", "conv"], block_multiple_of=8, **SHAPE
    ),
}
WRAPPED = {
    "llava": lambda: transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**VISION),
        text_config=transformers.LlamaConfig(**SHAPE),
        image_token_index=96,
    ),
    "gemma3": lambda: transformers.Gemma3Config(
        vision_config=transformers.SiglipVisionConfig(**VISION),
        text_config=tiny.config("gemma3_text"),
        mm_tokens_per_image=4,
    ),
    "qwen2_vl": lambda: transformers.Qwen2VLConfig(
        text_config={
            **SHAPE,
            "rope_parameters": {
                "rope_type": "default",
                "mrope_section": [1, 1, 2],
                "rope_theta": 1e4,
            },
        },
        vision_config={
            "depth": 2,
            "embed_dim": 32,
            "hidden_size": 32,
            "num_heads": 4,
            "patch_size": 8,
        },
        image_token_id=95,
        video_token_id=96,
        vision_start_token_id=94,
        vision_end_token_id=93,
    ),
}


@cache
def made(name):
    torch.manual_seed(0)
    shape = {**UNKNOWN, **WRAPPED}[name]()
    auto = transformers.AutoModelForCausalLM
    if name in WRAPPED:
        auto = transformers.AutoModelForImageTextToText
    network = tiny.stirred(auto.from_config(shape).float().eval())
    return network, Blueprint.infer(network)


@pytest.mark.parametrize("name", [*UNKNOWN, *WRAPPED])
def test_the_inferred_stream_adds_up_and_is_that_of_transformers(name):
    network, plan = made(name)
    assert plan.model_type not in FAMILIES
    assert plan.inferred
    assert plan.causal
    sites = [f"{i}.{site}" for i, layer in enumerate(plan.layers) for site in layer.taps]
    # Other tokens than those it was inferred from.
    rows = capture(network, plan, [*sites, "embed", "final"], tiny.ids(3, 15, seed=9)).rows
    for i, layer in enumerate(plan.layers):
        total = rows[f"{i}.resid_pre"] + rows[f"{i}.attn_out"]
        if "resid_mid" in layer.taps:
            torch.testing.assert_close(total, rows[f"{i}.resid_mid"], rtol=1e-4, atol=1e-4)
        if "mlp_out" in layer.taps:
            total = total + rows[f"{i}.mlp_out"]
        after = rows[plan.canonical(f"{i}.resid_post")]
        torch.testing.assert_close(total, after, rtol=1e-4, atol=1e-4 * float(after.abs().max()))
    with torch.no_grad():
        hidden = network(tiny.ids(3, 15, seed=9), output_hidden_states=True).hidden_states
    # Mamba's own list starts after the first layer.
    first = 1 if name == "mamba" else 0
    for i in range(first, plan.depth):
        torch.testing.assert_close(hidden[i - first], rows[f"{i}.resid_pre"])


def test_what_is_found_beside_the_stream():
    assert "resid_mid" not in made("cohere")[1].layers[0].taps
    assert made("cohere")[1].layers[0].parallel
    assert made("gptj")[1].layers[0].parallel
    assert made("stablelm")[1].final_norm.kind == "layer"
    assert made("gemma3")[1].final_norm.kind == "rms1p"
    assert made("granite")[1].tap("0.mlp_out").scale == 0.22
    assert not made("granite")[1].main.closed
    assert made("llava")[1].layers_path == "model.language_model.layers"
    # Layers that differ: a convolution has no q, k and v.
    lfm = made("lfm2")[1]
    assert "z" in lfm.layers[0].taps
    assert "q" not in lfm.layers[0].taps
    # No gate of the second half: the layer has a mixer alone.
    assert "mlp_out" not in made("mamba")[1].layers[0].taps


def test_a_head_that_does_more_than_its_product_is_not_claimed():
    assert made("smollm3")[1].head is not None
    assert made("cohere")[1].head is None
    assert made("granite")[1].head is None


@pytest.mark.parametrize(
    "family", [f for f in (*tiny.FAMILIES, *tiny.VARIANTS) if not f.startswith("opt")]
)
def test_it_agrees_with_the_tables(family):
    network = tiny.model(family)
    table, found = blueprint(network.config, network), Blueprint.infer(network)
    assert not table.inferred
    sites = [
        f"{i}.{site}"
        for i, layer in enumerate(table.layers)
        for site in layer.taps
        if site in found.layers[i].taps
    ]
    assert len(sites) >= 5 * table.depth
    # What only a table can tell: where one matrix holds q, k and v, and side by side or not.
    for mine, theirs in zip(table.layers, found.layers, strict=True):
        assert set(mine.taps) - set(theirs.taps) <= {"q", "k", "v"}
        assert set(theirs.taps) <= set(mine.taps)
        assert mine.parallel == theirs.parallel
        assert {n.path for n in theirs.norms.values()} <= {n.path for n in mine.norms.values()}
    ours = capture(network, table, [*sites, "final", "embed"], tiny.ids()).rows
    seen = capture(network, found, [*sites, "final", "embed"], tiny.ids()).rows
    for site in ours:
        torch.testing.assert_close(ours[site], seen[site])
    assert found.final_norm.path == table.final_norm.path
    assert found.final_norm.kind == table.final_norm.kind


@pytest.mark.parametrize(
    "config,expected",
    [
        (transformers.BertConfig(**PLAIN), r"layer encoder\.layer\.0 adds"),
        (
            transformers.BloomConfig(hidden_size=32, n_layer=2, n_head=4, vocab_size=97),
            "is not the sum of what its parts",
        ),
        (
            transformers.XLNetConfig(vocab_size=97, d_model=32, n_layer=2, n_head=4, d_inner=48),
            "no list of layers hands a residual stream of width 32",
        ),
        (transformers.ViTConfig(**VISION), "no token embedding"),
    ],
)
def test_what_a_run_does_not_verify_is_refused(config, expected):
    torch.manual_seed(0)
    network = tiny.stirred(transformers.AutoModel.from_config(config))
    with pytest.raises(GramianError, match=expected):
        Blueprint.infer(network)


def test_training_mode_and_hooks_are_as_they_were():
    network = tiny.model("llama").train()
    Blueprint.infer(network)
    assert all(module.training for module in network.modules())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in network.modules())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes(dtype):
    assert Blueprint.infer(tiny.model("llama").to(dtype)).depth == 3


def test_an_unknown_model_opens_and_the_lens_reads_it(tmp_path):
    network = made("smollm3")[0]
    network.save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)
    opened = open_checkpoint(tmp_path)
    assert opened.blueprint.inferred
    rows = capture(opened.model, opened.blueprint, ["final"], tiny.ids(), logits=True).rows
    torch.testing.assert_close(logits(opened, rows["final"]), rows["logits"])
