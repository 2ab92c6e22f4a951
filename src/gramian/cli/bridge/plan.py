"""gramian bridge plan: what re-embedding a store costs, against bridging to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gramian.cli.options import Json, bar, console, errors, print_json
from gramian.errors import GramianError

if TYPE_CHECKING:
    from gramian.bridge.vectors import VectorSource

EXAMPLE = """
Examples:

    gramian bridge plan lancedb:store/docs --price '$0.02/M' --rate '1M tokens/min'
    --text-field text

    gramian bridge plan old.npy --price 0.0001/1k --rate '3000 texts/min' --tokens-per-text 180
    --bridge bridge/ --json

Costs are those of embedding; storage is the bytes of the vectors alone, to which a store adds its
index. Two stages embed their candidates anew for every query unless they are kept.
"""
TEXTS = 1000


def plan(
    store: Annotated[str, typer.Argument(help="The vectors that are there.")],
    price: Annotated[
        str | None, typer.Option(help="Of the new model: 0.02/M or $0.0001/1k, of tokens.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option(help="'3000 texts/min', '1M tokens/min', '50 texts/s'.")
    ] = None,
    tokens_per_text: Annotated[
        float | None, typer.Option(help="Mean; default: measured on texts of the store.")
    ] = None,
    tokens_per_query: Annotated[float, typer.Option(help="Mean.")] = 16.0,
    text_field: Annotated[str | None, typer.Option(help="Column of texts.")] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="Counts tokens; default: 1.3 a word.")
    ] = None,
    bridge: Annotated[
        Path | None, typer.Option(help="A bridge, for the width of the new vectors.")
    ] = None,
    new_dim: Annotated[int | None, typer.Option(help="Width of the new vectors.")] = None,
    new_dtype: Annotated[str | None, typer.Option(help="Of the new vectors.")] = None,
    pairs: Annotated[int, typer.Option(help="Texts that a bridge is fitted on.")] = 5000,
    queries: Annotated[int, typer.Option(help="That serving is counted for.")] = 1000,
    candidates: Annotated[int, typer.Option(help="Of two stages, a query.")] = 200,
    id_field: Annotated[str, typer.Option(help="Column of ids.")] = "id",
    json: Json = False,
) -> None:
    """Cost, hours and disk of re-embedding a store, against bridging to it."""
    from gramian.bridge import open_bridge
    from gramian.bridge.costs import plan_costs
    from gramian.bridge.rates import Price, Rate
    from gramian.cli.bridge.judge_sources import vectors_at

    cost = None if price is None else Price.parse(price)
    speed = None if rate is None else Rate.parse(rate)
    if cost is None and speed is None:
        raise GramianError("nothing to count with: give --price, --rate, or both")
    source = vectors_at(store, id_field=id_field, text_field=text_field)
    notes = []
    if tokens_per_text is None:
        tokens_per_text, note = _measured(source, tokenizer)
        notes.append(note)
    if bridge is not None:
        saved = open_bridge(bridge)
        forth = saved.direction == "query_to_old"
        old, new = (saved.target, saved.source) if forth else (saved.source, saved.target)
        if old.dim != source.dim:
            raise GramianError(f"{store} is {source.dim} wide, the old side of {bridge} {old.dim}")
        pairs, new_dim = saved.pairs or pairs, new_dim or new.dim
    found = plan_costs(
        _count(source),
        source.dim,
        dtype=source.dtype,
        tokens_per_text=tokens_per_text,
        tokens_per_query=tokens_per_query,
        new_dim=new_dim,
        new_dtype=new_dtype,
        price=cost,
        rate=speed,
        pairs=pairs,
        queries=queries,
        candidates=candidates,
    )
    if json:
        print_json(found.to_json() | {"notes": notes})
        return
    from gramian.report.bridge_tables import costs_tables

    for table in costs_tables(found):
        console.print(table)
    if found.break_even is not None:
        console.print(
            f"{found.break_even:,.0f} queries in two stages embed as many tokens as re-embedding "
            "everything; candidates that are kept are paid once",
            soft_wrap=True,
        )
    for note in notes:
        errors.print(f"[yellow]note:[/] {note}", soft_wrap=True)


def _measured(source: VectorSource, tokenizer: str | None) -> tuple[float, str]:
    """Mean tokens of the first texts, and how they were counted."""
    from gramian.bridge.costs import words_to_tokens

    batch = next(iter(source.batches(TEXTS)), None)
    texts = None if batch is None else batch.texts
    if not texts:
        raise GramianError(
            f"{source.address} carries no texts to count tokens of; name their column with "
            "--text-field, or give --tokens-per-text"
        )
    if tokenizer is None:
        mean = words_to_tokens(texts)
        return mean, f"{mean:.1f} tokens a text: 1.3 a word of the first {len(texts):,} texts"
    from gramian.networks.sources import resolve

    encode = resolve(tokenizer).load_tokenizer().encode
    mean = sum(len(encode(text)) for text in texts) / len(texts)
    return mean, f"{mean:.1f} tokens a text: the first {len(texts):,} texts by {tokenizer}"


def _count(source: VectorSource) -> int:
    if source.count is not None:
        return source.count
    with bar("counting") as advance:
        total = 0
        for batch in source.batches(8192):
            total += len(batch)
            advance(total)
    return total


plan.__doc__ = (plan.__doc__ or "") + EXAMPLE
