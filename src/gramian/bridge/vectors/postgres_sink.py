"""New pgvector tables, and new columns of tables that are there."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from gramian.bridge.vectors.address import Address
from gramian.bridge.vectors.postgres_rows import append, fill
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
from gramian.bridge.vectors.protocol import (
    Limits,
    Stamp,
    VectorBatch,
    VectorSource,
    check_next,
)
from gramian.errors import GramianError

DONE = "done"
"""Key of the rows that are in a new column."""
WAIT = "10s"
"""How long a lock on a table that others use is waited for."""


class PostgresSink:
    """A new table of ids, texts and vectors, or a new column of a table that is there.

    Every batch is one transaction, and so is the column itself; how far it is stands in its
    comment. Only what Gramian wrote is ever replaced.

    Raises
    ------
    GramianError : the table or column exists, holds another result or was written by something
        else; the table to add a column to has no ids, or not as many rows as the source; the server
        is away, or its pgvector is too old for the dtype.
    """

    limits = Limits(
        "a pgvector column",
        16_000,
        ("float32", "float16"),
        (
            "an HNSW index takes 2,000 dimensions of float32, 4,000 of float16",
            "a new column of a table rewrites its rows: VACUUM after",
        ),
    )

    def __init__(
        self,
        address: Address,
        dim: int,
        dtype: str,
        purpose: Stamp,
        *,
        force: bool,
        like: VectorSource | None = None,
    ) -> None:
        self.address = shown(address)
        self._place = Place.of(address)
        self.dim, self.done, self._kind = dim, 0, TYPES[dtype]
        self._purpose = {**purpose, "dim": str(dim), "dtype": dtype}
        self._key = getattr(like, "id_field", None) or "id"
        self._column_only = False
        self._connection = connect(address.place)
        if self._run("SELECT to_regtype(%s)", (self._kind,))[0][0] is None:
            raise GramianError(
                f"{self.address}: the pgvector of this server has no {self._kind} (it came with "
                "0.7); write float32"
            )
        table = ask(self.address, lambda: self._place.find(self._connection))
        if table is None:
            self._new_table()
            return
        state, kept = ask(
            self.address,
            lambda: (
                said(self._connection, table) or {},
                said(self._connection, table, self._place.column),
            ),
        )
        ours = like is not None and getattr(like, "identity", None) == ask(
            self.address, lambda: identity(self._connection, table)
        )
        columns = ask(self.address, lambda: columns_of(self._connection, table))
        if ours and like is not None and getattr(like, "column", None) == self._place.column:
            raise GramianError(
                f"{self.address} is the source of the vectors, which is never written to; choose "
                "another table or column"
            )
        if self._place.column not in columns and state.get(STATE) != "partial table":
            self._new_column(columns, like)
        elif kept is not None and kept.get(STATE, "").endswith("column"):
            self._open_column(kept, columns, like, force=force)
        else:
            self._open_table(state, source_in_it=ours, force=force)

    def _open_table(self, state: Stamp, *, source_in_it: bool, force: bool) -> None:
        if state == {**self._purpose, STATE: "partial table"}:
            self.done = int(self._run(self._sql("SELECT count(*) FROM {table}"))[0][0])
            return
        if not state.get(STATE, "").endswith("table"):
            raise GramianError(
                f"{self.address}: the table exists and was not written by Gramian; choose another "
                "name, or name a new column as #table.column"
            )
        if source_in_it:
            raise GramianError(
                f"{self.address}: the table also holds the source of the vectors; choose another "
                "table or column"
            )
        if not force:
            raise GramianError(
                f"{self.address}: the table exists, perhaps with part of another result; choose "
                "another name, or force=True (--force) to replace it"
            )
        self._new_table(drop=True)

    def _open_column(
        self, kept: Stamp, columns: dict[str, str], like: VectorSource | None, *, force: bool
    ) -> None:
        purpose = {k: v for k, v in kept.items() if k not in (STATE, DONE)}
        if kept[STATE] == "partial column" and purpose == self._purpose:
            self._column_only = True
            self._check_table(columns, like)
            self.done = int(kept[DONE])
        elif force:
            self._new_column(columns, like, drop=True)
        else:
            raise GramianError(
                f"{self.address}: the column exists, perhaps with part of another result; choose "
                "another name, or force=True (--force) to replace it"
            )

    def _new_table(self, *, drop: bool = False) -> None:
        def make() -> None:
            with self._connection.transaction():
                self._lock_wait()
                if drop:
                    self._connection.execute(self._sql("DROP TABLE {table}"))
                self._connection.execute(
                    self._sql(
                        "CREATE TABLE {table} (id text PRIMARY KEY, text text, {column} "
                        f"{self._kind}({int(self.dim)}) NOT NULL)"
                    )
                )
                self._comment("TABLE {table}", {**self._purpose, STATE: "partial table"})

        ask(self.address, make)

    def _new_column(
        self, columns: dict[str, str], like: VectorSource | None, *, drop: bool = False
    ) -> None:
        self._column_only = True
        self._check_table(columns, like)

        def make() -> None:
            with self._connection.transaction():
                self._lock_wait()
                if drop:
                    self._connection.execute(self._sql("ALTER TABLE {table} DROP COLUMN {column}"))
                self._connection.execute(
                    self._sql(
                        f"ALTER TABLE {{table}} ADD COLUMN {{column}} {self._kind}({int(self.dim)})"
                    )
                )
                self._note_done(0)

        ask(self.address, make)

    def _check_table(self, columns: dict[str, str], like: VectorSource | None) -> None:
        if self._key not in columns:
            raise GramianError(
                f"{self.address}: the table has no column {self._key!r} of ids to find its rows "
                f"by; it has {', '.join(columns)}"
            )
        # without a length, which would cut a longer id to one that is another row's
        self._key_kind = re.sub(r"\(.*?\)", "", columns[self._key])
        rows = int(self._run(self._sql("SELECT count(*) FROM {table}"))[0][0])
        if like is not None and like.count is not None and like.count != rows:
            raise GramianError(
                f"{self.address}: the table has {rows} rows and {like.address} {like.count}; a "
                "new column needs one vector for every row"
            )

    def _lock_wait(self) -> None:
        self._connection.execute(f"SET LOCAL lock_timeout = '{WAIT}'")

    def _note_done(self, rows: int) -> None:
        self._comment(
            "COLUMN {table}.{column}",
            {**self._purpose, STATE: "partial column", DONE: str(rows)},
        )

    def _sql(self, text: str) -> Any:
        from psycopg import sql

        return sql.SQL(text).format(
            table=self._place.name,
            column=sql.Identifier(self._place.column),
            key=sql.Identifier(self._key),
        )

    def _run(self, query: Any, values: Sequence[Any] = ()) -> list[Any]:
        def run() -> list[Any]:
            found: list[Any] = self._connection.execute(query, values or None).fetchall()
            return found

        return ask(self.address, run)

    def _comment(self, what: str, stamp: Stamp) -> None:
        from psycopg import sql

        text = sql.Literal(json.dumps({"gramian": dict(stamp)}, sort_keys=True))
        self._connection.execute(sql.SQL("COMMENT ON {} IS {}").format(self._sql(what), text))

    def write(self, batch: VectorBatch) -> None:
        """Add rows, or fill the column in rows, all or none."""
        check_next(self.address, batch, self.done, self.dim)

        def run() -> None:
            with self._connection.transaction():
                if self._column_only:
                    self._fill(batch)
                else:
                    append(self._connection, self._sql, self._kind, batch)

        ask(self.address, run)
        self.done += len(batch)

    def _fill(self, batch: VectorBatch) -> None:
        changed = fill(self._connection, self._sql, self._kind, self._key_kind, batch)
        if changed != len(batch):
            raise GramianError(
                f"{self.address}: {changed} rows of the table have the {len(batch)} ids from row "
                f"{batch.start} on; a new column needs one row for every id"
            )
        self._note_done(self.done + len(batch))

    def finish(self, stamp: Stamp) -> None:
        """Mark the table or column as complete, and stamp the column."""
        if not self.done:
            raise GramianError(f"{self.address}: there are no rows to write")
        column = "COLUMN {table}.{column}"

        def complete() -> None:
            with self._connection.transaction():
                if self._column_only:
                    empty = self._run(
                        self._sql("SELECT count(*) FROM {table} WHERE {column} IS NULL")
                    )[0][0]
                    if empty:
                        raise GramianError(
                            f"{self.address}: {empty} rows of the table have an id that no "
                            "written vector has"
                        )
                    self._comment(column, {**stamp, STATE: "column"})
                else:
                    self._comment(column, stamp)
                    self._comment("TABLE {table}", {STATE: "table"})

        ask(self.address, complete)
        self._connection.close()
