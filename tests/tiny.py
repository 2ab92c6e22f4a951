"""Tiny random networks of every family that has a blueprint, with a word tokenizer."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from gramian.networks.opening import opener

WORDS = [f"w{i}" for i in range(90)]
SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 97,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
FAMILIES = (
    "llama",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "gemma",
    "gemma2",
    "gemma3_text",
    "olmo2",
    "gpt_oss",
    "phi",
    "phi3",
    "gpt2",
    "gpt_neox",
    "opt",
    "falcon",
)
"""Causal language models."""
VARIANTS = ("gpt_neox_sequential", "opt_after", "falcon_multi", "falcon_new", "falcon_sequential")
"""Other forms that a configuration gives to some of them."""
ENCODERS = ("bert", "roberta", "xlm-roberta", "distilbert")
"""Text encoders without a head."""
IMAGES = ("vit",)
TWO_TOWERS = ("clip", "whisper", "t5", "t5_gated")
SLIDING = ["sliding_attention", "full_attention", "sliding_attention"]


def config(family: str, **changes: Any) -> Any:
    """A configuration with 3 layers of width 32 and a vocabulary of 97."""
    shape = {**SHAPE, **changes}
    special = {key: shape[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    named = {**special, "vocab_size": 97}
    few = {k: v for k, v in shape.items() if k != "num_key_value_heads"}
    match family:
        case "llama":
            return transformers.LlamaConfig(**shape)
        case "mistral":
            return transformers.MistralConfig(**shape)
        case "mixtral":
            return transformers.MixtralConfig(num_local_experts=4, **shape)
        case "qwen2":
            return transformers.Qwen2Config(**shape)
        case "qwen3":
            return transformers.Qwen3Config(head_dim=8, **shape)
        case "qwen3_moe":
            # The layers differ: the second has no experts.
            return transformers.Qwen3MoeConfig(
                head_dim=8,
                num_experts=4,
                num_experts_per_tok=2,
                moe_intermediate_size=24,
                mlp_only_layers=[1],
                **shape,
            )
        case "gemma":
            return transformers.GemmaConfig(head_dim=8, **shape)
        case "gemma2":
            return transformers.Gemma2Config(
                head_dim=8, sliding_window=16, final_logit_softcapping=3.0, **shape
            )
        case "gemma3_text":
            return transformers.Gemma3TextConfig(
                head_dim=8, layer_types=SLIDING, sliding_window=16, **shape
            )
        case "olmo2":
            return transformers.Olmo2Config(**shape)
        case "gpt_oss":
            return transformers.GptOssConfig(
                head_dim=8,
                num_local_experts=4,
                num_experts_per_tok=2,
                layer_types=SLIDING,
                sliding_window=16,
                **shape,
            )
        case "phi":
            return transformers.PhiConfig(**shape)
        case "phi3":
            return transformers.Phi3Config(**shape)
        case "gpt2":
            return transformers.GPT2Config(n_embd=32, n_layer=3, n_head=4, n_positions=64, **named)
        case "gpt_neox" | "gpt_neox_sequential":
            return transformers.GPTNeoXConfig(use_parallel_residual=family == "gpt_neox", **few)
        case "opt" | "opt_after":
            narrow = {"word_embed_proj_dim": 16, "do_layer_norm_before": False}
            return transformers.OPTConfig(
                hidden_size=32,
                ffn_dim=48,
                num_hidden_layers=3,
                num_attention_heads=4,
                max_position_embeddings=64,
                **(narrow if family == "opt_after" else {"word_embed_proj_dim": 32}),
                **named,
            )
        case "falcon" | "falcon_multi" | "falcon_new" | "falcon_sequential":
            forms: dict[str, dict[str, Any]] = {
                "falcon": {"multi_query": True},
                "falcon_multi": {"multi_query": False, "bias": True},
                "falcon_new": {"new_decoder_architecture": True, "num_kv_heads": 2},
                "falcon_sequential": {"parallel_attn": False, "alibi": True, "multi_query": False},
            }
            return transformers.FalconConfig(
                hidden_size=32,
                ffn_hidden_size=48,
                num_hidden_layers=3,
                num_attention_heads=4,
                **forms[family],
                **named,
            )
        case "bert":
            return transformers.BertConfig(**few)
        case "roberta":
            return transformers.RobertaConfig(**few)
        case "xlm-roberta":
            return transformers.XLMRobertaConfig(**few)
        case "distilbert":
            return transformers.DistilBertConfig(
                dim=32, hidden_dim=48, n_layers=3, n_heads=4, max_position_embeddings=64, **named
            )
        case "vit":
            return transformers.ViTConfig(image_size=16, patch_size=8, **_plain(shape))
        case "clip":
            text = {"vocab_size": 97, "max_position_embeddings": 64, **special}
            return transformers.CLIPConfig(
                text_config={**_plain(shape), **text},
                vision_config={**_plain(shape), "image_size": 16, "patch_size": 8},
                projection_dim=16,
            )
        case "whisper":
            return transformers.WhisperConfig(
                d_model=32,
                encoder_layers=2,
                decoder_layers=3,
                encoder_attention_heads=4,
                decoder_attention_heads=4,
                encoder_ffn_dim=48,
                decoder_ffn_dim=48,
                num_mel_bins=8,
                max_source_positions=10,
                max_target_positions=64,
                decoder_start_token_id=1,
                **named,
            )
        case "t5" | "t5_gated":
            return transformers.T5Config(
                d_model=32,
                d_kv=8,
                d_ff=48,
                num_layers=2,
                num_decoder_layers=3,
                num_heads=4,
                feed_forward_proj="gated-gelu" if family == "t5_gated" else "relu",
                decoder_start_token_id=0,
                **named,
            )
    raise ValueError(family)


def _plain(shape: dict[str, Any]) -> dict[str, Any]:
    kept = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    return {key: shape[key] for key in kept}


def model(family: str, *, seed: int = 0, **changes: Any) -> Any:
    """A random model whose norms and biases are not the neutral ones."""
    torch.manual_seed(seed)
    shape = config(family, **changes)
    return stirred(opener(shape).from_config(shape).float().eval())


def stirred(made: Any) -> Any:
    """The model with weights that are not small, norms and biases that are not neutral."""
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
            elif not any(part in name for part in ("embed", "wte", "wpe", "shared")):
                parameter.mul_(4.0)
    return made


def inputs(family: str, *, batch: int = 2, length: int = 12, seed: int = 0) -> dict[str, Any]:
    """What a model of this family takes, by name."""
    generator = torch.Generator().manual_seed(seed)
    tokens = ids(batch, length, seed=seed)
    images = torch.randn(batch, 3, 16, 16, generator=generator)
    match family:
        case "vit":
            return {"pixel_values": images}
        case "clip":
            return {"input_ids": tokens, "pixel_values": images}
        case "whisper":
            sound = torch.randn(batch, 8, 20, generator=generator)
            return {"input_features": sound, "decoder_input_ids": tokens}
        case "t5" | "t5_gated":
            return {"input_ids": tokens, "decoder_input_ids": ids(batch, 7, seed=seed + 1)}
    return {"input_ids": tokens}


def tokenizer() -> PreTrainedTokenizerFast:
    """One token per word; ids 0, 1 and 2 are padding, BOS and EOS."""
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[BOS]", "[EOS]", "[UNK]", *WORDS])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=words,
        unk_token="[UNK]",
        pad_token="[PAD]",
        bos_token="[BOS]",
        eos_token="[EOS]",
    )


def save(folder: Path, family: str = "llama", *, seed: int = 0, **changes: Any) -> Path:
    """Save a tiny checkpoint and return its folder."""
    model(family, seed=seed, **changes).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def texts(count: int, *, seed: int = 0, longest: int = 40) -> list[str]:
    """Different documents of known words."""
    draw = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        found[" ".join(draw.choices(WORDS, k=draw.randint(5, longest)))] = None
    return list(found)


def ids(batch: int = 2, length: int = 20, *, seed: int = 0) -> torch.Tensor:
    """Seeded token ids, none of them special."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, 90, (batch, length), generator=generator)
