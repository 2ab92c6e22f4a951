"""gramian bridge sample: rows of a store to embed anew."""

from __future__ import annotations

import json as jsonlib
import os
from pathlib import Path
from typing import Annotated

import typer

from gramian.cli.options import Force, Json, bar, console, print_json
from gramian.errors import refuse_existing

EXAMPLE = """
Examples:

    gramian bridge sample lancedb:store/docs -n 5000 --text-field text -o pairs.jsonl

    gramian bridge fit pairs.jsonl bundled:minilm -o bridge/

Take the pairs from the index itself: pairs from another domain serve a third as well. --strategy
telling prefers rows in rare directions, of which least squares learns more from few pairs; the
default, random, is right for judging and for rotations.
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
    from gramian.bridge.sample import sample as draw
    from gramian.bridge.vectors import open_vectors

    refuse_existing(output, force=force)
    source = open_vectors(store, id_field=id_field, text_field=text_field)
    with bar("sampling", source.count) as advance:
        rows = draw(source, n, strategy=strategy, seed=seed, texts=texts, progress=advance)
    temporary = output.with_name(f".{output.name}.new")
    with temporary.open("w", encoding="utf-8") as file:
        for row in rows:
            record: dict[str, object] = {"id": row.id}
            if row.text is not None:
                record["text"] = row.text
            if row.leverage is not None:
                record["leverage"] = row.leverage
            file.write(
                jsonlib.dumps(record | {"vector": row.vector.tolist()}, ensure_ascii=False) + "\n"
            )
    os.replace(temporary, output)
    stamp = dict(source.stamp) | {"source": store}
    output.with_name(f"{output.name}.json").write_text(jsonlib.dumps(stamp, indent=2))
    if json:
        print_json({"path": str(output), "rows": len(rows), "dim": source.dim, "of": source.count})
        return
    console.print(f"{output}: {len(rows):,} of {source.count or 0:,} rows of {source.dim}")


sample.__doc__ = (sample.__doc__ or "") + EXAMPLE
