from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from gramian.data import NOWHERE, Batch, Packing, documents
from gramian.errors import GramianError
from gramian.moments import FOLDS, Shares, fold_of

MakeTexts = Callable[..., list[str]]
SAME_FIXTURES = [HealthCheck.function_scoped_fixture]


def rows(batches: Iterable[Batch]) -> list[tuple[str, int, str, int]]:
    """(fold, id, digest, offset) of every position that is not padding, in order."""
    return [
        (batch.fold, int(i), batch.digests[int(d)] if d >= 0 else "", int(o))
        for batch in batches
        for i, d, o in zip(
            batch.ids[batch.mask], batch.document[batch.mask], batch.offset[batch.mask], strict=True
        )
    ]


def same(a: Batch, b: Batch) -> bool:
    tensors = ("ids", "mask", "document", "offset")
    return (a.fold, a.digests) == (b.fold, b.digests) and all(
        torch.equal(getattr(a, name), getattr(b, name)) for name in tensors
    )


@settings(max_examples=25, deadline=None, suppress_health_check=SAME_FIXTURES)
@given(
    count=st.integers(60, 120),
    seed=st.integers(0, 3),
    length=st.integers(2, 40),
    rows_per_batch=st.integers(1, 200),
)
def test_no_token_is_lost_or_doubled_and_no_window_joins_folds(
    words: PreTrainedTokenizerFast,
    make_texts: MakeTexts,
    count: int,
    seed: int,
    length: int,
    rows_per_batch: int,
) -> None:
    texts = make_texts(count, seed)
    packing = Packing(documents(texts), words, length=length, rows=rows_per_batch, seed=seed)
    batches = list(packing)
    expected = _expected(words, texts)
    got = Counter(rows(batches))
    assert got.total() == len(set(got))
    dropped = expected - got
    assert not got - expected
    assert dropped.total() <= len(FOLDS)  # a single token left over, per fold
    for batch in batches:
        assert batch.ids.shape[1] == length
        assert len(batch.ids) <= max(1, rows_per_batch // length)
        assert {fold_of(digest) for digest in batch.digests} == {batch.fold}
        assert int(batch.mask.sum(1).min()) >= 2
        assert torch.equal(batch.mask, batch.document != NOWHERE)
        assert bool((batch.ids[~batch.mask] == words.pad_token_id).all())
    totals = packing.totals()
    assert {f: totals[f].tokens for f in FOLDS} == dict(Counter(r[0] for r in rows(batches)))
    for fold in FOLDS:
        digests = {r[2] for r in rows(batches) if r[0] == fold}
        assert totals[fold].digests == tuple(sorted(digests))
        assert totals[fold].documents == len(digests)


def _expected(words: PreTrainedTokenizerFast, texts: list[str]) -> Counter[tuple[object, ...]]:
    """Position by position, without the packing: words and where they start."""
    counter: Counter[tuple[object, ...]] = Counter()
    for document in documents(texts):
        start = 0
        for word in document.text.split(" "):
            token = words.convert_tokens_to_ids(word)
            counter[fold_of(document.digest), token, document.digest, start] += 1
            start += len(word) + 1
    return counter


@pytest.mark.parametrize("start", [0, 1, 3, 7, 1000])
def test_batches_from_a_number_on_are_the_tail(
    words_with_bos: PreTrainedTokenizerFast, make_texts: MakeTexts, start: int
) -> None:
    packing = Packing(documents(make_texts(120)), words_with_bos, length=24, rows=96, tokens=1200)
    everything = list(packing)
    totals = packing.totals()
    tail = list(packing.batches(start=start))
    assert len(everything) > 8
    assert len(tail) == max(0, len(everything) - start)
    assert all(same(a, b) for a, b in zip(everything[start:], tail, strict=True))
    assert packing.totals() == totals


def test_order_of_the_source_does_not_matter_but_the_seed_does(
    words: PreTrainedTokenizerFast, make_texts: MakeTexts, tmp_path: Path
) -> None:
    texts = make_texts(80)
    options = {"length": 16, "rows": 64, "tokens": 400}
    first = list(Packing(documents(texts), words, **options))
    again = list(Packing(documents(texts[::-1]), words, **options))
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"text": "{text}"}}\n' for text in sorted(texts)))
    from_file = list(Packing(documents(path), words, **options))
    assert all(same(a, b) for a, b in zip(first, again, strict=True))
    assert all(same(a, b) for a, b in zip(first, from_file, strict=True))
    other = list(Packing(documents(texts), words, seed=1, **options))
    assert not same(first[0], other[0])
    assert {r[2] for r in rows(first) if r[0] == "select"} != {
        r[2] for r in rows(other) if r[0] == "report"
    }


@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize("tokens", [100, 335, 500])
def test_each_fold_gets_its_share_to_the_token(
    words: PreTrainedTokenizerFast,
    words_with_bos: PreTrainedTokenizerFast,
    make_texts: MakeTexts,
    tokens: int,
    bos: bool,
) -> None:
    tokenizer = words_with_bos if bos else words
    shares = Shares(0.6, 0.2, 0.2)
    packing = Packing(
        documents(make_texts(200)), tokenizer, length=16, tokens=tokens, shares=shares
    )
    got = Counter(fold for fold, *_ in rows(packing))
    assert got == {f: round(getattr(shares, f) * tokens) for f in FOLDS} == packing.targets
    assert packing.shortfall == {}


