"""Tiny random networks of every family that has a blueprint, with a word tokenizer."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

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
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gpt2", "gemma3_text", "mixtral")


def config(family: str, **changes: Any) -> Any:
    """A configuration with 3 layers of width 32 and a vocabulary of 97."""
    shape = {**SHAPE, **changes}
    special = {key: shape[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    match family:
        case "llama":
            return transformers.LlamaConfig(**shape)
        case "mistral":
            return transformers.MistralConfig(**shape)
        case "qwen2":
            return transformers.Qwen2Config(**shape)
        case "qwen3":
            return transformers.Qwen3Config(head_dim=8, **shape)
        case "gpt2":
            return transformers.GPT2Config(
                n_embd=32, n_layer=3, n_head=4, vocab_size=97, n_positions=64, **special
            )
        case "gemma3_text":
            kinds = ["sliding_attention", "full_attention", "sliding_attention"]
            return transformers.Gemma3TextConfig(
                head_dim=8, layer_types=kinds, sliding_window=16, **shape
            )
        case "mixtral":
            return transformers.MixtralConfig(num_local_experts=4, **shape)
    raise ValueError(family)


def model(family: str, *, seed: int = 0, **changes: Any) -> Any:
    """A random model whose norms and biases are not the neutral ones."""
    torch.manual_seed(seed)
    made: Any = AutoModelForCausalLM.from_config(config(family, **changes)).float().eval()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
            elif "embed" not in name and "wte" not in name and "wpe" not in name:
                parameter.mul_(4.0)
    return made


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
