"""Vectors in PostgreSQL tables with the extension pgvector."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import numpy as np

from gramian.bridge.vectors.address import Address
from gramian.bridge.vectors.asking import asked
from gramian.bridge.vectors.ids import check_unique
from gramian.bridge.vectors.protocol import Floats, Stamp, VectorBatch, gathered
from gramian.errors import GramianError

T = TypeVar("T")
TYPES = {"float32": "vector", "float16": "halfvec"}
STATE = "state"
"""Key of what a run of Gramian has made of a table or column so far; no part of its stamp."""


def connect(url: str, *, autocommit: bool = True) -> Any:
    """A connection that knows vectors.

    Raises
    ------
    GramianError : the package is missing, the server is away, or it has no pgvector.
    """
    try:
        import psycopg
        from pgvector.psycopg import register_vector
    except ImportError as error:
        raise GramianError(
            "PostgreSQL needs its packages: pip install 'gramian[postgres]'"
        ) from error
    try:
        connection = psycopg.connect(url, connect_timeout=10, autocommit=autocommit)
        register_vector(connection)
    except psycopg.Error as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise GramianError(
            f"PostgreSQL does not answer, or has no pgvector ({lines[0]}); check the address, and "
            "CREATE EXTENSION vector in the database"
        ) from error
    return connection


def ask(address: str, call: Callable[[], T]) -> T:
    """The answer of the server.

    Raises
    ------
    GramianError : the server is away, or refuses.
    """
    import psycopg

    return asked(address, call, (psycopg.Error,))


@dataclass(frozen=True)
class Place:
    """A column of a table, as ``#table.column`` or ``#schema.table.column`` names it.

    Raises
    ------
    GramianError : there is no table.
    """

    schema: str | None
    table: str
    column: str

    @classmethod
    def of(cls, address: Address) -> Place:
        """The column that an address names; ``vector`` where it names only a table."""
        names = (address.part or "").split(".")
        if not all(names):
            raise GramianError(f"{shown(address)} names no table; expected …/db#table.column")
        if len(names) == 1:
            return cls(None, names[0], "vector")
        if len(names) == 2:
            return cls(None, names[0], names[1])
        return cls(names[0], names[1], ".".join(names[2:]))

    @property
    def name(self) -> Any:
        """The table, quoted, to compose queries of."""
        from psycopg import sql

        return sql.Identifier(*([self.schema] if self.schema else []), self.table)

    def find(self, connection: Any) -> Any:
        """The table's number, or None where there is none."""
        name = self.name.as_string(connection)
        return connection.execute("SELECT to_regclass(%s)::oid", (name,)).fetchone()[0]


def columns_of(connection: Any, table: int) -> dict[str, str]:
    """Columns of a table and their types."""
    return dict(
        connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            (table,),
        ).fetchall()
    )


def identity(connection: Any, table: int) -> tuple[str, ...]:
    """What tells a table from all others, of this server and of other servers."""
    found = connection.execute(
        "SELECT pg_postmaster_start_time()::text, oid::text, %s::oid::text FROM pg_database "
        "WHERE datname = current_database()",
        (table,),
    ).fetchone()
    return tuple(found)


def said(connection: Any, table: int, column: str | None = None) -> Stamp | None:
    """What Gramian wrote into the comment of a table or column; None where it wrote nothing."""
    if column is None:
        query, values = "SELECT obj_description(%s, 'pg_class')", (table,)
    else:
        query = (
            "SELECT col_description(attrelid, attnum) FROM pg_attribute "
            "WHERE attrelid = %s AND attname = %s"
        )
        values = (table, column)  # type: ignore[assignment]
    found = connection.execute(query, values).fetchone()
    try:
        stamp = json.loads(found[0])["gramian"]
        return {str(key): str(value) for key, value in stamp.items()}
    except (TypeError, ValueError, KeyError, AttributeError):
        return None


def shown(address: Address) -> str:
    """The address without a password."""
    url = urlsplit(address.place)
    login, at, host = url.netloc.rpartition("@")
    query = urlencode([(k, v) for k, v in parse_qsl(url.query) if "password" not in k], safe="/")
    plain = urlunsplit((url.scheme, f"{login.partition(':')[0]}{at}{host}", url.path, query, ""))
    return plain + (f"#{address.part}" if address.part else "")


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
