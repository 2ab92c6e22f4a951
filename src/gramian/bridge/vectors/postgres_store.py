"""Vectors in PostgreSQL tables with the extension pgvector."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from gramian.bridge.vectors.address import Address
from gramian.bridge.vectors.protocol import Floats, Limits, Stamp, VectorBatch, gathered
from gramian.errors import GramianError

T = TypeVar("T")
TYPES = {"float32": "vector", "float16": "halfvec"}


def connect(url: str) -> Any:
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
        connection = psycopg.connect(url, connect_timeout=10)
        register_vector(connection)
    except psycopg.Error as error:
        said = str(error).strip().splitlines()[0]
        raise GramianError(
            f"PostgreSQL does not answer, or has no pgvector ({said}); check the address, and "
            "CREATE EXTENSION vector in the database"
        ) from error
    return connection


def asked(address: str, call: Callable[[], T]) -> T:
    """The answer of the server.

    Raises
    ------
    GramianError : the server is away, or refuses.
    """
    import psycopg

    try:
        return call()
    except psycopg.Error as error:
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise GramianError(
            f"{address}: the server does not answer or refuses ({said}); what was written before "
            "is kept, and the same command goes on"
        ) from error


def parts(address: Address) -> tuple[str, str]:
    """Table and column behind ``#``.

    Raises
    ------
    GramianError : there is none.
    """
    table, _, column = (address.part or "").partition(".")
    if not table:
        raise GramianError(f"{shown(address)} names no table; expected …/db#table.column")
    return table, column or "vector"


def shown(address: Address) -> str:
    """The address without a password."""
    scheme, _, rest = address.place.partition("://")
    login, at, host = rest.rpartition("@")
    user = login.partition(":")[0]
    return f"{scheme}://{user}{at}{host}" + (f"#{address.part}" if address.part else "")


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
        self._table, column = parts(address)
        self._vector = vector_field or column
        self._connection = connect(self._url)
        known = dict(
            self._rows(
                "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a "
                "WHERE a.attrelid = to_regclass(quote_ident(%s)) AND a.attnum > 0",
                (self._table,),
            )
        )
        if not known:
            raise GramianError(f"{self.address}: there is no table {self._table!r}")
        for name in (self._vector, id_field, *([text_field] if text_field else [])):
            if name not in known:
                raise GramianError(
                    f"{self.address}: no column {name!r}; the columns are {', '.join(known)}"
                )
        kind = str(known[self._vector]).partition("(")[0]
        if kind not in TYPES.values():
            raise GramianError(f"{self.address}: column {self._vector!r} is {kind}, not a vector")
        self.dtype = "float16" if kind == "halfvec" else "float32"
        self._id = id_field
        self._text = text_field or ("text" if "text" in known else None)
        self.count: int | None = int(self._rows(self._sql("SELECT count(*) FROM {table}"))[0][0])
        if not self.count:
            raise GramianError(f"{self.address} holds no rows")
        self.dim = 0
        self.dim = next(self.batches(1)).vectors.shape[1]

    def _sql(self, text: str) -> Any:
        from psycopg import sql

        names = {"table": self._table, "id": self._id, "vector": self._vector}
        found = {key: sql.Identifier(name) for key, name in names.items()}
        held: Any = sql.SQL("NULL") if self._text is None else sql.Identifier(self._text)
        return sql.SQL(text).format(text=held, **found)

    def _rows(self, query: Any, values: Sequence[Any] = ()) -> list[Any]:
        def run() -> list[Any]:
            with self._connection.cursor() as cursor:
                cursor.execute(query, values)
                found: list[Any] = cursor.fetchall()
            self._connection.rollback()
            return found

        return asked(self.address, run)

    @property
    def stamp(self) -> Stamp:
        """The comment on the column."""
        found = self._rows(
            "SELECT col_description(a.attrelid, a.attnum) FROM pg_attribute a "
            "WHERE a.attrelid = to_regclass(quote_ident(%s)) AND a.attname = %s",
            (self._table, self._vector),
        )
        try:
            said = json.loads(found[0][0])["gramian"]
            return {str(k): str(v) for k, v in said.items()}
        except (TypeError, ValueError, KeyError, IndexError, AttributeError):
            return {}

    def batches(self, size: int = 4096, start: int = 0) -> Iterator[VectorBatch]:
        """All rows from one on, through a cursor of the server."""
        query = self._sql("SELECT {id}, {vector}, {text} FROM {table} ORDER BY {id} OFFSET %s")
        first = start
        with self._connection.cursor(name="gramian") as cursor:
            asked(self.address, lambda: cursor.execute(query, (start,)))
            while rows := asked(self.address, lambda: cursor.fetchmany(size)):
                yield self._batch(rows, first)
                first += len(rows)
        self._connection.rollback()

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
        """The ``k`` nearest by cosine."""
        query = self._sql(
            "SELECT {id}, 1 - ({vector} <=> %s) FROM {table} ORDER BY {vector} <=> %s LIMIT %s"
        )
        from pgvector import HalfVector, Vector

        kind: Any = HalfVector if self.dtype == "float16" else Vector
        ids, scores = [], []
        for row in np.asarray(queries, dtype=np.float32):
            found = self._rows(query, (kind(row), kind(row), k))
            ids.append([str(id) for id, _ in found])
            scores.append([score for _, score in found])
        return ids, np.asarray(scores, dtype=np.float32)


class PostgresSink:
    """A new table of ids, texts and vectors; every batch is one transaction.

    Raises
    ------
    GramianError : the table exists and holds something else, or the server is away.
    """

    limits = Limits(
        "a pgvector column",
        16_000,
        ("float32", "float16"),
        ("an HNSW index takes 2,000 dimensions of float32, 4,000 of float16",),
    )

    def __init__(
        self, address: Address, dim: int, dtype: str, purpose: Stamp, *, force: bool
    ) -> None:
        self.address = shown(address)
        self._table, self._column = parts(address)
        self.dim, self.done, self._kind = dim, 0, TYPES[dtype]
        self._purpose = {**purpose, "state": "partial"}
        self._connection = connect(address.place)
        if self._run("SELECT to_regtype(%s)", (self._kind,))[0][0] is None:
            raise GramianError(
                f"{self.address}: the pgvector of this server has no {self._kind} (it came with "
                "0.7); write float32"
            )
        found = self._run("SELECT to_regclass(quote_ident(%s))", (self._table,))[0][0]
        if found is not None:
            said = self._run("SELECT obj_description(%s::regclass)", (found,))[0][0]
            if said == json.dumps({"gramian": self._purpose}, sort_keys=True):
                self.done = int(self._run(self._sql("SELECT count(*) FROM {table}"))[0][0])
                return
            if not force:
                raise GramianError(
                    f"{self.address}: the table exists; choose another name, or force=True "
                    "(--force) to replace it"
                )
            self._run(self._sql("DROP TABLE {table}"))
        self._run(
            self._sql(
                "CREATE TABLE {table} (id text PRIMARY KEY, text text, "
                f"{{column}} {self._kind}({int(dim)}) NOT NULL, place bigserial)"
            )
        )
        self._comment("TABLE {table}", self._purpose)

    def _sql(self, text: str) -> Any:
        from psycopg import sql

        return sql.SQL(text).format(
            table=sql.Identifier(self._table), column=sql.Identifier(self._column)
        )

    def _run(self, query: Any, values: Sequence[Any] = ()) -> list[Any]:
        def run() -> list[Any]:
            with self._connection.transaction(), self._connection.cursor() as cursor:
                cursor.execute(query, values)
                found: list[Any] = cursor.fetchall() if cursor.description else []
                return found

        found = asked(self.address, run)
        asked(self.address, self._connection.commit)
        return found

    def _comment(self, what: str, said: Stamp | None) -> None:
        from psycopg import sql

        text: Any = sql.SQL("NULL")
        if said is not None:
            text = sql.Literal(json.dumps({"gramian": dict(said)}, sort_keys=True))
        self._run(sql.SQL("COMMENT ON {} IS {}").format(self._sql(what), text))

    def write(self, batch: VectorBatch) -> None:
        """Add rows, all or none."""
        from pgvector import HalfVector, Vector

        if batch.start != self.done:
            raise GramianError(
                f"{self.address}: rows from {batch.start} on, expected from {self.done} on"
            )
        kind: Any = HalfVector if self._kind == "halfvec" else Vector
        texts: Sequence[str | None] = batch.texts or [None] * len(batch)
        query = self._sql("COPY {table} (id, text, {column}) FROM STDIN WITH (FORMAT BINARY)")

        def run() -> None:
            with (
                self._connection.transaction(),
                self._connection.cursor() as cursor,
                cursor.copy(query) as copy,
            ):
                copy.set_types(["text", "text", self._kind])
                for id, text, vector in zip(batch.ids, texts, batch.vectors, strict=True):
                    copy.write_row((id, text, kind(vector)))
            self._connection.commit()

        asked(self.address, run)
        self.done += len(batch)

    def finish(self, stamp: Stamp) -> None:
        """Mark the table as complete and stamp its column."""
        if not self.done:
            raise GramianError(f"{self.address}: there are no rows to write")
        self._comment("COLUMN {table}.{column}", stamp)
        self._comment("TABLE {table}", None)
        self._connection.close()


def _floats(vector: Any) -> Floats:
    found = vector.to_numpy() if hasattr(vector, "to_numpy") else vector
    return np.asarray(found, dtype=np.float32)
