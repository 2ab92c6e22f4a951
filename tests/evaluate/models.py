"""Tiny models with random weights."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

VOCABULARY = 97


def llama(seed: int = 0, vocabulary: int = VOCABULARY, tied: bool = False) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=vocabulary,
        max_position_embeddings=256,
        initializer_range=0.3,
        tie_word_embeddings=tied,
    )
    return LlamaForCausalLM(config)


def gpt2(seed: int = 0) -> GPT2LMHeadModel:
    torch.manual_seed(seed)
    config = GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=VOCABULARY, n_positions=64)
    return GPT2LMHeadModel(config)


def ids(count: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, VOCABULARY, (count,), generator=generator)


class Scripted(nn.Module):
    """A model that answers with given logits and keeps what it was asked."""

    def __init__(self, *answers: Tensor) -> None:
        super().__init__()
        self.answers = answers
        self.asked: list[Tensor] = []
        self.trained: list[bool] = []

    def forward(self, input_ids: Tensor) -> SimpleNamespace:
        answer = self.answers[len(self.asked) % len(self.answers)]
        self.asked.append(input_ids)
        self.trained.append(self.training)
        return SimpleNamespace(logits=answer.expand(*input_ids.shape, -1).clone())
