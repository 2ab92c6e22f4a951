"""Tiny tokenizers and a corpus of small documents."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}</>{% endfor %}"
    "{% if enable_thinking is defined %}[think={{ enable_thinking }}]{% endif %}"
)
WORDS = [f"w{i}" for i in range(200)]


def corpus(count: int, seed: int = 0, longest: int = 30) -> list[str]:
    """Documents of 1 to ``longest`` known words, all different."""
    draw = random.Random(seed)
    texts: dict[str, None] = {}
    while len(texts) < count:
        size = draw.randint(1, longest)
        texts[" ".join(draw.choices(WORDS, k=size))] = None
    return list(texts)


@pytest.fixture(scope="session")
def make_texts() -> Callable[..., list[str]]:
    return corpus


@pytest.fixture(scope="session")
def words() -> PreTrainedTokenizerFast:
    """One token per word, no BOS."""
    vocabulary = {word: i for i, word in enumerate(["[UNK]", "[PAD]", "[BOS]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", model_max_length=16
    )


@pytest.fixture(scope="session")
def words_with_bos() -> PreTrainedTokenizerFast:
    """One token per word, and a BOS in front of every text."""
    vocabulary = {word: i for i, word in enumerate(["[UNK]", "[PAD]", "[BOS]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[BOS] $A", special_tokens=[("[BOS]", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", bos_token="[BOS]"
    )


@pytest.fixture(scope="session")
def byte_pairs() -> PreTrainedTokenizerFast:
    """Byte-level BPE without a padding token, with a chat template."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["the moments of the layers add", "Größe und Maß"] * 4, trainer)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    wrapped.chat_template = TEMPLATE
    return wrapped
