"""Vectors in LanceDB tables, embedded in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gramian.bridge.vectors.address import Address
from gramian.bridge.vectors.asking import asked
from gramian.bridge.vectors.columns import DTYPES, batch_of, named, stamp_of
from gramian.bridge.vectors.ids import distinct
from gramian.bridge.vectors.protocol import Floats, Stamp, VectorBatch, gathered
from gramian.errors import GramianError

T = TypeVar("T")
STATE = "state"
"""Key of what a run of Gramian has made of a column so far; no part of its stamp."""
ERRORS = (RuntimeError, OSError, ValueError)
"""What the client raises."""


def connect(place: str, *, new: bool = False) -> Any:
    """A database.

    new : a folder that is not there may be made.

    Raises
    ------
    GramianError : the package or the folder is missing, or the store is away.
    """
    try:
        import lancedb
    except ImportError as error:
        raise GramianError("LanceDB needs its package: pip install 'gramian[bridge]'") from error
    if "://" not in place:
        place = str(Path(place).expanduser())
        if not new and not Path(place).is_dir():
            raise GramianError(f"lancedb:{place}: there is no such folder")
    return asked(f"lancedb:{place}", lambda: lancedb.connect(place), ERRORS)


def tables(database: Any) -> list[str]:
    """Names of all tables."""
    found: list[str] = []
    page = None
    while True:
        answer = database.list_tables(page_token=page)
        found += answer.tables
        page = answer.page_token
        if not page:
            return found


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
        database = connect(folder)
        there = self._asked(lambda: tables(database))
        if name not in there:
            raise GramianError(
                f"{self.address}: no table {name!r} in {folder}, which has "
                f"{', '.join(there) or 'none'}"
            )
        self._table = self._asked(lambda: database.open_table(name))
        schema = self._table.schema
        wanted = address.part or vector_field
        self._fields = named(schema, self.address, id_field, wanted, text_field)
        self.id_field, self.column = self._fields.id, self._fields.vector
        self.count: int | None = self._asked(self._table.count_rows)
        if not self.count:
            raise GramianError(f"{self.address} holds no rows")
        field = schema.field(self.column)
        self.dtype = DTYPES[str(field.type.value_type)]
        self.stamp: Stamp = {k: v for k, v in stamp_of(field.metadata).items() if k != STATE}
        self.dim = 0
        self.dim = next(self.batches(1)).vectors.shape[1]

    def _asked(self, call: Any) -> Any:
        return asked(self.address, call, ERRORS)

    @property
    def metric(self) -> str:
        """That of the index of the column: ``cosine`` (also without an index), ``l2``, ``dot``."""

        def find() -> str:
            for index in self._table.list_indices():
                if list(index.columns) == [self.column]:
                    about = self._table.index_stats(index.name)
                    return str(getattr(about, "distance_type", None) or "cosine")
            return "cosine"

        return str(self._asked(find))

    def batches(self, size: int = 4096, start: int = 0) -> Iterator[VectorBatch]:
        """All rows from one on, in the order of the table."""
        if self.id_field is None:
            return self._read(size, start)
        return distinct(self._read, self.address, size, start)

    def _read(self, size: int, start: int) -> Iterator[VectorBatch]:
        columns = [name for name in self._fields if name is not None]
        query = self._table.search().select(columns).offset(start).limit(self.count)
        records = self._asked(lambda: iter(query.to_batches(size)))
        first = start
        while (record := self._asked(lambda: next(records, None))) is not None:
            for cut in range(0, record.num_rows, size):
                piece = record.slice(cut, size)
                yield batch_of(piece, self._fields, first, self.address, self.dim or None)
                first += piece.num_rows

    def take(self, ids: Sequence[str]) -> VectorBatch:
        """The rows of these ids."""
        key = self._fields.id
        if key is None:
            raise GramianError(f"{self.address} has no column of ids; name it with --id-field")
        import pyarrow as pa

        numbers = pa.types.is_integer(self._table.schema.field(key).type)
        found: dict[str, tuple[Floats, str | None]] = {}
        columns = [name for name in self._fields if name is not None]
        for first in range(0, len(ids), 500):
            where = among(key, ids[first : first + 500], numbers=numbers)
            # without a limit a query would end after ten rows
            query = self._table.search().where(where).select(columns).limit(self.count)
            for batch in self._asked(query.to_arrow).to_batches():
                rows = batch_of(batch, self._fields, 0, self.address, self.dim)
                texts: Sequence[str | None] = rows.texts or [None] * len(rows)
                found |= {
                    id: (vector, said)
                    for id, vector, said in zip(rows.ids, rows.vectors, texts, strict=True)
                }
        return gathered(self, ids, found)

    def search(self, queries: Any, k: int) -> tuple[list[list[str]], Floats]:
        """The ``k`` nearest rows by the metric of the column's index.

        A score is the cosine, the product, or the negative squared distance.
        """
        key = self._fields.id
        if key is None:
            raise GramianError(f"{self.address} has no column of ids; name it with --id-field")
        metric = self.metric
        ids, scores = [], []
        for query in np.asarray(queries, dtype=np.float32):
            search = self._table.search(query, vector_column_name=self.column)
            asking = search.distance_type(metric).select([key, "_distance"]).limit(k)
            found = self._asked(asking.to_arrow)
            ids.append([str(id) for id in found[key].to_pylist()])
            distance = found["_distance"].to_numpy()
            scores.append(-distance if metric == "l2" else 1.0 - distance)
        return ids, np.asarray(scores, dtype=np.float32)


def among(column: str, ids: Sequence[str], *, numbers: bool) -> str:
    """A filter for rows of these ids.

    Raises
    ------
    GramianError : an id that is no integer, where the column holds integers.
    """
    if not numbers:
        literals = ["'" + id.replace("'", "''") + "'" for id in ids]
    else:
        try:
            literals = [str(int(id)) for id in ids]
        except ValueError as error:
            raise GramianError(
                f"ids like {ids[0]!r} are not all integers, and the column {column!r} holds "
                "integers"
            ) from error
    return f"`{column}` IN ({', '.join(literals)})"
