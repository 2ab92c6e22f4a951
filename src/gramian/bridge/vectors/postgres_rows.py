"""Rows on their way into a pgvector table, by COPY in its binary form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gramian.bridge.vectors.protocol import VectorBatch

Named = Callable[[str], Any]
"""Makes SQL of a text with {table}, {column} and {key} in it."""


def append(connection: Any, named: Named, kind: str, batch: VectorBatch) -> None:
    """New rows: ids, texts where there are some, vectors."""
    query = named("COPY {table} (id, text, {column}) FROM STDIN WITH (FORMAT BINARY)")
    texts: Sequence[str | None] = batch.texts or [None] * len(batch)
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        copy.set_types(["text", "text", kind])
        for id, text, vector in zip(batch.ids, texts, _vectors(kind, batch), strict=True):
            copy.write_row((id, text, vector))


def fill(connection: Any, named: Named, kind: str, key_kind: str, batch: VectorBatch) -> int:
    """The column, in the rows of these ids; how many rows have one of them."""
    width = batch.vectors.shape[1]
    connection.execute(
        named(
            "CREATE TEMPORARY TABLE gramian_batch (id text PRIMARY KEY, "
            f"v {kind}({width})) ON COMMIT DROP"
        )
    )
    query = "COPY gramian_batch (id, v) FROM STDIN WITH (FORMAT BINARY)"
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        copy.set_types(["text", kind])
        for id, vector in zip(batch.ids, _vectors(kind, batch), strict=True):
            copy.write_row((id, vector))
    connection.execute("ANALYZE gramian_batch")
    # the type comes from the catalogue of the server, quoted where it has to be
    changed: int = connection.execute(
        named(
            "UPDATE {table} AS t SET {column} = b.v FROM gramian_batch AS b "
            f"WHERE t.{{key}} = b.id::{key_kind}"
        )
    ).rowcount
    return changed


def _vectors(kind: str, batch: VectorBatch) -> list[Any]:
    from pgvector import HalfVector, Vector

    make: Any = HalfVector if kind == "halfvec" else Vector
    return [make(vector) for vector in batch.vectors]
