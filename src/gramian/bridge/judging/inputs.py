"""Queries and items for a judgement, from files, stores and models."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.embedders import Embedder
from gramian.bridge.judging.relevance import Qrels
from gramian.bridge.saved import SavedBridge, Space
from gramian.bridge.texts import EmbeddedTexts, Texts
from gramian.bridge.vectors import VectorSource
from gramian.errors import GramianError

BATCH = 4096
Floats = NDArray[np.float32]
Advance = Callable[[int, int | None], None]
_Row = tuple[int, str, Floats, str | None]
"""Number, id, vector, text."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a source, in its order."""

    ids: tuple[str, ...]
    vectors: Floats
    """(n, d)."""
    texts: tuple[str, ...] | None
    of: int
    """Rows of the whole source."""


@dataclass(frozen=True, eq=False)
class NewModel:
    """What embeds items anew."""

    embedder: Embedder
    prefix: str
    """Before documents."""

    def __call__(self, texts: Sequence[str]) -> Floats:
        """(n, d) vectors."""
        return self.embedder(texts, prefix=self.prefix)


def sides(bridge: SavedBridge) -> tuple[Space, Space]:
    """The old and the new space of a bridge, whichever it leads from."""
    if bridge.direction == "query_to_old":
        return bridge.target, bridge.source
    return bridge.source, bridge.target


def require_space(source: VectorSource, space: Space, what: str) -> None:
    """Refuse vectors of another model than the bridge was fitted for, as far as that is recorded.

    Names and prompts say nothing here: one model has many paths, and queries another prompt.

    Raises
    ------
    GramianError : another width, or other weights.
    """
    if source.dim != space.dim:
        raise GramianError(
            f"{what} {source.address} is {source.dim} wide and {space} is expected: another "
            "model, or a bridge of another pair of models"
        )
    theirs = source.stamp.get("fingerprint")
    if theirs and space.fingerprint and theirs != space.fingerprint:
        raise GramianError(
            f"{what} {source.address} comes from other weights ({theirs[:12]}) than the bridge was "
            f"fitted for ({space.name}, {space.fingerprint[:12]}); fit a bridge for this model"
        )


def gather(
    bridge: SavedBridge,
    *,
    new_queries: VectorSource,
    corpus: VectorSource,
    old_queries: VectorSource | None = None,
    new_corpus: VectorSource | None = None,
    new_model: NewModel | None = None,
    texts: Texts | None = None,
    qrels: Qrels | None = None,
    sample: int | None = None,
    reindex: bool = True,
    seed: int = 0,
    progress: Advance = lambda done, total: None,
) -> dict[str, Any]:
    """Read and embed what `judge` compares, and return its arguments.

    Only a sample of the items is held, and all that are relevant to a query. Their new vectors
    come from ``new_corpus``, else from ``new_model`` and the texts that the corpus carries (or
    ``texts``, by id).

    Parameters
    ----------
    corpus : the old index. new_queries, old_queries : of the same ids, in any order.
    sample : items to compare on; None: all. Random by a hash of their ids, the same every time.
    reindex : embed the items; off, only the candidates of the second stage are embedded.

    Raises
    ------
    GramianError : a source of another model than the bridge's, missing or duplicate ids, items
        without texts that are to be embedded.
    """
    old, new = sides(bridge)
    require_space(corpus, old, "the old index")
    require_space(new_queries, new, "the source of new queries")
    asked = read_rows(new_queries)
    before = None
    if old_queries is not None:
        require_space(old_queries, old, "the source of old queries")
        before = old_queries.take(list(asked.ids)).vectors
    relevant = {
        item
        for query in asked.ids
        for item, grade in (qrels or {}).get(query, {}).items()
        if grade > 0
    }
    found: dict[str, Any] = {
        "new_queries": asked.vectors,
        "old_queries": before,
        "query_ids": asked.ids,
        "qrels": qrels,
    }
    if new_corpus is not None:
        require_space(new_corpus, new, "the new index")
        after = read_rows(new_corpus, sample, relevant, seed, progress)
        held = corpus.take(list(after.ids)).vectors
        size = corpus.count if corpus.count is not None else after.of
        found |= {"old_index": held, "new_index": after.vectors, "item_ids": after.ids}
        return found | {"corpus": max(size, len(after.ids))}
    items = read_rows(corpus, sample, relevant, seed, progress)
    if texts is not None:
        items = replace(items, texts=_texts_of(items.ids, texts))
    found |= {"old_index": items.vectors, "item_ids": items.ids, "corpus": items.of}
    if new_model is None or items.texts is None:
        return found
    words = items.texts
    if reindex:
        return found | {"new_index": new_model(words)}
    return found | {"embed": lambda places: new_model([words[place] for place in places])}


