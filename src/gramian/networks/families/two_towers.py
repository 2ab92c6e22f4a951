"""Tables of networks with two residual streams: two encoders, or an encoder and a decoder."""

from __future__ import annotations

from dataclasses import replace

from gramian.networks.families.shape import Branch, Family, Stack, Table

CLIP_BRANCHES = (
    Branch(
        "attn",
        ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "self_attn.out_proj",
        norm="layer_norm1",
    ),
    Branch("mlp", ("mlp.fc1",), "mlp.fc2", norm="layer_norm2"),
)
CLIP_TEXT = Stack(
    CLIP_BRANCHES,
    name="text",
    layers="text_model.encoder.layers",
    embed="text_model.embeddings.token_embedding",
    embeddings=(
        "text_model.embeddings.token_embedding.weight",
        "text_model.embeddings.position_embedding.weight",
    ),
    tokens="text_model.embeddings.token_embedding.weight",
    final_norm="text_model.final_layer_norm",
    head=(),
    after=("text_projection",),
    depth_key="text_config.num_hidden_layers",
    inner_key="text_config.intermediate_size",
    heads_key="text_config.num_attention_heads",
    alone="text_model",
    norm="layer",
)
CLIP_VISION = Stack(
    CLIP_BRANCHES,
    name="vision",
    layers="vision_model.encoder.layers",
    embed="vision_model.embeddings",
    embeddings=(
        "vision_model.embeddings.class_embedding",
        "vision_model.embeddings.position_embedding.weight",
    ),
    tokens=None,
    entry=("vision_model.embeddings.patch_embedding",),
    entry_norms=("vision_model.pre_layrnorm",),
    final_norm="vision_model.post_layernorm",
    head=(),
    after=("visual_projection",),
    pooled=True,
    depth_key="vision_config.num_hidden_layers",
    inner_key="vision_config.intermediate_size",
    heads_key="vision_config.num_attention_heads",
    norm="layer",
    causal=False,
)


def whisper_branches(*, cross: bool) -> tuple[Branch, ...]:
    """Self-attention, in the decoder attention to the encoder, MLP."""

    def attention(kind: str, module: str) -> Branch:
        return Branch(
            "xattn" if kind == "xattn" else "attn",
            (f"{module}.q_proj", f"{module}.k_proj", f"{module}.v_proj"),
            f"{module}.out_proj",
            norm=f"{module}_layer_norm",
        )

    own, mlp = attention("attn", "self_attn"), Branch("mlp", ("fc1",), "fc2", "final_layer_norm")
    return (own, attention("xattn", "encoder_attn"), mlp) if cross else (own, mlp)


WHISPER_ENCODER = Stack(
    whisper_branches(cross=False),
    name="encoder",
    layers="encoder.layers",
    embed=None,
    embeddings=("encoder.embed_positions.weight",),
    tokens=None,
    final_norm="encoder.layer_norm",
    head=(),
    depth_key="encoder_layers",
    inner_key="encoder_ffn_dim",
    heads_key="encoder_attention_heads",
    norm="layer",
    causal=False,
    # What the convolutions write passes a GELU before it enters the stream.
    closed=False,
)
WHISPER_DECODER = Stack(
    whisper_branches(cross=True),
    name="decoder",
    layers="decoder.layers",
    embed="decoder.embed_tokens",
    embeddings=("decoder.embed_tokens.weight", "decoder.embed_positions.weight"),
    tokens="decoder.embed_tokens.weight",
    final_norm="decoder.layer_norm",
    head=("proj_out",),
    depth_key="decoder_layers",
    inner_key="decoder_ffn_dim",
    heads_key="decoder_attention_heads",
    norm="layer",
)


def t5_stack(name: str, *, cross: bool) -> Stack:
    """Encoder or decoder; the MLP has a gate or not."""

    def attention(index: int, module: str) -> Branch:
        path = f"layer.{index}.{module}"
        return Branch(
            "xattn" if index else "attn",
            (f"{path}.q", f"{path}.k", f"{path}.v"),
            f"{path}.o",
            norm=f"layer.{index}.layer_norm",
        )

    last = 2 if cross else 1
    dense = f"layer.{last}.DenseReluDense"
    gated = Branch(
        "mlp",
        (f"{dense}.wi_0", f"{dense}.wi_1"),
        f"{dense}.wo",
        norm=f"layer.{last}.layer_norm",
    )
    own, other = attention(0, "SelfAttention"), attention(1, "EncDecAttention")
    mlp = (gated, replace(gated, readers=(f"{dense}.wi",)))
    return Stack(
        (own, other, mlp) if cross else (own, mlp),
        name=name,
        layers=f"{name}.block",
        embed=f"{name}.embed_tokens",
        embeddings=("shared.weight",),
        tokens="shared.weight",
        final_norm=f"{name}.final_layer_norm",
        head=("lm_head",) if cross else (),
        depth_key="num_decoder_layers" if cross else "num_layers",
        inner_key="d_ff",
        heads_key="num_heads",
        causal=cross,
        alone=None if cross else name,
    )


T5 = Family(
    (t5_stack("encoder", cross=False), t5_stack("decoder", cross=True)),
    auto="AutoModelForSeq2SeqLM",
    main="encoder",
)

TWO_TOWERS: dict[str, Table] = {
    "clip": Family((CLIP_TEXT, CLIP_VISION), auto="AutoModel", main="text"),
    "whisper": Family(
        (WHISPER_ENCODER, WHISPER_DECODER), auto="AutoModelForSpeechSeq2Seq", main="decoder"
    ),
    "t5": T5,
}
