"""Vectors in PostgreSQL tables with the extension pgvector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gramian.bridge.vectors.address import Address
from gramian.bridge.vectors.ids import check_unique
from gramian.bridge.vectors.postgres_server import (
    STATE,
    TYPES,
    Place,
    ask,
    columns_of,
    connect,
    identity,
    said,
    shown,
)
from gramian.bridge.vectors.protocol import Floats, Stamp, VectorBatch, gathered
from gramian.errors import GramianError


class PostgresSource:
    """A vector column of a table, in the order of its ids.

    Raises
    ------
    GramianError : no such table or column, no vectors, or a server that is away.
    """

    def __init__(
        self, address: Address, *, id_field: str, vector_field: str | None, text_field: str | None
    ) -> None:
        self.address, self._url = shown(address), address.place
        self._place = Place.of(address)
        self.column = vector_field or self._place.column
        self._connection = connect(self._url)
        table = ask(self.address, lambda: self._place.find(self._connection))
        if table is None:
            raise GramianError(f"{self.address}: there is no table {self._place.table!r}")
        known = ask(self.address, lambda: columns_of(self._connection, table))
        for name in (self.column, id_field, *([text_field] if text_field else [])):
            if name not in known:
                raise GramianError(
                    f"{self.address}: no column {name!r}; the columns are {', '.join(known)}"
                )
        kind = known[self.column].partition("(")[0]
        if kind not in TYPES.values():
            raise GramianError(f"{self.address}: column {self.column!r} is {kind}, not a vector")
        self.dtype = "float16" if kind == "halfvec" else "float32"
        self.id_field = id_field
        self._text = text_field or ("text" if "text" in known else None)
        self._table = table
        self.identity = ask(self.address, lambda: identity(self._connection, table))
        self.count: int | None = int(self._rows(self._sql("SELECT count(*) FROM {table}"))[0][0])
        if not self.count:
            raise GramianError(f"{self.address} holds no rows")
        self.dim = 0
        self.dim = next(self.batches(1)).vectors.shape[1]

    def _sql(self, text: str) -> Any:
        """A query, whose placeholders are told from per cents in names."""
        from psycopg import sql

        names = {
            "table": self._place.name,
            "id": sql.Identifier(self.id_field),
            "vector": sql.Identifier(self.column),
            "text": sql.SQL("NULL") if self._text is None else sql.Identifier(self._text),
        }
        quoted = {
            key: sql.SQL(name.as_string(self._connection).replace("%", "%%"))
            for key, name in names.items()
        }
        return sql.SQL(text).format(**quoted)

    def _rows(self, query: Any, values: Sequence[Any] = ()) -> list[Any]:
        def run() -> list[Any]:
            found: list[Any] = self._connection.execute(query, values).fetchall()
            return found

        return ask(self.address, run)

    @property
    def stamp(self) -> Stamp:
        """The comment on the column."""
        found = ask(self.address, lambda: said(self._connection, self._table, self.column)) or {}
        return {key: value for key, value in found.items() if key != STATE}

    @property
    def metric(self) -> str:
        """That of the index of the column: ``cosine`` (also without an index), ``l2``, ``dot``."""
        found = self._rows(
            "SELECT c.opcname FROM pg_index i "
            "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] "
            "JOIN pg_opclass c ON c.oid = i.indclass[0] "
            "WHERE i.indrelid = %s AND a.attname = %s",
            (self._table, self.column),
        )
        for (name,) in found:
            for metric, word in (("l2", "_l2_"), ("dot", "_ip_"), ("cosine", "_cosine_")):
                if word in name:
                    return metric
        return "cosine"

    def batches(self, size: int = 4096, start: int = 0) -> Iterator[VectorBatch]:
        """All rows from one on, through a cursor of the server and a connection of its own."""
        query = self._sql(
            "SELECT {id}, {vector}, {text} FROM {table} ORDER BY {id}, ctid OFFSET %s"
        )
        first = start
        # a cursor lives in a transaction, which other questions on its connection would end
        connection = connect(self._url, autocommit=False)
        try:
            cursor = ask(self.address, lambda: connection.cursor(name="gramian"))
            ask(self.address, lambda: cursor.execute(query, (start,)))
            while rows := ask(self.address, lambda: cursor.fetchmany(size)):
                batch = self._batch(rows, first)
                check_unique(batch.ids, self.address, first)
                yield batch
                first += len(rows)
        finally:
            connection.close()

    def _batch(self, rows: Sequence[Any], first: int) -> VectorBatch:
        for place, (id, vector, _) in enumerate(rows, first):
            if id is None or vector is None:
                raise GramianError(f"{self.address}: row {place} has no id or no vector")
        vectors = [_floats(vector) for _, vector, _ in rows]
        texts = [text for _, _, text in rows if isinstance(text, str)]
        ids = [str(id) for id, _, _ in rows]
        return VectorBatch(ids, np.stack(vectors), texts if len(texts) == len(ids) else None, first)

    def take(self, ids: Sequence[str]) -> VectorBatch:
        """The rows of these ids."""
        query = self._sql("SELECT {id}, {vector}, {text} FROM {table} WHERE {id}::text = ANY(%s)")
        rows = self._rows(query, (list(ids),))
        found = {str(id): (_floats(vector), text) for id, vector, text in rows}
        return gathered(self, ids, found)

    def search(self, queries: Any, k: int) -> tuple[list[list[str]], Floats]:
        """The ``k`` nearest by the metric of the column's index.

        A score is the cosine, the product, or the negative squared distance.
        """
        from pgvector import HalfVector, Vector

        metric = self.metric
        operator = {"cosine": "<=>", "l2": "<->", "dot": "<#>"}[metric]
        query = self._sql(
            f"SELECT {{id}}, {{vector}} {operator} %s AS far FROM {{table}} ORDER BY far LIMIT %s"
        )
        kind: Any = HalfVector if self.dtype == "float16" else Vector
        ids, scores = [], []
        for row in np.asarray(queries, dtype=np.float32):
            found = self._rows(query, (kind(row), k))
            ids.append([str(id) for id, _ in found])
            far = np.asarray([far for _, far in found], dtype=np.float64)
            scores.append({"cosine": 1 - far, "l2": -(far**2), "dot": -far}[metric])
        return ids, np.asarray(scores, dtype=np.float32)


def _floats(vector: Any) -> Floats:
    found = vector.to_numpy() if hasattr(vector, "to_numpy") else vector
    return np.asarray(found, dtype=np.float32)
