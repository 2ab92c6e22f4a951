"""Vectors in columns of Arrow tables: Parquet files, and whatever hands out record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gramian.bridge.vectors.address import Address
from gramian.bridge.vectors.ids import as_ids, distinct
from gramian.bridge.vectors.protocol import Floats, Stamp, VectorBatch, take_by_scan
from gramian.errors import GramianError

if TYPE_CHECKING:
    import pyarrow as pa

DTYPES = {"float": "float32", "double": "float64", "halffloat": "float16"}
"""Arrow's names of floats, and NumPy's."""
PREFIX = "gramian."
"""Of the keys of a stamp among other metadata."""


class ColumnSource:
    """A list column of a ``.parquet`` file, read one row group after another.

    Raises
    ------
    GramianError : no such file or column, a column that is no list of floats, or (while reading)
        a vector of another width or with a missing number.
    """

    def __init__(
        self, address: Address, *, id_field: str, vector_field: str | None, text_field: str | None
    ) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.address = address.text
        if not address.path.is_file():
            raise GramianError(f"no file {address.place}; expected a Parquet file of vectors")
        try:
            self._file = pq.ParquetFile(address.path)
        except (pa.ArrowInvalid, OSError) as error:
            raise GramianError(f"{self.address} is no Parquet file: {error}") from error
        schema = self._file.schema_arrow
        wanted = address.part or vector_field
        self._fields = named(schema, self.address, id_field, wanted, text_field)
        self.count: int | None = self._file.metadata.num_rows
        self.dtype = DTYPES[str(schema.field(self._fields.vector).type.value_type)]
        if not self.count:
            raise GramianError(f"{self.address} holds no rows")
        self.dim = 0
        self.dim = next(self.batches(1)).vectors.shape[1]

    @cached_property
    def stamp(self) -> Stamp:
        """What the schema says."""
        return stamp_of(self._file.schema_arrow.metadata)

    def batches(self, size: int = 4096, start: int = 0) -> Iterator[VectorBatch]:
        """All rows from one on; whole row groups before it are not read."""
        if self._fields.id is None:
            return self._read(size, start)
        return distinct(self._read, self.address, size, start)

    def _read(self, size: int, start: int) -> Iterator[VectorBatch]:
        first, groups = 0, self._file.metadata
        skipped = 0
        while skipped < groups.num_row_groups:
            rows = groups.row_group(skipped).num_rows
            if first + rows > start:
                break
            first, skipped = first + rows, skipped + 1
        left = range(skipped, groups.num_row_groups)
        if not len(left):
            return
        columns = [name for name in self._fields if name is not None]
        for record in self._file.iter_batches(size, row_groups=list(left), columns=columns):
            stop = first + record.num_rows
            if stop > start:
                cut = max(0, start - first)
                yield batch_of(
                    record.slice(cut), self._fields, first + cut, self.address, self.dim or None
                )
            first = stop

    def take(self, ids: Sequence[str]) -> VectorBatch:
        """The rows of these ids, from one pass."""
        return take_by_scan(self, ids)


class Fields(NamedTuple):
    """Names of the columns of ids (None: row numbers), vectors and texts."""

    id: str | None
    vector: str
    text: str | None


def named(schema: pa.Schema, where: str, id: str, vector: str | None, text: str | None) -> Fields:
    """The columns that are there: ids and texts if they are, the vectors by name or as the one
    column of lists of floats.

    Raises
    ------
    GramianError : a named column is missing or of another type, or several could be meant.
    """
    import pyarrow as pa

    def is_vector(kind: pa.DataType) -> bool:
        lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
        return any(check(kind) for check in lists) and pa.types.is_floating(kind.value_type)

    columns = [field.name for field in schema if is_vector(field.type)]
    if vector is None:
        vector = "vector" if "vector" in columns else columns[0] if len(columns) == 1 else None
    if vector is None or vector not in columns:
        raise GramianError(
            f"{where}: columns of vectors are {', '.join(columns) or 'none'}; name one behind #"
        )
    if text is not None and text not in schema.names:
        raise GramianError(f"{where} has no column {text!r}; it has {', '.join(schema.names)}")
    if text is None and "text" in schema.names:
        text = "text"
    return Fields(id if id in schema.names else None, vector, text)


def batch_of(
    record: pa.RecordBatch, fields: Fields, first: int, where: str, dim: int | None
) -> VectorBatch:
    """Rows of a record batch.

    Raises
    ------
    GramianError : a vector is missing or of another width; names the row.
    """
    rows = range(first, first + record.num_rows)
    ids = (
        [str(row) for row in rows]
        if fields.id is None
        else as_ids(record.column(fields.id).to_pylist(), where, first)
    )
    vectors = matrix(record.column(fields.vector), f"{where}, from row {first}", dim)
    texts = None if fields.text is None else record.column(fields.text).to_pylist()
    if texts is not None and any(not isinstance(text, str) for text in texts):
        texts = None
    return VectorBatch(ids, vectors, texts, first)


def matrix(column: Any, where: str, dim: int | None) -> Floats:
    """A list column as (n, d) float32.

    Raises
    ------
    GramianError : a missing vector or number, or vectors of unequal widths.
    """
    import pyarrow as pa

    if column.null_count:
        raise GramianError(f"{where}: {column.null_count} vectors are missing")
    if pa.types.is_fixed_size_list(column.type):
        width = column.type.list_size
    else:
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        width = dim or int(lengths[0])
        if (lengths != width).any():
            row = int((lengths != width).argmax())
            raise GramianError(
                f"{where}: vector {row} behind it has {lengths[row]} numbers, expected {width}"
            )
    values = column.flatten()
    if values.null_count:
        raise GramianError(f"{where}: a vector with a missing number")
    if dim is not None and width != dim:
        raise GramianError(f"{where}: vectors of {width} numbers, expected {dim}")
    flat = values.to_numpy(zero_copy_only=False)
    return np.asarray(flat, dtype=np.float32).reshape(-1, width)


def stamp_of(metadata: Any) -> Stamp:
    """The stamp among the metadata of a schema or field."""
    found = {}
    for key, value in (metadata or {}).items():
        name, text = (x.decode() if isinstance(x, bytes) else str(x) for x in (key, value))
        if name.startswith(PREFIX):
            found[name.removeprefix(PREFIX)] = text
    return found


def stamped(stamp: Stamp) -> dict[str, str]:
    """A stamp as metadata of a schema or field."""
    return {f"{PREFIX}{name}": text for name, text in stamp.items()}
