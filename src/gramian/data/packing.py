"""Documents into batches of token windows, fold by fold."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from itertools import islice
from typing import Any, Literal, TypeVar

from transformers import PreTrainedTokenizerBase

from gramian.data.batch import Batch, Token, Total
from gramian.data.chat import ChatTemplate, render, template_digest
from gramian.data.document import Document, Place
from gramian.data.documents import Documents
from gramian.errors import GramianError
from gramian.moments import FOLDS, HeldShards, Shard, Shares, fold_of

_Entry = tuple[bytes, Place]  # sort key, where to read the document again
_Window = TypeVar("_Window")


class Packing:
    """Batches of windows over documents; the same whatever the order of the documents.

    Documents are ordered by SHA-256 of seed and content and assigned to folds by their content.
    The tokens of a fold follow each other without separators and are cut into windows of
    ``length``; no window holds two folds. A window starts with BOS if and only if the tokenizer
    itself puts one in front of a text. The folds come one after another. The last window of a
    fold may be short, and a single token left over is dropped. Only one batch and one document
    are in memory at a time, plus a place in the file for each document.

    Parameters
    ----------
    docs : what to read.
    tokenizer : of transformers.
    length : positions per window, at least 2.
    rows : positions per batch: ``max(1, rows // length)`` windows.
    tokens : positions in all folds together, BOS included; None for all the data.
    seed : of the order.
    shares : of the folds.
    fold : put every document into this fold, for text that is only to be judged on.
    chat_template : ``"auto"`` to use the tokenizer's template, if it has one.
    thinking : ``enable_thinking`` for the template.
    shard : give only every n-th batch, for one of n machines that read the same documents;
        ``tokens`` are those of all shards together. A shard may lack a fold of few batches.

    Attributes
    ----------
    offsets : ``"character"``, or ``"token"`` for a tokenizer that does not know the characters
        of its tokens. With a chat template, offsets count in the rendered text.
    bos : whether windows start with BOS.
    template : ``"none"``, or the digest of the chat template.
    targets : tokens asked for per fold, or None.

    Raises
    ------
    GramianError : an argument is out of range, a fold that has a share gets no document, or the
        documents cannot be read.
    """

    def __init__(
        self,
        docs: Documents,
        tokenizer: PreTrainedTokenizerBase,
        *,
        length: int = 512,
        rows: int = 2048,
        tokens: int | None = None,
        seed: int = 0,
        shares: Shares | None = None,
        fold: str | None = None,
        chat_template: ChatTemplate = "off",
        thinking: bool | None = None,
        shard: Shard | None = None,
    ) -> None:
        if length < 2:
            raise GramianError(f"length is {length}, expected at least 2 positions per window")
        if rows < 1:
            raise GramianError(f"rows is {rows}, expected at least 1 position per batch")
        self.docs = docs
        self.tokenizer: Any = tokenizer
        self.length = length
        self.windows = max(1, rows // length)
        self.tokens = tokens
        self.seed = seed
        self.shard = shard
        self.shares = shares if shares is not None else Shares()
        if fold is not None and fold not in FOLDS:
            raise GramianError(f"fold is {fold!r}, expected one of {', '.join(FOLDS)}")
        self.folds = FOLDS if fold is None else (fold,)
        self.chat_template: ChatTemplate = chat_template
        self.thinking = thinking
        self.template = template_digest(tokenizer, chat_template, thinking)
        self.offsets: Literal["character", "token"] = (
            "character" if getattr(tokenizer, "is_fast", False) else "token"
        )
        self._bos = first_token(tokenizer)
        self.bos = self._bos is not None
        self.targets = None if tokens is None else self._split(tokens)
        self._entries = self._order()
        self._totals: dict[str, Total] | None = None
        self._packed: dict[str, int] = {}

    def __iter__(self) -> Iterator[Batch]:
        return self.batches()

    def batches(self, start: int = 0) -> Iterator[Batch]:
        """Batches from number ``start`` on: exactly the tail of a complete iteration."""
        totals: dict[str, Total] = {}
        packed: dict[str, int] = {}
        padding = int(self.tokenizer.pad_token_id or 0)
        number = own = 0
        for fold in self.folds:
            tokens, digests, packed[fold] = 0, set[str](), 0
            for windows in in_batches(self._windows(fold), self.windows):
                packed[fold] += sum(map(len, windows))
                number += 1
                if self.shard is not None and not self.shard.has(number - 1):
                    continue
                tokens += sum(map(len, windows))
                digests.update(token.digest for window in windows for token in window)
                own += 1
                if own > start:
                    yield Batch.of(fold, windows, self.length, padding)
            if packed[fold] == 0:
                raise GramianError(
                    f"{self.docs.name}: the fold {fold!r} has {len(self._entries[fold])} "
                    "documents, but together they make no window of at least two tokens; "
                    "give longer documents"
                )
            digests.discard("")
            if tokens:
                totals[fold] = Total(tokens, len(digests), tuple(sorted(digests)))
        check_dealt(self, own, number)
        self._totals, self._packed = totals, packed

    def totals(self) -> dict[str, Total]:
        """What each fold held; of a shard, those folds that it has a batch of.

        Raises
        ------
        GramianError : no iteration has come to its end yet.
        """
        if self._totals is None:
            raise GramianError(
                "totals are known after an iteration over all batches; iterate first"
            )
        return self._totals

    @property
    def shortfall(self) -> dict[str, int]:
        """Tokens that were asked for and that the data did not have, per fold that lacks any.

        A single token that was dropped is not counted, and of a shard this is the shortfall of
        all shards together. Known after a complete iteration.
        """
        self.totals()
        lacking = {f: n - self._packed[f] for f, n in (self.targets or {}).items()}
        return {fold: missing for fold, missing in lacking.items() if missing > 1}

    @property
    def held(self) -> HeldShards | None:
        """Which shards of which collection the batches are; None for all of it."""
        if self.shard is None or self.shard.count == 1:
            return None
        return HeldShards(self.run, self.shard.count, (self.shard.number,))

    @property
    def run(self) -> str:
        """SHA-256 of all documents and of how they are cut into batches: the same for every
        shard of a collection, and whatever the order of the documents."""
        digest = hashlib.sha256()
        how = (self.length, self.windows, self.targets, self.folds, self.template, self.bos)
        digest.update(repr(how).encode())
        for fold in self.folds:
            digest.update(f"{fold}:{len(self._entries[fold])}:".encode())
            for key, _ in self._entries[fold]:
                digest.update(key)
        return digest.hexdigest()

    def _split(self, tokens: int) -> dict[str, int]:
        if len(self.folds) == 1:
            targets = {self.folds[0]: tokens}
        else:
            targets = {fold: round(getattr(self.shares, fold) * tokens) for fold in self.folds}
        for fold, target in targets.items():
            if target < 2:
                raise GramianError(
                    f"tokens is {tokens}, of which the fold {fold!r} would get {target}; expected "
                    "at least 2 in every fold: ask for more tokens, or choose other shares"
                )
        return targets

    def _order(self) -> dict[str, list[_Entry]]:
        entries: dict[str, list[_Entry]] = {fold: [] for fold in self.folds}
        one = self.folds[0] if len(self.folds) == 1 else None
        for place, document in self.docs.scan():
            fold = one or fold_of(document.digest, self.shares)
            entries[fold].append((self._key(document), place))
        found = sum(map(len, entries.values()))
        for fold in self.folds:
            if not entries[fold]:
                raise GramianError(
                    f"{self.docs.name}: no document falls into the fold {fold!r} (its share is "
                    f"{getattr(self.shares, fold):g} of {found} "
                    f"document{'s' * (found != 1)}); give more documents, cut long ones into "
                    "several, or choose other shares"
                )
            entries[fold].sort()
        return entries

    def _key(self, document: Document) -> bytes:
        return hashlib.sha256(f"{self.seed}:{document.digest}".encode()).digest()

    def _windows(self, fold: str) -> Iterator[list[Token]]:
        left = math.inf if self.targets is None else self.targets[fold]
        window: list[Token] = []
        for key, place in self._entries[fold]:
            if left < 1:
                break
            for token in self._tokens(place, key):
                if not window and self._bos is not None and token.id != self._bos:
                    window.append(Token(self._bos))
                    left -= 1
                if left < 1:
                    break
                window.append(token)
                left -= 1
                if len(window) == self.length:
                    yield window
                    window = []
        if len(window) > 1:
            yield window

    def documents(self, fold: str) -> Iterator[Document]:
        """The documents of a fold, in the order in which they are packed."""
        for key, place in self._entries[fold]:
            yield self._document(place, key)

    def _document(self, place: Place, key: bytes) -> Document:
        document = self.docs.read(place)
        if self._key(document) != key:
            raise GramianError(f"{document.name}: changed while it was being read; start again")
        return document

    def _tokens(self, place: Place, key: bytes) -> Iterator[Token]:
        document = self._document(place, key)
        text = render(document, self.tokenizer, self.chat_template, self.thinking)
        character = self.offsets == "character"
        # verbose=False: a document may well be longer than the model's context.
        encoded = self.tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=character, verbose=False
        )
        ids = encoded["input_ids"]
        starts = (s for s, _ in encoded["offset_mapping"]) if character else range(len(ids))
        for token, start in zip(ids, starts, strict=True):
            yield Token(token, document.digest, start)


def in_batches(windows: Iterator[_Window], size: int) -> Iterator[list[_Window]]:
    """``size`` windows at a time; the last batch may have fewer."""
    while batch := list(islice(windows, size)):
        yield batch


def check_dealt(packing: Packing, own: int, every: int) -> None:
    """Refuse a shard that got none of all the batches."""
    if own == 0:
        raise GramianError(
            f"shard {packing.shard} gets no batch: {packing.docs.name} makes only {every} of "
            f"{packing.windows} windows; deal out at most {every} shards, or make batches smaller "
            "(batch_rows)"
        )


def first_token(tokenizer: Any) -> int | None:
    """The BOS id, or [CLS] of an encoder, if the tokenizer puts it in front of a text by itself."""
    ids = tokenizer("a")["input_ids"]
    first = tokenizer.bos_token_id
    if first is None:
        first = getattr(tokenizer, "cls_token_id", None)
    return int(first) if first is not None and ids and ids[0] == first else None
