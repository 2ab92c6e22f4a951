"""What a PostgreSQL server is asked, and where a column of vectors is in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from gramian.bridge.vectors.address import Address
from gramian.bridge.vectors.asking import asked
from gramian.bridge.vectors.protocol import Stamp
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
