"""Vectors in FAISS index files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.vectors.address import Address
from gramian.bridge.vectors.arrays import read_stamp
from gramian.bridge.vectors.partial import FileSink
from gramian.bridge.vectors.protocol import Floats, Limits, Stamp, VectorBatch, gathered
from gramian.errors import GramianError


def library() -> Any:
    """The faiss module.

    Raises
    ------
    GramianError : the package is missing.
    """
    try:
        import faiss
    except ImportError as error:
        raise GramianError("FAISS needs its package: pip install 'gramian[faiss]'") from error
    return faiss


class FaissSource:
    """The vectors that an index holds, as it can give them back.

    Indexes that quantize (PQ, SQ) give back approximations; `lossy` tells. Ids are those of an
    ``IDMap``, else positions.

    Raises
    ------
    GramianError : no such file, no index, or one that cannot give its vectors back.
    """

    def __init__(self, address: Address) -> None:
        faiss = library()
        self.address = address.text
        self._path = address.path
        if not self._path.is_file():
            raise GramianError(f"no file {address.place}; expected a FAISS index")
        try:
            self._index = faiss.read_index(str(self._path))
        except RuntimeError as error:
            raise GramianError(
                f"{self.address} is no FAISS index: {str(error).splitlines()[0]}"
            ) from error
        self.count: int | None = int(self._index.ntotal)
        self.dim, self.dtype = int(self._index.d), "float32"
        inner_product = self._index.metric_type == faiss.METRIC_INNER_PRODUCT
        self.metric = "dot" if inner_product else "l2"
        if not self.count:
            raise GramianError(f"{self.address} holds no vectors")
        inner = faiss.downcast_index(self._index)
        self._ids = self._keys = None
        if hasattr(inner, "id_map"):
            self._ids = faiss.vector_to_array(inner.id_map).copy()
            inner = faiss.downcast_index(inner.index)
        if hasattr(inner, "invlists"):
            self._keys = _listed(faiss, inner)
            inner.set_direct_map_type(faiss.DirectMap.Hashtable)
            if self._ids is None:
                self._ids = self._keys
        self._inner = inner
        self.lossy = "Flat" not in type(inner).__name__
        """Whether vectors come back as approximations."""
        try:
            self._rows(0, 1)
        except RuntimeError as error:
            raise GramianError(
                f"{self.address}: a {type(inner).__name__} does not give its vectors back; keep "
                "the vectors beside it as .npy"
            ) from error

    @cached_property
    def stamp(self) -> Stamp:
        """What ``x.faiss.json`` says."""
        beside = self._path.with_name(f"{self._path.name}.json")
        return read_stamp(beside) if beside.is_file() else {}

    @cached_property
    def _places(self) -> dict[str, int]:
        return {id: place for place, id in enumerate(self._names(0, self.count or 0))}

    def _names(self, first: int, stop: int) -> list[str]:
        if self._ids is None:
            return [str(place) for place in range(first, stop)]
        return [str(id) for id in self._ids[first:stop].tolist()]

    def _rows(self, first: int, stop: int) -> Floats:
        if self._keys is None:
            found: Floats = self._inner.reconstruct_n(first, stop - first)
        else:
            found = self._inner.reconstruct_batch(self._keys[first:stop])
        return found

    def batches(self, size: int = 4096, start: int = 0) -> Iterator[VectorBatch]:
        """All vectors from one on, by position."""
        assert self.count is not None
        for first in range(start, self.count, size):
            stop = min(first + size, self.count)
            yield VectorBatch(self._names(first, stop), self._rows(first, stop), None, first)

    def take(self, ids: Sequence[str]) -> VectorBatch:
        """The vectors of these ids."""
        found: dict[str, tuple[Floats, str | None]] = {}
        for id in ids:
            place = self._places.get(id)
            if place is not None:
                found[id] = (self._rows(place, place + 1)[0], None)
        return gathered(self, ids, found)

    def search(self, queries: Any, k: int) -> tuple[list[list[str]], Floats]:
        """The ``k`` nearest in the index's own metric; a distance is given negative."""
        rows = np.ascontiguousarray(queries, dtype=np.float32)
        scores, places = self._index.search(rows, k)
        found = [[str(id) for id in row if id >= 0] for row in places.tolist()]
        return found, scores if self.metric == "dot" else -scores


class FaissSink(FileSink):
    """A flat index by inner product, with the ids (which must be integers) that rows have."""

    limits = Limits("a FAISS index", None, ("float32",), ("ids must be integers, 0 or more",))
    content = "rows"

    def __init__(
        self, address: Address, dim: int, dtype: str, purpose: Stamp, *, force: bool
    ) -> None:
        library()
        super().__init__(address, dim, dtype, purpose, force=force)

    def _cut(self, rows: int) -> int:
        self._rows, self._ids = self.folder / "rows", self.folder / "ids"
        for path, width in ((self._rows, 4 * self.dim), (self._ids, 8)):
            with path.open("ab") as file:
                if rows and file.tell() < rows * width:
                    raise self._short(rows)
            os.truncate(path, rows * width)
        return rows

    def _check(self, batch: VectorBatch) -> None:
        super()._check(batch)
        if len(batch) and (numbers := self._numbers(batch)).min() < 0:
            raise GramianError(
                f"{self.address}: id {numbers.min()} is negative, which FAISS keeps for misses; "
                "write .npy or .parquet instead"
            )

    def _numbers(self, batch: VectorBatch) -> NDArray[np.int64]:
        try:
            return np.asarray([int(id) for id in batch.ids], dtype=np.int64)
        except (ValueError, OverflowError) as error:
            raise GramianError(
                f"{self.address}: FAISS takes integers as ids, and the ids are like "
                f"{batch.ids[0]!r}; write .npy or .parquet instead"
            ) from error

    def _append(self, batch: VectorBatch) -> None:
        with self._rows.open("ab") as rows:
            rows.write(np.ascontiguousarray(batch.vectors, dtype=np.float32).data)
        with self._ids.open("ab") as file:
            file.write(self._numbers(batch).tobytes())

    def _complete(self, stamp: Stamp) -> None:
        faiss = library()
        if not self.done:
            raise GramianError(f"{self.address}: there are no rows to write")
        index = faiss.IndexIDMap2(faiss.IndexFlatIP(self.dim))
        rows = np.memmap(self._rows, np.float32, "r", shape=(self.done, self.dim))
        ids = np.fromfile(self._ids, dtype=np.int64)
        if len(np.unique(ids)) < len(ids):
            raise GramianError(f"{self.address}: ids come twice; an index needs one for every row")
        for first in range(0, self.done, 65536):
            part = slice(first, first + 65536)
            index.add_with_ids(np.ascontiguousarray(rows[part]), ids[part])
        del rows
        whole = self.folder / "whole"
        faiss.write_index(index, str(whole))
        self._beside(stamp)
        os.replace(whole, self.path)


def _listed(faiss: Any, index: Any) -> NDArray[np.int64]:
    """Ids of an inverted file, rising."""
    lists = index.invlists
    found = [
        faiss.rev_swig_ptr(lists.get_ids(number), lists.list_size(number)).copy()
        for number in range(lists.nlist)
        if lists.list_size(number)
    ]
    return np.sort(np.concatenate(found))
