from __future__ import annotations

import pytest
from transformers import PreTrainedTokenizerFast

from gramian.data import Document, Packing, documents, render, template_digest
from gramian.errors import GramianError

TURNS = ({"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"})


def test_conversations_and_plain_text(byte_pairs: PreTrainedTokenizerFast) -> None:
    talk = Document.of("hi\n\nyo", "a:1", messages=TURNS)
    plain = Document.of("hi", "a:2")
    assert render(talk, byte_pairs, "auto") == "<user>hi</><assistant>yo</>"
    assert render(plain, byte_pairs, "auto") == "<user>hi</>"
    assert render(plain, byte_pairs, "auto", thinking=False) == "<user>hi</>[think=False]"
    assert render(talk, byte_pairs, "off") == "hi\n\nyo"


def test_tokenizer_without_a_template_reads_plain_text(words: PreTrainedTokenizerFast) -> None:
    assert render(Document.of("hi", "a"), words, "auto") == "hi"
    assert template_digest(words, "auto") == "none"


def test_digest_follows_template_and_thinking(byte_pairs: PreTrainedTokenizerFast) -> None:
    digests = {template_digest(byte_pairs, "auto", t) for t in (None, True, False)}
    assert len(digests) == 3
    assert all(len(digest) == 64 for digest in digests)
    assert template_digest(byte_pairs, "off", True) == "none"


def test_template_that_refuses_names_the_document(byte_pairs: PreTrainedTokenizerFast) -> None:
    original = byte_pairs.chat_template
    byte_pairs.chat_template = "{{ raise_exception('no system turn') }}"
    try:
        with pytest.raises(GramianError, match=r"a:7: the tokenizer's chat template refused .*no "):
            render(Document.of("hi", "a:7"), byte_pairs, "auto")
    finally:
        byte_pairs.chat_template = original


def test_packing_reads_rendered_text(byte_pairs: PreTrainedTokenizerFast) -> None:
    docs = documents([f"moments {i}" for i in range(60)])
    packing = Packing(docs, byte_pairs, length=16, chat_template="auto")
    assert packing.template == template_digest(byte_pairs, "auto")
    text = "".join(byte_pairs.decode(ids[mask]) for b in packing for ids, mask in
                   zip(b.ids, b.mask, strict=True))  # fmt: skip
    assert text.count("<user>moments ") == 60