def read_rows(
    source: VectorSource,
    n: int | None = None,
    keep: Iterable[str] = (),
    seed: int = 0,
    progress: Advance = lambda done, total: None,
) -> Rows:
    """Rows of a source: all, or n with those of the ids in ``keep`` among them, in one pass.

    Which others are taken depends on their ids and the seed alone. More than n come back where
    more than n are to be kept. Memory holds what is returned.

    Raises
    ------
    GramianError : n below 1, or no rows at all.
    """
    if n is not None and n < 1:
        raise GramianError(f"a sample of {n} items, expected at least 1")
    if isinstance(source, EmbeddedTexts) and n is not None:
        return _embedded(source, n, set(keep), seed)
    if n is None:
        return _whole(source, progress)
    wanted, total = set(keep), 0
    kept: list[_Row] = []
    drawn: list[tuple[bytes, _Row]] = []
    for batch in source.batches(BATCH):
        for row, name in enumerate(batch.ids):
            text = None if batch.texts is None else batch.texts[row]
            key = b"" if name in wanted else _key(name, seed)
            if key and len(drawn) == n and key <= drawn[0][0]:
                continue
            # copied: a view would keep its whole batch
            one = (total + row, name, batch.vectors[row].copy(), text)
            if not key:
                kept.append(one)
            elif len(drawn) < n:
                heapq.heappush(drawn, (key, one))
            else:
                heapq.heapreplace(drawn, (key, one))
        total += len(batch)
        progress(total, source.count)
    best = sorted(drawn, key=lambda pair: pair[0], reverse=True)[: max(n - len(kept), 0)]
    rows = sorted([*kept, *(one for _, one in best)], key=lambda one: one[0])
    if not rows:
        raise GramianError(f"{source.address} holds no rows")
    texts = [text for _, _, _, text in rows if text is not None]
    return Rows(
        tuple(name for _, name, _, _ in rows),
        np.stack([vector for _, _, vector, _ in rows]),
        tuple(texts) if len(texts) == len(rows) else None,
        total,
    )


def _whole(source: VectorSource, progress: Advance) -> Rows:
    ids: list[str] = []
    texts: list[str] = []
    blocks = []
    for batch in source.batches(BATCH):
        ids += batch.ids
        texts += batch.texts or []
        blocks.append(batch.vectors)
        progress(len(ids), source.count)
    if not ids:
        raise GramianError(f"{source.address} holds no rows")
    return Rows(
        tuple(ids),
        np.concatenate(blocks),
        tuple(texts) if len(texts) == len(ids) else None,
        len(ids),
    )


def _embedded(source: EmbeddedTexts, n: int, keep: set[str], seed: int) -> Rows:
    """Texts are drawn before they are embedded."""
    names = source.texts.ids
    kept = [name for name in names if name in keep]
    others = sorted(set(names) - keep, key=lambda name: _key(name, seed), reverse=True)
    chosen = {*kept, *others[: max(n - len(kept), 0)]}
    batch = source.take([name for name in names if name in chosen])
    texts = None if batch.texts is None else tuple(batch.texts)
    return Rows(tuple(batch.ids), batch.vectors, texts, len(names))


def _key(name: str, seed: int) -> bytes:
    return hashlib.sha256(f"gramian-judge:{seed}:{name}".encode()).digest()


def _texts_of(ids: Sequence[str], texts: Texts) -> tuple[str, ...]:
    found = dict(zip(texts.ids, texts.texts, strict=True))
    missing = [name for name in ids if name not in found]
    if missing:
        raise GramianError(
            f"{len(missing)} of {len(ids)} items have no text, the first is {missing[0]!r}; are "
            "the ids of the texts those of the corpus?"
        )
    return tuple(found[name] for name in ids)