def test_too_little_data_is_noted(words: PreTrainedTokenizerFast, make_texts: MakeTexts) -> None:
    texts = make_texts(60)
    everything = Packing(documents(texts), words, length=32)
    list(everything)
    available = {fold: total.tokens for fold, total in everything.totals().items()}
    packing = Packing(documents(texts), words, length=32, tokens=100_000)
    list(packing)
    assert packing.shortfall == {
        "train": 80_000 - available["train"],
        "select": 10_000 - available["select"],
        "report": 10_000 - available["report"],
    }
    assert everything.shortfall == {}


def test_windows_start_with_bos_where_the_tokenizer_has_one(
    words: PreTrainedTokenizerFast, words_with_bos: PreTrainedTokenizerFast, make_texts: MakeTexts
) -> None:
    docs = documents([f"[BOS] {text}" for text in make_texts(60, longest=40)])
    packing = Packing(docs, words_with_bos, length=8)
    plain = Packing(docs, words, length=8)
    assert packing.bos
    assert not plain.bos
    added = 0
    for batch in packing:
        assert bool((batch.ids[:, 0] == words_with_bos.bos_token_id).all())
        # never two of them in a row: a document that brings its own keeps it
        assert not bool((batch.ids[:, 1] == words_with_bos.bos_token_id).any())
        added += int((batch.document[:, 0] == NOWHERE).sum())
        assert bool((batch.offset[:, 0][batch.document[:, 0] == NOWHERE] == NOWHERE).all())
    assert added > 0
    assert any(bool((batch.ids[:, 0] != 2).any()) for batch in plain)


def test_offsets_point_at_the_characters(byte_pairs: PreTrainedTokenizerFast) -> None:
    texts = [f"Größe {i} und Maß of the layers" for i in range(60)]
    by_digest = {document.digest: document.text for document in documents(texts)}
    packing = Packing(documents(texts), byte_pairs, length=16)
    assert packing.offsets == "character"
    for _, token, digest, offset in rows(packing):
        piece = byte_pairs.decode([token])
        if "�" not in piece:  # half of a character has no text of its own
            assert by_digest[digest][offset:].startswith(piece)


def test_slow_tokenizer_counts_tokens(
    words: PreTrainedTokenizerFast, make_texts: MakeTexts
) -> None:
    class Slow:
        is_fast = False
        bos_token_id = None
        pad_token_id = None
        chat_template = None

        def __call__(self, text: str, **options: object) -> dict[str, list[int]]:
            assert not options.get("return_offsets_mapping")
            return {"input_ids": words(text, verbose=False)["input_ids"]}

    packing = Packing(documents(make_texts(60)), Slow(), length=16)  # type: ignore[arg-type]
    assert packing.offsets == "token"
    for _, _, digest, offset in rows(packing):
        assert offset < 30
        assert digest
    assert min(offset for *_, offset in rows(packing)) == 0


def test_long_documents_pass_without_a_warning(
    words: PreTrainedTokenizerFast, make_texts: MakeTexts, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("transformers").propagate = True
    words.deprecation_warnings.clear()
    list(Packing(documents(make_texts(60, longest=200)), words, length=16))
    assert not [r for r in caplog.records if "longer than" in r.getMessage()]


def test_single_token_left_over_is_dropped(words: PreTrainedTokenizerFast) -> None:
    texts = [f"w{i} w{i + 1} w{i + 2}" for i in range(0, 150, 3)]
    packing = Packing(documents(texts), words, length=8, tokens=170)  # 136 + 17 + 17
    got = Counter(fold for fold, *_ in rows(packing))
    available = Counter(fold_of(document.digest) for document in documents(texts))
    for fold, target in {"train": 136, "select": 17, "report": 17}.items():
        expected = min(target, 3 * available[fold])
        assert got[fold] == expected - (expected % 8 == 1)


def test_bad_arguments_and_empty_folds(words: PreTrainedTokenizerFast) -> None:
    two = documents(["w1 w2 w3", "w4 w5 w6"])
    message = (
        r"texts: no document falls into the fold '\w+' \(its share is 0\.\d of 2 documents\); "
        "give more documents, cut long ones into several, or choose other shares"
    )
    with pytest.raises(GramianError, match=message):
        Packing(two, words)
    with pytest.raises(GramianError, match="length is 1, expected at least 2"):
        Packing(two, words, length=1)
    with pytest.raises(GramianError, match="rows is 0, expected at least 1"):
        Packing(two, words, rows=0)
    with pytest.raises(GramianError, match="tokens is 10, of which the fold 'select' would get 1"):
        Packing(two, words, tokens=10)
    with pytest.raises(GramianError, match="chat_template is 'on', expected 'off' or 'auto'"):
        Packing(two, words, chat_template="on")  # type: ignore[arg-type]
    many = Packing(documents([f"w{i} w{j}" for i in range(10) for j in range(10)]), words)
    with pytest.raises(GramianError, match="totals are known after an iteration"):
        many.totals()


def test_fold_without_a_window_is_refused(words: PreTrainedTokenizerFast) -> None:
    texts = [f"w{i}" for i in range(200)]
    folds = [fold_of(document.digest) for document in documents(texts)]
    kept = [t for t, f in zip(texts, folds, strict=True) if f == "train"][:4]
    kept += [texts[folds.index("select")], texts[folds.index("report")]]
    with pytest.raises(GramianError, match="the fold 'select' has 1 documents, but together they "
                       "make no window of at least two tokens"):  # fmt: skip
        list(Packing(documents(kept), words))


def test_file_that_changes_in_between_is_noticed(
    words: PreTrainedTokenizerFast, make_texts: MakeTexts, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"text": "{text}"}}\n' for text in make_texts(60)))
    packing = Packing(documents(path), words, length=16)
    path.write_text(path.read_text().replace("w1", "w2"))
    with pytest.raises(GramianError, match=r"a\.jsonl:\d+: changed while it was being read"):
        list(packing)
