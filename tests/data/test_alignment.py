"""Two tokenizers over the same text: what is paired ends at the same character of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from gramian.data import AlignedPacking, Packing, documents, same_windows
from gramian.errors import GramianError
from tests import tiny

SETTINGS = {"length": 16, "rows": 64}


def characters(*, bos: bool = False) -> PreTrainedTokenizerFast:
    """One token per character; spaces are tokens too."""
    letters = {letter: i for i, letter in enumerate("~^?w0123456789 é\n")}
    made = Tokenizer(models.WordLevel(letters, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    if bos:
        made.post_processor = processors.TemplateProcessing(
            single="^ $A", special_tokens=[("^", 1)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="?", pad_token="~", bos_token="^"
    )


def bytes_of() -> PreTrainedTokenizerFast:
    """One token per byte: letters beyond ASCII are several tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token=alphabet[0])


def paired(texts, a, b, **settings):
    packing = Packing(documents(texts), a, **SETTINGS | settings)
    return AlignedPacking(packing, b)


def seen(batch, tokenizer, position):
    """The text that a causal network has seen at a flat position, without spaces and BOS."""
    row, column = divmod(int(position), batch.ids.shape[1])
    ids = [int(i) for i in batch.ids[row, : column + 1]]
    return "".join(tokenizer.convert_ids_to_tokens(ids)).replace("^", "").replace(" ", "")


@pytest.mark.parametrize("bos", [False, True])
def test_paired_rows_have_seen_the_same_text(bos):
    words, letters = tiny.tokenizer(), characters(bos=bos)
    packing = paired(tiny.texts(60), words, letters)
    assert packing.bos == bos
    rows = 0
    for batch in packing.batches():
        assert len(batch.left) == len(batch.right)
        for left, right in zip(batch.left, batch.right, strict=True):
            assert seen(batch.a, words, left) == seen(batch.b, letters, right)
            assert int(batch.a.document.reshape(-1)[left]) >= 0
        rows += len(batch.left)
        assert batch.a.fold == batch.b.fold
    words_of_text = sum(len(text.split()) for text in tiny.texts(60))
    assert rows == words_of_text  # every word ends with a character, so every word is a row


def test_the_order_of_the_two_does_not_matter():
    words, letters = tiny.tokenizer(), characters()
    one, other = (
        [(len(x.left), x.fold) for x in paired(tiny.texts(60), *order).batches()]
        for order in ((words, letters), (letters, words))
    )
    assert one == other


def test_letters_of_several_tokens_end_with_their_last():
    letters, raw = characters(), bytes_of()
    batch = next(iter(paired([f"wéw{i}" for i in range(60)], letters, raw).batches()))
    ids = batch.b.ids.reshape(-1)[batch.right[:3]]
    assert len(batch.left) < int(batch.b.mask.sum())
    # the second of the two bytes of é (0xC3 0xA9)
    assert raw.convert_ids_to_tokens([int(ids[1])]) == ["©"]


def test_batches_continue_where_they_stopped():
    packing = paired(tiny.texts(60), tiny.tokenizer(), characters())
    everything = list(packing.batches())
    rest = list(packing.batches(3))
    assert len(rest) == len(everything) - 3 > 0
    for a, b in zip(everything[3:], rest, strict=True):
        assert bool((a.a.ids == b.a.ids).all())
        assert bool((a.right == b.right).all())
    totals = packing.totals()
    assert sum(total.documents for total in totals.values()) == 60
    assert {fold: total.tokens for fold, total in totals.items()} == {
        fold: sum(x.tokens for x in everything if x.fold == fold) for fold in totals
    }


def test_tokens_stop_a_fold_within_a_window():
    packing = paired(tiny.texts(200), tiny.tokenizer(), characters(), tokens=500)
    found = {fold: 0 for fold in packing.packing.folds}
    for batch in packing.batches():
        found[batch.fold] += batch.tokens
    for fold, wanted in packing.packing.targets.items():
        assert wanted <= found[fold] < wanted + SETTINGS["length"]


def test_whole_documents_are_one_window_each():
    packing = Packing(documents(tiny.texts(50)), tiny.tokenizer(), **SETTINGS)
    whole = AlignedPacking(packing, characters(bos=True), whole=True)
    windows = 0
    for batch in whole.batches():
        windows += len(batch.a.ids)
        assert len(batch.left) == 0
        assert batch.a.document[:, 0].tolist() == list(range(len(batch.a.ids)))
        assert bool((batch.b.ids[:, 0] == 1).all())  # its own special tokens
    assert windows == 50


def test_rows_that_do_not_align_are_refused():
    long = ["w" * 40 + str(i) for i in range(40)]  # one word, 41 letters, a window of 16
    with pytest.raises(GramianError, match=r"rows do not align.*no common end within 4[12] tokens"):
        list(paired(long, tiny.tokenizer(), characters()).batches())
    blind = SimpleNamespace(is_fast=False)
    with pytest.raises(GramianError, match="does not tell the characters"):
        AlignedPacking(Packing(documents(long), tiny.tokenizer(), **SETTINGS), blind)


def test_the_same_tokens_are_paired_with_themselves():
    packing = Packing(documents(tiny.texts(60)), tiny.tokenizer(), **SETTINGS)
    for batch, plain in zip(same_windows(packing), packing.batches(), strict=True):
        assert batch.a is batch.b
        assert len(batch.left) == plain.tokens
        assert bool(plain.mask.reshape(-1)[batch.left].all())
