"""Tables of causal language models."""

from __future__ import annotations

from dataclasses import replace

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

LLAMA = Stack((replace(ATTENTION, flag="attention_bias"), replace(GATED, flag="mlp_bias")))
MISTRAL = Stack((ATTENTION, GATED))
QWEN3 = Stack((replace(ATTENTION, flag="attention_bias", inner_norms=QK_NORMS), GATED))
GEMMA3 = Stack(
    (
        replace(
            ATTENTION,
            flag="attention_bias",
            inner_norms=QK_NORMS,
            branch_norm="post_attention_layernorm",
        ),
        replace(GATED, norm="pre_feedforward_layernorm", branch_norm="post_feedforward_layernorm"),
    ),
    norm="rms1p",
)
GPT2 = Stack(
    (
        Branch("attn", readers=("attn.c_attn",), writer="attn.c_proj", norm="ln_1"),
        Branch("mlp", readers=("mlp.c_fc",), writer="mlp.c_proj", norm="ln_2"),
    ),
    layers="h",
    embed="wte",
    embeddings=("wte.weight", "wpe.weight"),
    final_norm="ln_f",
    depth_key="n_layer",
    norm="layer",
    layout="in_out",
)

DECODERS: dict[str, Table] = {
    "llama": Family((LLAMA,)),
    "mistral": Family((MISTRAL,)),
    "qwen2": Family((MISTRAL,)),
    "qwen3": Family((QWEN3,)),
    "gemma3_text": Family((GEMMA3,)),
    "mixtral": Family((Stack((ATTENTION, EXPERTS)),)),
    "gpt2": Family((GPT2,)),
}
