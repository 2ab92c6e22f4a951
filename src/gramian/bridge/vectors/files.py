"""New files of vectors, written in part under another name until they are complete."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from gramian.bridge.vectors.address import Address
from gramian.bridge.vectors.columns import stamped
from gramian.bridge.vectors.protocol import Limits, Stamp, VectorBatch
from gramian.errors import GramianError, refuse_existing

DTYPES = ("float32", "float16")


class FileSink:
    """What the sinks of all kinds of files share: a part that is appended to, and its journal.

    The rows lie in ``OUT.partial/``; ``plan.json`` there says what they are to become, so that
    another run goes on only with the same. A batch counts when its line is in ``journal``; what a
    killed run wrote beyond that is cut off.

    Raises
    ------
    GramianError : the file exists, or a partial result of something else lies there.
    """

    limits = Limits("a file", None, DTYPES)

    def __init__(
        self, address: Address, dim: int, dtype: str, purpose: Stamp, *, force: bool
    ) -> None:
        if dtype not in DTYPES:
            raise GramianError(f"dtype is {dtype!r}, expected one of {', '.join(DTYPES)}")
        self.address, self.path = address.text, refuse_existing(address.path, force=force)
        self.dim, self.dtype = dim, np.dtype(dtype)
        self.folder = self.path.with_name(f"{self.path.name}.partial")
        plan = {"dim": dim, "dtype": dtype, "kind": address.kind, "purpose": dict(purpose)}
        self._begin(plan, force=force)
        self._journal = self.folder / "journal"
        self.done = self._recover()

    def _begin(self, plan: dict[str, Any], *, force: bool) -> None:
        path = self.folder / "plan.json"
        self.folder.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            if json.loads(path.read_text("utf-8")) == plan:
                return
            if not force:
                raise GramianError(
                    f"{self.folder} holds part of another result; give --force to begin anew, or "
                    "another name"
                )
            remove(self.folder)
            self.folder.mkdir()
        replace(path, json.dumps(plan).encode())

    def _recover(self) -> int:
        """Rows that are safely there, after cutting off what is not."""
        raw = self._journal.read_bytes() if self._journal.is_file() else b""
        whole = raw[: raw.rfind(b"\n") + 1]
        if whole != raw:
            os.truncate(self._journal, len(whole))
        lines = whole.split()
        return self._cut(int(lines[-1]) if lines else 0)

    def write(self, batch: VectorBatch) -> None:
        """Append rows."""
        if batch.start != self.done:
            raise GramianError(
                f"{self.address}: rows from {batch.start} on, expected from {self.done} on"
            )
        if batch.vectors.shape[1:] != (self.dim,):
            raise GramianError(
                f"{self.address}: vectors of shape {batch.vectors.shape}, expected (n, {self.dim})"
            )
        self._append(batch)
        self.done += len(batch)
        with self._journal.open("a") as journal:
            journal.write(f"{self.done}\n")

    def finish(self, stamp: Stamp) -> None:
        """Complete the file and give it its name."""
        self._complete(stamp)
        remove(self.folder)

    def _cut(self, rows: int) -> int:
        raise NotImplementedError

    def _append(self, batch: VectorBatch) -> None:
        raise NotImplementedError

    def _complete(self, stamp: Stamp) -> None:
        raise NotImplementedError

    def _beside(self, stamp: Stamp) -> None:
        """The stamp in a small file of its own."""
        text = json.dumps(dict(stamp), indent=2).encode()
        replace(self.path.with_name(f"{self.path.name}.json"), text)


class ArraySink(FileSink):
    """A ``.npy`` file with ``x.ids.txt`` and ``x.npy.json`` beside."""

    HEADER = 128

    def _cut(self, rows: int) -> int:
        self._rows, self._ids = self.folder / "rows", self.folder / "ids"
        size = self.HEADER + rows * self.dim * self.dtype.itemsize
        with self._rows.open("ab"):
            pass
        os.truncate(self._rows, size)
        lines = self._ids.read_bytes().splitlines(keepends=True) if self._ids.is_file() else []
        self._ids.write_bytes(b"".join(lines[:rows]))
        return rows

    def _append(self, batch: VectorBatch) -> None:
        with self._rows.open("ab") as rows:
            rows.write(np.ascontiguousarray(batch.vectors, dtype=self.dtype).data)
        if any("\n" in id or "\r" in id for id in batch.ids):
            raise GramianError(f"{self.address}: an id with a line break; write .parquet instead")
        with self._ids.open("a", encoding="utf-8") as ids:
            ids.writelines(f"{id}\n" for id in batch.ids)

    def _complete(self, stamp: Stamp) -> None:
        shape = (self.done, self.dim)
        header = f"{{'descr': '{self.dtype.str}', 'fortran_order': False, 'shape': {shape}, }}"
        text = header.ljust(self.HEADER - 11).encode() + b"\n"
        with self._rows.open("r+b") as rows:
            rows.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
        os.replace(self._ids, self.path.with_suffix(".ids.txt"))
        self._beside(stamp)
        os.replace(self._rows, self.path)


class LineSink(FileSink):
    """A ``.jsonl`` file of ids, vectors and texts, with ``x.jsonl.json`` beside."""

    def _cut(self, rows: int) -> int:
        self._lines = self.folder / "lines"
        size = 0
        with self._lines.open("a+b") as lines:
            lines.seek(0)
            for _ in range(rows):
                size += len(lines.readline())
        os.truncate(self._lines, size)
        return rows

    def _append(self, batch: VectorBatch) -> None:
        with self._lines.open("a", encoding="utf-8") as lines:
            for row, (id, vector) in enumerate(zip(batch.ids, batch.vectors, strict=True)):
                record: dict[str, Any] = {"id": id}
                if batch.texts is not None:
                    record["text"] = batch.texts[row]
                record["vector"] = vector.astype(self.dtype).tolist()
                lines.write(json.dumps(record, ensure_ascii=False) + "\n")

    def _complete(self, stamp: Stamp) -> None:
        self._beside(stamp)
        os.replace(self._lines, self.path)


class ColumnSink(FileSink):
    """A ``.parquet`` file, collected from one part for every batch; the stamp is in its schema."""

    def _cut(self, rows: int) -> int:
        import pyarrow.parquet as pq

        self._parts: list[Path] = []
        there = 0
        for path in sorted(self.folder.glob("part-*.parquet")):
            if there < rows:
                there += pq.ParquetFile(path).metadata.num_rows
                self._parts.append(path)
            else:
                path.unlink()
        if there != rows:
            raise GramianError(
                f"{self.folder} holds {there} rows and its journal says {rows}; give --force to "
                "begin anew"
            )
        return rows

    def _append(self, batch: VectorBatch) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        flat = pa.array(np.ascontiguousarray(batch.vectors, dtype=self.dtype).reshape(-1))
        columns = {"id": pa.array(batch.ids)}
        if batch.texts is not None:
            columns["text"] = pa.array(batch.texts)
        columns["vector"] = pa.FixedSizeListArray.from_arrays(flat, self.dim)
        path = self.folder / f"part-{self.done:012}.parquet"
        pq.write_table(pa.table(columns), path)
        self._parts.append(path)

    def _complete(self, stamp: Stamp) -> None:
        import pyarrow.parquet as pq

        if not self._parts:
            raise GramianError(f"{self.address}: there are no rows to write")
        schema = pq.ParquetFile(self._parts[0]).schema_arrow.with_metadata(stamped(stamp))
        whole = self.folder / "whole"
        with pq.ParquetWriter(whole, schema) as writer:
            for path in self._parts:
                writer.write_table(pq.read_table(path).cast(schema))
        os.replace(whole, self.path)


def replace(path: Path, data: bytes) -> None:
    """Write a small file, whole or not at all."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def remove(folder: Path) -> None:
    """Remove a folder of files."""
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
