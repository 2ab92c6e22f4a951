"""Rows of vectors from whatever holds them, as one checked array."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gramian.errors import GramianError

Array = NDArray[Any]

CHECKED = 65536
"""Rows that are looked at together for NaN and infinity."""


def as_matrix(
    rows: Any, name: str = "rows", *, width: int | None = None, finite: bool = True
) -> Array:
    """Rows as an (n, d) array of float16, float32 or float64; nothing is copied that need not be.

    rows : a NumPy array or memory map (returned as it is), a torch tensor (bfloat16 becomes
    float32), a pandas or polars frame or a column of vectors, an Arrow table or array of
    (fixed-size) lists, or nested lists. Integers and objects become float64.
    width : the expected d. finite : look for NaN and infinity, a pass over the rows.

    Raises
    ------
    GramianError : not two axes, another width, no numbers, complex numbers or nulls, or NaN or
        infinity (the row is named).
    """
    array = _array(rows, name)
    if array.ndim != 2:
        raise GramianError(
            f"{name} have {array.ndim} axes, shape {array.shape}; expected (n, d), one vector a "
            "row. Reshape your data: .reshape(1, -1) if it is a single vector"
        )
    if array.dtype.kind == "c":
        raise GramianError(f"{name} are {array.dtype}; complex vectors cannot be used")
    if array.dtype not in (np.float16, np.float32, np.float64):
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise GramianError(f"{name} are not numbers ({array.dtype}): {error}") from error
    if width is not None and array.shape[1] != width:
        raise GramianError(
            f"{name} are {array.shape[1]} wide, expected {width}; these are vectors of another "
            "model, or of the other side of the bridge"
        )
    if finite:
        check_finite(array, name)
    return array


def check_finite(array: Array, name: str = "rows", start: int = 0) -> None:
    """Raise with the first row that holds NaN or infinity; ``start`` is the number of row 0."""
    for first in range(0, len(array), CHECKED):
        block = array[first : first + CHECKED]
        good = np.isfinite(block).all(axis=1)
        if not good.all():
            row = start + first + int(np.flatnonzero(~good)[0])
            raise GramianError(
                f"{name}: row {row} holds NaN or infinity; leave it out or embed it again"
            )


def _array(rows: Any, name: str) -> Array:
    if isinstance(rows, np.ndarray):
        return rows if rows.dtype != object or rows.ndim != 1 else _stacked(rows, name)
    if isinstance(rows, torch.Tensor):
        rows = rows.detach().cpu()
        plain: Array = (rows.float() if rows.dtype == torch.bfloat16 else rows).numpy()
        return plain
    package = type(rows).__module__.partition(".")[0]
    if package == "pyarrow":
        return _arrow(rows, name)
    if package == "polars" and hasattr(rows, "to_arrow"):
        return _arrow(rows.to_arrow(), name)
    if hasattr(rows, "toarray") and hasattr(rows, "nnz"):
        raise GramianError(f"{name} are a sparse matrix; pass dense rows: .toarray()")
    if package == "pandas":
        values = rows.to_numpy()
        if values.dtype == object and (values.ndim == 1 or values.shape[1] == 1):
            return _stacked(values.reshape(-1), name)
        return np.asarray(values)
    try:
        return np.asarray(rows)
    except ValueError as error:
        raise GramianError(f"{name}: vectors of different lengths ({error})") from error


def _stacked(values: Array, name: str) -> Array:
    """One vector in every element, of one length."""
    if not len(values) or not all(np.ndim(value) == 1 for value in values):
        return values
    widths = {len(value) for value in values}
    if len(widths) > 1:
        raise GramianError(
            f"{name}: vectors of different lengths, {min(widths)} to {max(widths)}; a column of "
            "vectors needs one length"
        )
    return np.stack([np.asarray(value) for value in values])


def _arrow(rows: Any, name: str) -> Array:
    """An Arrow table, record batch, chunked array or array."""
    if hasattr(rows, "column_names") or hasattr(rows, "num_columns"):
        columns = rows.columns
        if len(columns) == 1 and _is_list(columns[0].type):
            return _arrow(columns[0], name)
        if any(_is_list(column.type) for column in columns):
            raise GramianError(
                f"{name}: a table of {len(columns)} columns with vectors among them; pass the "
                "column of vectors alone"
            )
        return np.stack([np.asarray(_plain(column, name)) for column in columns], axis=1)
    if hasattr(rows, "combine_chunks"):
        rows = rows.combine_chunks()
        if hasattr(rows, "num_chunks"):
            rows = rows.chunk(0) if rows.num_chunks else rows
    if not _is_list(rows.type):
        return np.asarray(_plain(rows, name))
    if rows.null_count:
        raise GramianError(f"{name}: {rows.null_count} vectors are null; leave them out")
    values = np.asarray(_plain(rows.flatten(), name))
    width = len(values) // len(rows) if len(rows) else 0
    lengths = np.asarray(rows.value_lengths())
    if len(rows) and not (lengths == width).all():
        raise GramianError(f"{name}: vectors of different lengths; expected one length")
    return values.reshape(len(rows), width)


def _plain(column: Any, name: str) -> Any:
    if column.null_count:
        raise GramianError(f"{name}: {column.null_count} values are null; leave them out")
    return (
        column.to_numpy(zero_copy_only=False) if hasattr(column, "buffers") else column.to_numpy()
    )


def _is_list(kind: Any) -> bool:
    return str(kind).startswith(("list", "fixed_size_list", "large_list"))
