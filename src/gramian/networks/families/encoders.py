"""Tables of encoders: text with norms on the stream, and images."""

from __future__ import annotations

from typing import Any

from gramian.networks.families.shape import Branch, Family, Stack, Table

TABLES = tuple(
    f"embeddings.{name}_embeddings.weight" for name in ("word", "position", "token_type")
)


def bert(config: Any) -> Family:
    """BERT and RoBERTa: the stream itself is normalised after every addition."""
    stack = Stack(
        (
            Branch(
                "attn",
                ("attention.self.query", "attention.self.key", "attention.self.value"),
                "attention.output.dense",
                stream_norm="attention.output.LayerNorm",
            ),
            Branch("mlp", ("intermediate.dense",), "output.dense", stream_norm="output.LayerNorm"),
        ),
        layers="encoder.layer",
        embed="embeddings.word_embeddings",
        embeddings=TABLES,
        tokens=TABLES[0],
        entry_norms=("embeddings.LayerNorm",),
        final_norm=None,
        head=(),
        after=("pooler.dense",),
        norm="layer",
        causal=bool(config.is_decoder),
    )
    return Family((stack,), auto="AutoModel", padded_positions=config.model_type != "bert")


DISTILBERT = Stack(
    (
        Branch(
            "attn",
            ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
            "attention.out_lin",
            stream_norm="sa_layer_norm",
        ),
        Branch("mlp", ("ffn.lin1",), "ffn.lin2", stream_norm="output_layer_norm"),
    ),
    layers="transformer.layer",
    embed="embeddings.word_embeddings",
    embeddings=TABLES[:2],
    tokens=TABLES[0],
    entry_norms=("embeddings.LayerNorm",),
    final_norm=None,
    head=(),
    depth_key="n_layers",
    inner_key="hidden_dim",
    norm="layer",
    causal=False,
)
VIT = Stack(
    (
        Branch(
            "attn",
            ("attention.q_proj", "attention.k_proj", "attention.v_proj"),
            "attention.o_proj",
            norm="layernorm_before",
        ),
        Branch("mlp", ("mlp.fc1",), "mlp.fc2", norm="layernorm_after"),
    ),
    embed="embeddings",
    embeddings=("embeddings.cls_token", "embeddings.position_embeddings"),
    tokens=None,
    entry=("embeddings.patch_embeddings.projection",),
    final_norm="layernorm",
    head=(),
    after=("pooler.dense",),
    norm="layer",
    causal=False,
)

ENCODERS: dict[str, Table] = {
    "bert": bert,
    "roberta": bert,
    "xlm-roberta": bert,
    "distilbert": Family((DISTILBERT,), auto="AutoModel"),
    "vit": Family((VIT,), auto="AutoModel"),
}
