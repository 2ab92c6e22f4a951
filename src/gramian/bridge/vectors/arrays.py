"""Vectors in NumPy files, mapped into memory, with their ids in a text file beside."""

from __future__ import annotations

import json
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gramian.bridge.vectors.address import Address
from gramian.bridge.vectors.ids import as_ids, check_unique
from gramian.bridge.vectors.protocol import Stamp, VectorBatch, gathered
from gramian.errors import GramianError


class ArraySource:
    """The rows of a ``.npy`` file, or of one array of a ``.npz`` file.

    Ids are the lines of ``x.ids.txt`` (or the array ``ids`` in the ``.npz``), else row numbers;
    what is known of the vectors lies in ``x.npy.json``.

    Raises
    ------
    GramianError : no such file or array, pickled objects, no (n, d) floats, or not one id per row.
    """

    def __init__(self, address: Address) -> None:
        self.address = address.text
        self._path = address.path
        self._arrays: Any = None
        if not self._path.is_file():
            raise GramianError(f"no file {address.place}; expected a NumPy file of vectors")
        self._rows = self._open(address)
        if self._rows.ndim != 2 or not np.issubdtype(self._rows.dtype, np.floating):
            raise GramianError(
                f"{self.address}: {self._rows.dtype} of shape {self._rows.shape}, expected "
                "floating point vectors (n, d)"
            )
        self.count: int | None = len(self._rows)
        self.dim = self._rows.shape[1]
        self.dtype = self._rows.dtype.name
        if not self.count or not self.dim:
            raise GramianError(f"{self.address} holds no vectors: shape {self._rows.shape}")

    def _open(self, address: Address) -> Any:
        try:
            if address.kind == "npy":
                with np.errstate(over="ignore"):  # a hostile shape overflows, and is refused then
                    return np.load(self._path, mmap_mode="r", allow_pickle=False)
            self._arrays = np.load(self._path, allow_pickle=False)
            names = [name for name in self._arrays.files if name != "ids"]
            name = address.part or (names[0] if len(names) == 1 else None)
            if name not in names:
                raise GramianError(
                    f"{self.address}: the arrays are {', '.join(names) or 'none'}; name one as "
                    f"{address.place}#NAME"
                )
            found = self._arrays[name]
            if not isinstance(found, np.ndarray):
                raise ValueError(f"{name} is no array")
            return found
        except (
            ValueError,
            TypeError,
            OverflowError,
            OSError,
            EOFError,
            MemoryError,
            SyntaxError,
            tokenize.TokenError,
            zipfile.BadZipFile,
            zlib.error,
            KeyError,
        ) as error:
            if isinstance(error, GramianError):
                raise
            raise GramianError(
                f"{self.address} cannot be read: {error}; expected an array of floats saved by "
                "numpy.save, without pickled objects"
            ) from error

    @cached_property
    def ids(self) -> list[str] | None:
        """One id for every row; None where rows have none but their number."""
        beside = self._path.with_suffix(".ids.txt")
        try:
            if self._arrays is not None and "ids" in self._arrays.files:
                listed = np.asarray(self._arrays["ids"]).reshape(-1).tolist()
                found = as_ids(listed, f"ids of {self.address}")
            elif beside.is_file():
                lines = beside.read_text("utf-8").removesuffix("\n").split("\n")
                found = as_ids(lines, str(beside))
            else:
                return None
        except (ValueError, OSError, zipfile.BadZipFile, zlib.error) as error:
            if isinstance(error, GramianError):
                raise
            raise GramianError(
                f"ids of {self.address} cannot be read: {error}; expected texts or integers, "
                "without pickled objects"
            ) from error
        if len(found) != self.count:
            raise GramianError(f"{self.address}: {len(found)} ids for {self.count} vectors")
        check_unique(found, f"ids of {self.address}")
        return found

    @cached_property
    def stamp(self) -> Stamp:
        """What ``x.npy.json`` says."""
        beside = Path(f"{self._path}.json")
        return read_stamp(beside) if beside.is_file() else {}

    @cached_property
    def _places(self) -> dict[str, int]:
        return {id: place for place, id in enumerate(self.ids or ())}

    def batches(self, size: int = 4096, start: int = 0) -> Iterator[VectorBatch]:
        """All rows from one on."""
        for first in range(start, len(self._rows), size):
            rows = np.asarray(self._rows[first : first + size], dtype=np.float32)
            stop = first + len(rows)
            ids = [str(i) for i in range(first, stop)] if self.ids is None else self.ids[first:stop]
            yield VectorBatch(ids, rows, None, first)

    def take(self, ids: Sequence[str]) -> VectorBatch:
        """The rows of these ids."""
        found = {}
        for id in ids:
            place = self._place(id)
            if place is not None:
                found[id] = (np.asarray(self._rows[place], dtype=np.float32), None)
        return gathered(self, ids, found)

    def _place(self, id: str) -> int | None:
        if self.ids is not None:
            return self._places.get(id)
        row = int(id) if id.isascii() and id.isdigit() else -1
        return row if 0 <= row < len(self._rows) and str(row) == id else None


def read_stamp(path: Path) -> Stamp:
    """A small JSON file of texts.

    Raises
    ------
    GramianError : it is something else.
    """
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise GramianError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
        raise GramianError(f"{path} is no stamp of vectors: expected a JSON object of texts")
    return found
