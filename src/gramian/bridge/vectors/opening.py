"""Vectors by address: which class reads or writes them."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

from gramian.bridge.vectors.address import Address, same_place
from gramian.bridge.vectors.protocol import Limits, Stamp, VectorSink, VectorSource
from gramian.errors import GramianError

_SOURCES = {
    "npy": ("arrays", "ArraySource"),
    "npz": ("arrays", "ArraySource"),
    "parquet": ("columns", "ColumnSource"),
    "jsonl": ("lines", "LineSource"),
    "lancedb": ("lancedb_store", "LanceSource"),
    "faiss": ("faiss_store", "FaissSource"),
    "qdrant": ("qdrant_store", "QdrantSource"),
    "postgresql": ("postgres_store", "PostgresSource"),
}
_SINKS = {
    "npy": ("files", "ArraySink"),
    "parquet": ("files", "ColumnSink"),
    "jsonl": ("files", "LineSink"),
    "lancedb": ("lancedb_sink", "LanceSink"),
    "faiss": ("faiss_store", "FaissSink"),
    "qdrant": ("qdrant_sink", "QdrantSink"),
    "postgresql": ("postgres_sink", "PostgresSink"),
}
_NAMELESS = ("npy", "npz", "faiss")
"""Kinds whose rows have no named fields."""
_STORES = ("lancedb", "qdrant", "postgresql")
"""Kinds that may hold a result beside its source."""


def open_vectors(
    address: str,
    *,
    id_field: str = "id",
    vector_field: str | None = None,
    text_field: str | None = None,
) -> VectorSource:
    """Open vectors for reading: a file or a store.

    Parameters
    ----------
    address : ``x.npy``, ``x.npz#name``, ``x.parquet#column``, ``x.jsonl#field``,
        ``lancedb:FOLDER/TABLE#column``, ``faiss:FILE``, ``qdrant:FOLDER_OR_URL/COLLECTION#vector``
        or ``postgresql://…/db#table.column``.
    id_field, vector_field, text_field : names, where they are not ``id``, the one column of
        vectors, and ``text``.

    Raises
    ------
    GramianError : no such place or field, a store that is away, content that is no vectors.
    """
    found = Address.parse(address)
    module, name = _SOURCES[found.kind]
    fields: dict[str, Any] = {}
    if found.kind not in _NAMELESS:
        fields = {"id_field": id_field, "vector_field": vector_field, "text_field": text_field}
    elif text_field is not None:
        raise GramianError(f"{address} holds no texts; --text-field {text_field} reads nothing")
    source: VectorSource = _class(module, name)(found, **fields)
    return source


def open_sink(
    address: str,
    *,
    dim: int,
    dtype: str = "float32",
    purpose: Stamp | None = None,
    like: VectorSource | None = None,
    force: bool = False,
) -> VectorSink:
    """Open a new place for vectors, or one that an earlier run left in part.

    Parameters
    ----------
    address : as for `open_vectors`, but for ``.npz``. A table of LanceDB or PostgreSQL that is
        there gets a new column when the address names one that it has not; its rows are found by
        id.
    dim, dtype : of the vectors to come; ``float32`` or ``float16``.
    purpose : what the result will be (which bridge, which source): only a run of the same purpose
        goes on with a part.
    like : the source that the rows come from, which is never written to.
    force : replace a file, or a table, column or collection that Gramian wrote; never another.

    Raises
    ------
    GramianError : the place exists, holds part of something else, is the source itself, cannot
        hold vectors of this width or dtype, or cannot be written at all.
    """
    sink_limits(address, dim=dim, dtype=dtype, like=like)
    found = Address.parse(address)
    kind = _class(*_SINKS[found.kind])
    beside = {"like": like} if found.kind in _STORES else {}
    sink: VectorSink = kind(found, dim, dtype, dict(purpose or {}), force=force, **beside)
    return sink


def sink_limits(
    address: str, *, dim: int, dtype: str = "float32", like: VectorSource | None = None
) -> Limits:
    """What a place can hold, after checking that these vectors are among it; opens nothing.

    Raises
    ------
    GramianError : the place is the source itself, or cannot hold vectors of this width or dtype.
    """
    found = Address.parse(address)
    if found.kind not in _SINKS:
        raise GramianError(f"{address}: a .{found.kind} file cannot be streamed to; write .npy")
    if like is not None and is_address(like.address):
        source = Address.parse(like.address)
        source = replace(source, part=getattr(like, "column", source.part))
        if not same_place(found, source):
            like = None
    else:
        like = None
    if like is not None:
        raise GramianError(
            f"{address} is the source of the vectors, which is never written to; choose another "
            "file, table or column"
        )
    limits: Limits = _class(*_SINKS[found.kind]).limits
    limits.check(dim)
    if dtype not in limits.dtypes:
        raise GramianError(f"{limits.what} holds {' or '.join(limits.dtypes)}, not {dtype}")
    return limits


def is_address(text: str) -> bool:
    """Whether a text is an address of vectors."""
    try:
        Address.parse(text)
    except GramianError:
        return False
    return True


def _class(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"gramian.bridge.vectors.{module}"), name)
