"""Vectors in LanceDB tables, embedded in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gramian.bridge.vectors.address import Address
from gramian.bridge.vectors.columns import batch_of, named, stamp_of, stamped
from gramian.bridge.vectors.protocol import Floats, Limits, Stamp, VectorBatch, gathered
from gramian.errors import GramianError


def connect(place: str) -> Any:
    """A database.

    Raises
    ------
    GramianError : the package is missing.
    """
    try:
        import lancedb
    except ImportError as error:
        raise GramianError("LanceDB needs its package: pip install 'gramian[bridge]'") from error
    return lancedb.connect(place)


class LanceSource:
    """A vector column of a table.

    Raises
    ------
    GramianError : no such table or column, or a store that cannot be reached.
    """

    def __init__(
        self, address: Address, *, id_field: str, vector_field: str | None, text_field: str | None
    ) -> None:
        self.address = address.text
        folder, name = address.table
        tables = _tables(connect(folder))
        if name not in tables:
            raise GramianError(
                f"{self.address}: no table {name!r} in {folder}, which has "
                f"{', '.join(tables) or 'none'}"
            )
        self._table = connect(folder).open_table(name)
        schema = self._table.schema
        wanted = address.part or vector_field
        self._fields = named(schema, self.address, id_field, wanted, text_field)
        self.count: int | None = self._table.count_rows()
        if not self.count:
            raise GramianError(f"{self.address} holds no rows")
        kind = str(schema.field(self._fields.vector).type.value_type)
        self.dtype = {"float": "float32", "double": "float64", "halffloat": "float16"}[kind]
        self.stamp = stamp_of(schema.field(self._fields.vector).metadata)
        self.dim = 0
        self.dim = next(self.batches(1)).vectors.shape[1]

    def batches(self, size: int = 4096, start: int = 0) -> Iterator[VectorBatch]:
        """All rows from one on, in the order of the table."""
        columns = [name for name in self._fields if name is not None]
        found = self._table.search().select(columns).offset(start).limit(self.count)
        first = start
        for record in found.to_batches(size):
            for cut in range(0, record.num_rows, size):
                piece = record.slice(cut, size)
                yield batch_of(piece, self._fields, first, self.address, self.dim or None)
                first += piece.num_rows

    def take(self, ids: Sequence[str]) -> VectorBatch:
        """The rows of these ids."""
        if self._fields.id is None:
            raise GramianError(f"{self.address} has no column of ids; name it with --id-field")
        import pyarrow as pa

        text = pa.types.is_string(self._table.schema.field(self._fields.id).type)
        found: dict[str, tuple[Floats, str | None]] = {}
        columns = [name for name in self._fields if name is not None]
        for first in range(0, len(ids), 500):
            some = ids[first : first + 500]
            listed = ", ".join(_literal(id, text) for id in some)
            where = f"`{self._fields.id}` IN ({listed})"
            record = self._table.search().where(where).select(columns).limit(len(some)).to_arrow()
            for batch in record.to_batches():
                rows = batch_of(batch, self._fields, 0, self.address, self.dim)
                texts: Sequence[str | None] = rows.texts or [None] * len(rows)
                found |= {
                    id: (vector, said)
                    for id, vector, said in zip(rows.ids, rows.vectors, texts, strict=True)
                }
        return gathered(self, ids, found)

    def search(self, queries: Any, k: int) -> tuple[list[list[str]], Floats]:
        """The ``k`` nearest rows by cosine, whatever index the table has."""
        ids, scores = [], []
        for query in np.asarray(queries, dtype=np.float32):
            search = self._table.search(query, vector_column_name=self._fields.vector)
            found = search.distance_type("cosine").limit(k).to_arrow()
            key = self._fields.id
            ids.append([str(id) for id in found[key].to_pylist()] if key else [])
            scores.append(1.0 - found["_distance"].to_numpy())
        return ids, np.asarray(scores, dtype=np.float32)


class LanceSink:
    """A new table of ids, texts and vectors; every batch is one transaction of the store.

    Raises
    ------
    GramianError : the table exists and holds another result, or is complete.
    """

    limits = Limits("a LanceDB table", None, ("float32", "float16"))

    def __init__(
        self, address: Address, dim: int, dtype: str, purpose: Stamp, *, force: bool
    ) -> None:
        self.address = address.text
        folder, self._name = address.table
        self._column = address.part or "vector"
        self._database = connect(folder)
        self.dim, self.dtype = dim, np.dtype(dtype)
        self._purpose = dict(purpose)
        self._table: Any = None
        self.done = 0
        if self._name in _tables(self._database):
            table = self._database.open_table(self._name)
            field = table.schema.field(self._column) if self._column in table.schema.names else None
            kept = stamp_of(None if field is None else field.metadata)
            going_on = kept.get("state") == "partial" and all(
                kept.get(key) == value for key, value in self._purpose.items()
            )
            if going_on:
                self._table, self.done = table, table.count_rows()
            elif force:
                self._database.drop_table(self._name)
            else:
                raise GramianError(
                    f"{self.address}: the table exists; choose another name, or force=True "
                    "(--force) to replace it"
                )

    def write(self, batch: VectorBatch) -> None:
        """Append rows."""
        import pyarrow as pa

        if batch.start != self.done:
            raise GramianError(
                f"{self.address}: rows from {batch.start} on, expected from {self.done} on"
            )
        flat = pa.array(np.ascontiguousarray(batch.vectors, dtype=self.dtype).reshape(-1))
        columns = {"id": pa.array(batch.ids)}
        if batch.texts is not None:
            columns["text"] = pa.array(batch.texts)
        columns[self._column] = pa.FixedSizeListArray.from_arrays(flat, self.dim)
        rows = pa.table(columns)
        if self._table is None:
            marked = stamped({**self._purpose, "state": "partial"})
            place = rows.schema.get_field_index(self._column)
            field = rows.schema.field(place).with_metadata(marked)
            self._table = self._database.create_table(
                self._name, rows.cast(rows.schema.set(place, field))
            )
        else:
            self._table.add(rows)
        self.done += len(batch)

    def finish(self, stamp: Stamp) -> None:
        """Mark the table as complete and stamp its column."""
        if self._table is None:
            raise GramianError(f"{self.address}: there are no rows to write")
        self._table.update_field_metadata(
            {"path": self._column, "metadata": stamped(stamp), "replace": True}
        )


def _literal(id: str, text: bool) -> str:
    """An id as it stands in a filter."""
    if text:
        return "'" + id.replace("'", "''") + "'"
    try:
        return str(int(id))
    except ValueError:
        raise GramianError(
            f"id {id!r} is no integer, and the column of ids holds integers"
        ) from None


def _tables(database: Any) -> list[str]:
    found = database.list_tables()
    return list(getattr(found, "tables", found))
