"""New LanceDB tables, and new columns of tables that are there."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from gramian.bridge.vectors.address import Address, same_table
from gramian.bridge.vectors.asking import asked
from gramian.bridge.vectors.columns import stamp_of, stamped
from gramian.bridge.vectors.lancedb_store import ERRORS, STATE, among, connect, tables
from gramian.bridge.vectors.protocol import (
    Limits,
    Stamp,
    VectorBatch,
    VectorSource,
    check_next,
)
from gramian.errors import GramianError

MERGED = 1 << 28
"""Bytes of vectors that are joined to a table in one transaction."""


class LanceSink:
    """A new table of ids, texts and vectors, or a new column of a table that is there.

    Every batch is one transaction. The rows of a new column (``#column`` of a table that has no
    such column) are collected in a table beside it and joined by id at the end, so that nothing of
    the table changes before. Only what Gramian wrote is ever replaced.

    Raises
    ------
    GramianError : the table or column exists, holds another result or was written by something
        else; or the table to add a column to has no ids, or not as many rows as the source.
    """

    limits = Limits(
        "a LanceDB table",
        None,
        ("float32", "float16"),
        (
            "a new column of a table is joined by id: rows may come in another order after, and "
            "its indexes want optimize()",
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
        self.address = address.text
        folder, self._name = address.table
        self._column = address.part or "vector"
        self._database = connect(folder, new=True)
        self.dim, self.dtype = dim, np.dtype(dtype)
        self._purpose = {**purpose, "dim": str(dim), "dtype": dtype}
        self._table: Any = None
        """Where rows are appended; None before there are any."""
        self._beside: Any = None
        """The table that gets a new column."""
        self._key = getattr(like, "id_field", None) or "id"
        self.done = 0
        there = self._asked(lambda: tables(self._database))
        staging = hashlib.sha256(self._column.encode()).hexdigest()[:8]
        self._staging = f"{self._name}__{staging}__partial"
        if self._name not in there:
            self._rows_in = self._name
            return
        table = self._asked(lambda: self._database.open_table(self._name))
        kept = self._kept(table)
        if kept.get(STATE) == "partial table":
            self._rows_in = self._name
            self._go_on(table, kept, force=force)
        elif kept.get(STATE) == "table" and force:
            if like is not None and _in_table(address, like):
                raise GramianError(
                    f"{self.address}: the table also holds the source of the vectors; choose "
                    "another column or table"
                )
            self._asked(lambda: self._database.drop_table(self._name))
            self._rows_in = self._name
        elif kept.get(STATE) == "table" or address.part is None:
            raise GramianError(
                f"{self.address}: the table exists; choose another name, or force=True (--force) "
                "to replace one that Gramian wrote; or name a new column as TABLE#COLUMN"
            )
        else:
            self._rows_in = self._staging
            self._open_column(table, kept, self._staging in there, like, force=force)

    def _open_column(
        self, table: Any, kept: Stamp, staged: bool, like: VectorSource | None, *, force: bool
    ) -> None:
        exists = self._column in table.schema.names
        if exists and kept.get(STATE) is None and not staged:
            raise GramianError(
                f"{self.address}: the column exists and was not written by Gramian; choose "
                "another name"
            )
        if exists and kept.get(STATE) == "column":
            if not force:
                raise GramianError(
                    f"{self.address}: the column exists; choose another name, or force=True "
                    "(--force) to replace it"
                )
            self._asked(lambda: table.drop_columns([self._column]))
        if self._key not in table.schema.names:
            raise GramianError(
                f"{self.address}: the table has no column {self._key!r} of ids to join a new "
                f"column by; it has {', '.join(table.schema.names)}"
            )
        rows = self._asked(table.count_rows)
        if like is not None and like.count is not None and like.count != rows:
            raise GramianError(
                f"{self.address}: the table has {rows} rows and {like.address} {like.count}; a "
                "new column needs one vector for every row"
            )
        self._beside = table
        if staged:
            held = self._asked(lambda: self._database.open_table(self._staging))
            self._go_on(held, self._kept(held), force=force)

    def _go_on(self, table: Any, kept: Stamp, *, force: bool) -> None:
        if {k: v for k, v in kept.items() if k != STATE} == self._purpose:
            self._table, self.done = table, self._asked(table.count_rows)
        elif force:
            self._asked(lambda: self._database.drop_table(self._rows_in))
        else:
            raise GramianError(
                f"{self.address} exists and holds part of another result; choose another name, or "
                "force=True (--force) to begin anew"
            )

    def _asked(self, call: Any) -> Any:
        return asked(self.address, call, ERRORS)

    def _kept(self, table: Any) -> Stamp:
        if self._column not in table.schema.names:
            return {}
        return stamp_of(table.schema.field(self._column).metadata)

    def write(self, batch: VectorBatch) -> None:
        """Append rows, all or none."""
        import pyarrow as pa

        check_next(self.address, batch, self.done, self.dim)
        flat = pa.array(np.ascontiguousarray(batch.vectors, dtype=self.dtype).reshape(-1))
        vectors = pa.FixedSizeListArray.from_arrays(flat, self.dim)
        if self._beside is not None:
            if self.done == 0:
                self._know(batch)
            self._add({self._key: self._ids(batch), self._column: vectors}, "partial column")
        else:
            columns = {"id": pa.array(batch.ids, pa.string())}
            if batch.texts is not None:
                columns["text"] = pa.array(batch.texts, pa.string())
            self._add({**columns, self._column: vectors}, "partial table")
        self.done += len(batch)

    def _ids(self, batch: VectorBatch) -> Any:
        """Ids as the table holds them."""
        import pyarrow as pa

        kind = self._beside.schema.field(self._key).type
        try:
            return pa.array(batch.ids, pa.string()).cast(kind)
        except pa.ArrowInvalid as error:
            raise GramianError(
                f"{self.address}: ids like {batch.ids[0]!r} are none of the table, whose column "
                f"{self._key!r} holds {kind}"
            ) from error

    def _know(self, batch: VectorBatch) -> None:
        """Refuse a table that knows nothing of these rows, before all of them are written."""
        import pyarrow as pa

        numbers = pa.types.is_integer(self._beside.schema.field(self._key).type)
        some = batch.ids[:500]
        where = among(self._key, some, numbers=numbers)
        found = self._asked(lambda: self._beside.count_rows(where))
        if found != len(some):
            raise GramianError(
                f"{self.address}: the table has {found} rows of the first {len(some)} ids; a new "
                "column needs the ids of the table's own rows"
            )

    def _add(self, columns: dict[str, Any], state: str) -> None:
        import pyarrow as pa

        rows = pa.table(columns)
        if self._table is None:
            marked = stamped({**self._purpose, STATE: state})
            place = rows.schema.get_field_index(self._column)
            schema = rows.schema.set(place, rows.schema.field(place).with_metadata(marked))
            self._table = self._asked(
                lambda: self._database.create_table(self._rows_in, rows.cast(schema))
            )
            return
        names = self._table.schema.names
        if "text" in columns and "text" not in names:
            self._asked(lambda: self._table.add_columns(pa.field("text", pa.string())))
        elif "text" in names and "text" not in columns:
            rows = rows.append_column("text", pa.nulls(len(rows), pa.string()))
        rows = rows.select(self._table.schema.names)
        self._asked(lambda: self._table.add(rows))

    def finish(self, stamp: Stamp) -> None:
        """Complete the table, or join the column to its table, and stamp it."""
        if self._table is None:
            raise GramianError(f"{self.address}: there are no rows to write")
        if self._beside is None:
            self._stamp(self._table, {**stamp, STATE: "table"})
            return
        self._join()
        self._stamp(self._beside, {**stamp, STATE: "column"})
        self._asked(lambda: self._database.drop_table(self._staging))

    def _join(self) -> None:
        import pyarrow as pa

        table, staged = self._beside, self._table
        rows = self._asked(table.count_rows)
        if rows != self.done:
            raise GramianError(
                f"{self.address}: the table has {rows} rows, {self.done} are written; a new "
                "column needs one vector for every row"
            )
        if self._column not in table.schema.names:
            kind = staged.schema.field(self._column).type
            self._asked(lambda: table.add_columns(pa.field(self._column, kind)))
            self._stamp(table, {**self._purpose, STATE: "partial column"})
        size = max(1, MERGED // (self.dim * self.dtype.itemsize))
        for first in range(0, self.done, size):
            query = staged.search().select([self._key, self._column]).offset(first).limit(size)
            part = self._asked(query.to_arrow)
            into = table.merge_insert(self._key).when_matched_update_all()
            self._asked(lambda into=into, part=part: into.execute(part))
        empty = self._asked(lambda: table.count_rows(f"`{self._column}` IS NULL"))
        if empty:
            raise GramianError(
                f"{self.address}: {empty} rows of the table have an id that no written vector has"
            )

    def _stamp(self, table: Any, stamp: Stamp) -> None:
        said = {"path": self._column, "metadata": stamped(stamp), "replace": True}
        self._asked(lambda: table.update_field_metadata(said))


def _in_table(address: Address, source: VectorSource) -> bool:
    try:
        return same_table(address, Address.parse(source.address))
    except GramianError:
        return False
