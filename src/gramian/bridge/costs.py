"""What a change of the embedding model costs: money, hours and disk, by arithmetic alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gramian.bridge.rates import Price, Rate
from gramian.errors import GramianError

BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "int8": 1, "uint8": 1}
WORDS = 1.3
"""Tokens a word of English, where no tokenizer counts them."""


@dataclass(frozen=True)
class Option:
    """One way to go, and what it takes."""

    name: str
    what: str
    texts: int
    """Texts that the new model embeds."""
    tokens: int
    cost: float | None
    """None without a price."""
    hours: float | None
    """None without a rate."""
    disk: int
    """Bytes written beside what is there."""


@dataclass(frozen=True)
class CostPlan:
    """Options for one store, side by side."""

    count: int
    dim: int
    dtype: str
    new_dim: int
    new_dtype: str
    stored: int
    """Bytes of the vectors that are there."""
    tokens_per_text: float
    tokens_per_query: float
    currency: str
    once: tuple[Option, ...]
    """Done once: reindex, parts of it, fitting the bridge."""
    served: tuple[Option, ...]
    """For ``queries`` queries: with the bridge, and in two stages."""
    queries: int
    candidates: int
    break_even: float | None
    """Queries in two stages that embed as many tokens as re-embedding everything; None where a
    candidate takes none. Candidates that are kept once embedded are paid once: then two stages
    never cost more than re-embedding."""

    def to_json(self) -> dict[str, Any]:
        """Every field; the options by name."""
        found = asdict(self)
        for part in ("once", "served"):
            found[part] = {
                option.name: {key: value for key, value in asdict(option).items() if key != "name"}
                for option in getattr(self, part)
            }
        return found


def plan_costs(
    count: int,
    dim: int,
    *,
    tokens_per_text: float,
    dtype: str = "float32",
    new_dim: int | None = None,
    new_dtype: str | None = None,
    price: Price | None = None,
    rate: Rate | None = None,
    pairs: int = 5000,
    queries: int = 1000,
    tokens_per_query: float = 16.0,
    candidates: int = 200,
    parts: Sequence[float] = (0.1, 0.25, 0.5),
) -> CostPlan:
    """Cost, hours and disk of re-embedding a store against bridging to it.

    Tokens of n texts are ``n x tokens_per_text``, vectors of n rows ``n x dim x bytes`` (indexes
    built over them come on top). The bridge maps queries, so that the store is not written; its
    folder holds the map and the moments of its pairs. Two stages embed ``candidates`` texts a
    query, counted without any cache.

    Parameters
    ----------
    count, dim, dtype : of the store. new_dim, new_dtype : of the new vectors (default: the same).
    tokens_per_text, tokens_per_query : means. pairs : that the bridge is fitted on.
    queries : that serving is counted for. parts : shares of the store for partial backfilling.

    Raises
    ------
    GramianError : a count, width or mean below what is possible, an unknown dtype, a share
        outside 0 to 1.
    """
    new_dim, new_dtype = new_dim or dim, new_dtype or dtype
    sizes = {"count": count, "dim": dim, "new_dim": new_dim, "pairs": pairs, "queries": queries}
    for name, value in {**sizes, "candidates": candidates}.items():
        if value < 1:
            raise GramianError(f"{name} is {value}, expected at least 1")
    for name, mean in {
        "tokens_per_text": tokens_per_text,
        "tokens_per_query": tokens_per_query,
    }.items():
        if not mean >= 0 or math.isinf(mean):
            raise GramianError(f"{name} is {mean}, expected at least 0")
    for share in parts:
        if not 0 < share < 1:
            raise GramianError(f"a part of {share}, expected a share between 0 and 1")

    def option(name: str, what: str, texts: int, tokens: float, disk: int) -> Option:
        return Option(
            name,
            what,
            texts,
            round(tokens),
            None if price is None else tokens * price.per_token,
            None if rate is None else rate.hours(texts, tokens),
            disk,
        )

    width = new_dim * _bytes(new_dtype)
    pairs = min(pairs, count)
    once = [
        option(
            "reindex",
            "re-embed every text; the old vectors stay until the change is made",
            count,
            count * tokens_per_text,
            count * width,
        ),
        option(
            "bridge",
            f"embed {pairs:,} texts and fit; nothing is written to the store",
            pairs,
            pairs * tokens_per_text,
            bridge_bytes(new_dim, dim),
        ),
    ]
    for share in parts:
        rows = math.ceil(share * count)
        what = f"re-embed {share:.0%} of the texts, bridge to the rest"
        once.append(option(f"backfill_{share:g}", what, rows, rows * tokens_per_text, rows * width))
    asked = queries * tokens_per_query
    fetched = queries * candidates
    served = [
        option("bridge", f"{queries:,} queries, each embedded once and mapped", queries, asked, 0),
        option(
            "two_stage",
            f"{queries:,} queries, each with {candidates} candidates embedded again",
            queries + fetched,
            asked + fetched * tokens_per_text,
            0,
        ),
    ]
    each = candidates * tokens_per_text
    return CostPlan(
        count=count,
        dim=dim,
        dtype=dtype,
        new_dim=new_dim,
        new_dtype=new_dtype,
        stored=count * dim * _bytes(dtype),
        tokens_per_text=tokens_per_text,
        tokens_per_query=tokens_per_query,
        currency="" if price is None else price.currency,
        once=tuple(once),
        served=tuple(served),
        queries=queries,
        candidates=candidates,
        break_even=count * tokens_per_text / each if each else None,
    )


def bridge_bytes(source: int, target: int) -> int:
    """Size of a saved bridge: the map and the moments of its three folds, in float64.

    Scatters are lower triangles. The names and the report come on top, some kilobytes.
    """
    counts = 4
    triangles = sum(width * (width + 1) // 2 for width in (source, target))
    fold = counts + source + target + triangles + source * target
    return 8 * (source * target + target + 3 * fold)


def words_to_tokens(texts: Sequence[str]) -> float:
    """Mean tokens a text, taken as 1.3 a word of white space.

    Raises
    ------
    GramianError : no texts.
    """
    if not texts:
        raise GramianError("no texts to count tokens of")
    return WORDS * sum(len(text.split()) for text in texts) / len(texts)


def _bytes(dtype: str) -> int:
    if dtype not in BYTES:
        raise GramianError(f"dtype is {dtype!r}, expected one of {', '.join(BYTES)}")
    return BYTES[dtype]
