"""Windows for two tokenizers over the same text, and which of their tokens belong together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gramian.data.batch import Batch, Token, Total
from gramian.data.chat import render
from gramian.data.document import Document
from gramian.data.packing import Packing, check_dealt, first_token, in_batches
from gramian.errors import GramianError


@dataclass(frozen=True)
class PairedBatch:
    """Windows of one fold for two networks: window ``i`` of both holds the same text.

    Attributes
    ----------
    a, b : the windows; one object where both networks read the same token ids.
    left, right : (k,) long, positions in the flattened windows whose rows are paired; empty
        where a row is the mean of a window.
    """

    a: Batch
    b: Batch
    left: Tensor
    right: Tensor

    @property
    def fold(self) -> str:
        """The fold of every window."""
        return self.a.fold

    @property
    def tokens(self) -> int:
        """Positions of the first network that are not padding."""
        return self.a.tokens


@dataclass(frozen=True)
class Segment:
    """Text between two characters at which tokens of both tokenizers end."""

    a: tuple[Token, ...]
    b: tuple[Token, ...]
    paired: bool
    """False for what is left at the end of a document: no row ends with it."""


@dataclass
class _Window:
    """A window of each network being filled, and the positions that end together."""

    a: list[Token]
    b: list[Token]
    ends: list[tuple[int, int]]

    def add(self, segment: Segment) -> None:
        self.a.extend(segment.a)
        self.b.extend(segment.b)
        if segment.paired:
            self.ends.append((len(self.a) - 1, len(self.b) - 1))


class AlignedPacking:
    """Batches of paired windows over the documents of a packing.

    A window of ``a`` and its partner of ``b`` start at the same character of the same document
    and go on, over the ends of documents, for as long as both have room. Two tokens that end at
    the same character have then seen the same text, and so, of causal networks, have their rows.
    Where ``a`` and ``b`` mark the start of a text, every window of theirs begins with that token.

    Parameters
    ----------
    packing : of the first network: the order of the documents, the folds, the length of windows
        and the number of tokens, which are counted with its tokenizer.
    tokenizer : of the second network.
    whole : one window per document, with the tokens that each tokenizer adds to a text, cut
        after ``length`` tokens; no rows are paired by position then.

    Raises
    ------
    GramianError : a tokenizer does not tell the characters of its tokens, or (while iterating)
        the two find no common end within a window, or a fold has no paired row.
    """

    def __init__(self, packing: Packing, tokenizer: Any, *, whole: bool = False) -> None:
        self.packing, self.tokenizer, self.whole = packing, tokenizer, whole
        if not whole and packing.template != "none":
            raise GramianError(
                "two tokenizers render a chat template each in its own way, so rows cannot be "
                "aligned by characters; collect without a template, or align documents"
            )
        if not whole:
            for one in (packing.tokenizer, tokenizer):
                if not getattr(one, "is_fast", False):
                    raise GramianError(
                        f"the tokenizer {type(one).__name__} does not tell the characters of its "
                        "tokens, so rows cannot be aligned by characters; align documents instead"
                    )
        self._first = (first_token(packing.tokenizer), first_token(tokenizer))
        self._totals: dict[str, Total] = {}

    @property
    def bos(self) -> bool:
        """Whether windows of the second network start with BOS."""
        return self._first[1] is not None

    def totals(self) -> dict[str, Total]:
        """What each fold held, after an iteration over all batches."""
        return self._totals

    def batches(self, start: int = 0) -> Iterator[PairedBatch]:
        """Batches from number ``start`` on: exactly the tail of a complete iteration.

        Raises
        ------
        GramianError : a fold without a paired row.
        """
        number = own = 0
        shard = self.packing.shard
        self._totals = {}
        for fold in self.packing.folds:
            tokens, digests, rows = 0, set[str](), 0
            for windows in in_batches(self._windows(fold), self.packing.windows):
                rows += sum(1 if self.whole else len(window.ends) for window in windows)
                number += 1
                if shard is not None and not shard.has(number - 1):
                    continue
                tokens += sum(len(window.a) for window in windows)
                digests.update(token.digest for window in windows for token in window.a)
                own += 1
                if own > start:
                    yield self._batch(fold, windows)
            if rows == 0:
                raise GramianError(
                    f"{self.packing.docs.name}: no row of the fold {fold!r} aligns between the two "
                    "tokenizers; give more or longer documents"
                )
            digests.discard("")
            if tokens:
                self._totals[fold] = Total(tokens, len(digests), tuple(sorted(digests)))
        check_dealt(self.packing, own, number)

    def _windows(self, fold: str) -> Iterator[_Window]:
        targets = self.packing.targets
        left = None if targets is None else targets[fold]
        for window in self._documents(fold) if self.whole else self._filled(fold):
            if left is not None and left <= 0:
                return
            if left is not None:
                left -= len(window.a)
            yield window

    def _filled(self, fold: str) -> Iterator[_Window]:
        """Windows as full as both allow; the last one of a fold may be short."""
        length = self.packing.length
        window = self._empty()
        for document in self.packing.documents(fold):
            for segment in self._segments(document):
                if not _fits(segment, length - 1, document):
                    continue
                full = max(len(window.a) + len(segment.a), len(window.b) + len(segment.b)) > length
                if full and window.ends:
                    yield window
                if full:
                    window = self._empty()
                window.add(segment)
        if window.ends:
            yield window

    def _empty(self) -> _Window:
        a, b = ([] if first is None else [Token(first)] for first in self._first)
        return _Window(a, b, [])

    def _segments(self, document: Document) -> Iterator[Segment]:
        """The document cut at every character at which a token of both ends."""
        a, b = (
            _ended_tokens(document.text, document.digest, one)
            for one in (self.packing.tokenizer, self.tokenizer)
        )
        common = {end for end, _ in a} & {end for end, _ in b}
        i = j = 0
        for end in sorted(common):
            starts = i, j
            i, j = _after(a, i, end), _after(b, j, end)
            yield Segment(
                tuple(token for _, token in a[starts[0] : i]),
                tuple(token for _, token in b[starts[1] : j]),
                paired=True,
            )
        if i < len(a) or j < len(b):
            rest = tuple(token for _, token in a[i:]), tuple(token for _, token in b[j:])
            yield Segment(*rest, paired=False)

    def _documents(self, fold: str) -> Iterator[_Window]:
        """One window per document, with what the tokenizers put around a text."""
        for document in self.packing.documents(fold):
            windows = []
            for one in (self.packing.tokenizer, self.tokenizer):
                text = render(document, one, self.packing.chat_template, self.packing.thinking)
                encoded = one(
                    text,
                    add_special_tokens=self.packing.chat_template == "off",
                    truncation=True,
                    max_length=self.packing.length,
                )
                windows.append([Token(id, document.digest, 0) for id in encoded["input_ids"]])
            if all(windows):
                yield _Window(windows[0], windows[1], [])

    def _batch(self, fold: str, windows: Sequence[_Window]) -> PairedBatch:
        length = self.packing.length
        a, b = (
            Batch.of(fold, tokens, length, int(one.pad_token_id or 0))
            for tokens, one in (
                ([window.a for window in windows], self.packing.tokenizer),
                ([window.b for window in windows], self.tokenizer),
            )
        )
        ends = [
            (row * length + i, row * length + j)
            for row, window in enumerate(windows)
            for i, j in window.ends
        ]
        places = torch.tensor(ends, dtype=torch.long).reshape(-1, 2)
        return PairedBatch(a, b, places[:, 0], places[:, 1])


def same_windows(packing: Packing, start: int = 0) -> Iterator[PairedBatch]:
    """The batches of a packing, for two networks that read the same token ids."""
    for batch in packing.batches(start):
        places = batch.mask.reshape(-1).nonzero()[:, 0]
        yield PairedBatch(batch, batch, places, places)


def _ended_tokens(text: str, digest: str, tokenizer: Any) -> list[tuple[int, Token]]:
    """(character at which it ends, token) of a text; ends never fall.

    A token that holds part of a character only ends where the character does.
    """
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    found: list[tuple[int, Token]] = []
    furthest = 0
    for token, (start, end) in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True):
        furthest = max(furthest, end)
        found.append((furthest, Token(token, digest, start)))
    return found


def _after(tokens: Sequence[tuple[int, Token]], start: int, end: int) -> int:
    """The index behind the last token that ends at ``end`` or before."""
    while start < len(tokens) and tokens[start][0] <= end:
        start += 1
    return start


def _fits(segment: Segment, length: int, document: Document) -> bool:
    """Whether a segment fits into a window; what is left at the end of a document need not."""
    longest = max(len(segment.a), len(segment.b))
    if longest > length and segment.paired:
        raise GramianError(
            f"{document.name}: rows do not align: the two tokenizers have no common end within "
            f"{longest} tokens from character {segment.a[0].offset}, more than a window of "
            f"{length + 1}; give longer windows, leave that document out, or align documents"
        )
    return longest <= length
