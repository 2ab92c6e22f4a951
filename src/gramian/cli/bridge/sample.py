"""gramian bridge sample: rows of a store to embed anew."""

from __future__ import annotations

import json as jsonlib
import os
from pathlib import Path
from typing import Annotated

import typer

from gramian.cli.options import Force, Json, bar, console, errors, print_json
from gramian.errors import refuse_existing

EXAMPLE = """
Examples:

    gramian bridge sample lancedb:store/docs -n 5000 --text-field text -o pairs.jsonl

    gramian bridge fit pairs.jsonl bundled:minilm -o bridge/

Take the pairs from the index itself: pairs from another domain serve a third as well.

--strategy random, the default, draws every row alike: right for judging, for rotations, and when
some thousands of texts can be embedded anew. --strategy telling prefers rows in rare directions,
of which least squares learns more when every text is dear, say below two per dimension; their
weights are recorded, and fit uses them, so that the map is still that of the whole store.
"""


def sample(
    store: Annotated[str, typer.Argument(help="Vectors of the old model, as stored.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A .jsonl file.")],
    n: Annotated[int, typer.Option("-n", help="Rows to draw.")] = 5000,
    text_field: Annotated[str | None, typer.Option(help="Column of texts.")] = None,
    id_field: Annotated[str, typer.Option(help="Column of ids.")] = "id",
    texts: Annotated[
        bool, typer.Option("--texts/--no-texts", help="Whether texts are needed.")
    ] = True,
    strategy: Annotated[str, typer.Option(help="random or telling.")] = "random",
    seed: Annotated[int, typer.Option(help="Another seed draws other rows.")] = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Draw rows of a store with their ids, texts and vectors as stored, to fit a bridge on."""
    from gramian.bridge.provenance import place_of
    from gramian.bridge.sample import sample as draw
    from gramian.bridge.vectors import open_vectors

    refuse_existing(output, force=force)
    source = open_vectors(store, id_field=id_field, text_field=text_field)
    with bar("sampling", source.count) as advance:
        drawn = draw(source, n, strategy=strategy, seed=seed, texts=texts, progress=advance)
    temporary = output.with_name(f".{output.name}.new")
    with temporary.open("w", encoding="utf-8") as file:
        for row in drawn.rows:
            record: dict[str, object] = {"id": row.id}
            if row.text is not None:
                record["text"] = row.text
            if strategy != "random":
                record["weight"] = row.weight
            file.write(
                jsonlib.dumps(record | {"vector": row.vector.tolist()}, ensure_ascii=False) + "\n"
            )
    os.replace(temporary, output)
    stamp = dict(source.stamp) | {"source": place_of(source), "strategy": strategy}
    output.with_name(f"{output.name}.json").write_text(jsonlib.dumps(stamp, indent=2))
    if json:
        print_json(
            {
                "path": str(output),
                "rows": len(drawn.rows),
                "dim": source.dim,
                "of": drawn.of,
                "textless": drawn.textless,
                "strategy": strategy,
            }
        )
        return
    console.print(f"{output}: {len(drawn.rows):,} of {drawn.of:,} rows of {source.dim}")
    if drawn.textless:
        errors.print(f"[yellow]note:[/] {drawn.textless:,} rows have no text and were left out")


sample.__doc__ = (sample.__doc__ or "") + EXAMPLE
