"""Tables of causal language models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gramian.networks.families.shape import Branch, Family, Stack, Table

ATTENTION = Branch(
    "attn",
    readers=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    writer="self_attn.o_proj",
    norm="input_layernorm",
)
GATED = Branch(
    "mlp",
    readers=("mlp.gate_proj", "mlp.up_proj"),
    writer="mlp.down_proj",
    norm="post_attention_layernorm",
)
QK_NORMS = ("self_attn.q_norm", "self_attn.k_norm")
EXPERTS = replace(
    GATED,
    readers=("mlp.gate", "mlp.experts.gate_up_proj"),
    writer="mlp.experts.down_proj",
    module="mlp",
    experts=("mlp.experts.gate_up_proj", "mlp.experts.down_proj"),
    layout="expert_out_in",
)
BIASED = replace(ATTENTION, flag="attention_bias")
NORMED = replace(BIASED, inner_norms=QK_NORMS)

LLAMA = Stack((BIASED, replace(GATED, flag="mlp_bias")))
MISTRAL = Stack((ATTENTION, GATED))
AFTER = "post_attention_layernorm", "post_feedforward_layernorm"
SANDWICHED = replace(GATED, norm="pre_feedforward_layernorm", branch_norm=AFTER[1])
PHI3 = Stack(
    (
        replace(ATTENTION, readers=("self_attn.qkv_proj",)),
        replace(GATED, readers=("mlp.gate_up_proj",)),
    )
)
PHI = Stack(
    (
        replace(
            ATTENTION,
            writer="self_attn.dense",
            inner_norms=("self_attn.q_layernorm", "self_attn.k_layernorm"),
        ),
        Branch("mlp", ("mlp.fc1",), "mlp.fc2", norm="input_layernorm"),
    ),
    final_norm="final_layernorm",
    norm="layer",
    parallel=True,
)
GPT_OSS = Stack(
    (
        BIASED,
        replace(
            EXPERTS,
            readers=("mlp.router", "mlp.experts.gate_up_proj"),
            layout="expert_in_out",
        ),
    )
)
GPT2 = Stack(
    (
        Branch("attn", ("attn.c_attn",), "attn.c_proj", norm="ln_1"),
        Branch("mlp", ("mlp.c_fc",), "mlp.c_proj", norm="ln_2"),
    ),
    layers="h",
    embed="wte",
    embeddings=("wte.weight", "wpe.weight"),
    tokens="wte.weight",
    final_norm="ln_f",
    depth_key="n_layer",
    inner_key="n_inner",
    norm="layer",
    layout="in_out",
)


def gpt_neox(config: Any) -> Family:
    """Branches side by side or one after the other; q, k and v interleaved head by head."""
    attention = Branch(
        "attn",
        ("attention.query_key_value",),
        "attention.dense",
        norm="input_layernorm",
        flag="attention_bias",
        split="groups",
    )
    mlp = Branch(
        "mlp", ("mlp.dense_h_to_4h",), "mlp.dense_4h_to_h", norm="post_attention_layernorm"
    )
    stack = Stack(
        (attention, mlp),
        embed="embed_in",
        embeddings=("embed_in.weight",),
        tokens="embed_in.weight",
        final_norm="final_layer_norm",
        head=("lm_head", "embed_out"),
        norm="layer",
        parallel=bool(config.use_parallel_residual),
    )
    return Family((stack,))


def falcon(config: Any) -> Family:
    """Three generations: one norm or two, one key head or several, side by side or not."""
    new = bool(config.new_decoder_architecture)
    norms = "input_layernorm", "post_attention_layernorm"
    if config.parallel_attn:
        two = (config.num_ln_in_parallel_attn or 2 * new) == 2 and new
        norms = ("ln_attn", "ln_mlp") if two else ("input_layernorm", "input_layernorm")
    parallel = new or bool(config.parallel_attn)
    attention = Branch(
        "attn",
        ("self_attention.query_key_value",),
        "self_attention.dense",
        norm=norms[0],
        flag="bias",
        split="groups",
    )
    mlp = Branch(
        "mlp",
        ("mlp.dense_h_to_4h",),
        "mlp.dense_4h_to_h",
        norm=norms[1],
        flag="bias",
        overwritten=parallel,
    )
    stack = Stack(
        (attention, mlp),
        layers="h",
        embed="word_embeddings",
        embeddings=("word_embeddings.weight",),
        tokens="word_embeddings.weight",
        final_norm="ln_f",
        inner_key="ffn_hidden_size",
        norm="layer",
        parallel=parallel,
    )
    return Family((stack,))


def opt(config: Any) -> Family:
    """Norms before the branches; the 350M model has them on the stream, and a narrower table."""
    before = bool(config.do_layer_norm_before)
    narrow = config.word_embed_proj_dim != config.hidden_size
    attention = Branch(
        "attn",
        ATTENTION.readers,
        "self_attn.out_proj",
        norm="self_attn_layer_norm" if before else None,
        stream_norm=None if before else "self_attn_layer_norm",
        flag="enable_bias",
    )
    mlp = Branch(
        "mlp",
        ("fc1",),
        "fc2",
        norm="final_layer_norm" if before else None,
        stream_norm=None if before else "final_layer_norm",
        flag="enable_bias",
    )
    positions = "decoder.embed_positions.weight"
    tokens = "decoder.embed_tokens.weight"
    stack = Stack(
        (attention, mlp),
        layers="decoder.layers",
        embed="decoder.project_in" if narrow else "decoder.embed_tokens",
        embeddings=(positions,) if narrow else (tokens, positions),
        tokens=tokens,
        entry=("decoder.project_in",) if narrow else (),
        final_norm="decoder.final_layer_norm",
        # With a narrower table the head reads a projection of the final state, not the state.
        head=() if narrow else ("lm_head",),
        inner_key="ffn_dim",
        norm="layer",
    )
    return Family((stack,))


DECODERS: dict[str, Table] = {
    "llama": Family((LLAMA,)),
    "mistral": Family((MISTRAL,)),
    "mixtral": Family((Stack((ATTENTION, EXPERTS)),)),
    "qwen2": Family((MISTRAL,)),
    "qwen3": Family((Stack((NORMED, GATED)),)),
    "qwen3_moe": Family((Stack((NORMED, (EXPERTS, GATED))),)),
    "gemma": Family((Stack((BIASED, GATED), norm="rms1p"),)),
    "gemma2": Family((Stack((replace(BIASED, branch_norm=AFTER[0]), SANDWICHED), norm="rms1p"),)),
    "gemma3_text": Family(
        (Stack((replace(NORMED, branch_norm=AFTER[0]), SANDWICHED), norm="rms1p"),)
    ),
    "olmo2": Family(
        (
            Stack(
                (
                    replace(NORMED, norm=None, branch_norm=AFTER[0]),
                    replace(GATED, norm=None, branch_norm=AFTER[1]),
                )
            ),
        )
    ),
    "gpt_oss": Family((GPT_OSS,)),
    "phi": Family((PHI,)),
    "phi3": Family((PHI3,)),
    "gpt2": Family((GPT2,)),
    "gpt_neox": gpt_neox,
    "opt": opt,
    "falcon": falcon,
}
