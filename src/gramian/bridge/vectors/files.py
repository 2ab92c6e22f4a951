"""New files of vectors: NumPy, JSON lines and Parquet."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from gramian.bridge.vectors.columns import stamped
from gramian.bridge.vectors.partial import FileSink, cut_lines
from gramian.bridge.vectors.protocol import Stamp, VectorBatch
from gramian.errors import GramianError


class ArraySink(FileSink):
    """A ``.npy`` file with ``x.ids.txt`` and ``x.npy.json`` beside."""

    HEADER = 128
    content = "rows"

    def _cut(self, rows: int) -> int:
        self._rows, self._ids = self.folder / "rows", self.folder / "ids"
        size = self.HEADER + rows * self.dim * self.dtype.itemsize
        with self._rows.open("ab") as file:
            if rows and file.tell() < size:
                raise self._short(rows)
        os.truncate(self._rows, size)
        if cut_lines(self._ids, rows) < rows:
            raise self._short(rows)
        return rows

    def _check(self, batch: VectorBatch) -> None:
        super()._check(batch)
        if any("\n" in id or "\r" in id for id in batch.ids):
            raise GramianError(f"{self.address}: an id with a line break; write .parquet instead")

    def _append(self, batch: VectorBatch) -> None:
        with self._rows.open("ab") as rows:
            rows.write(np.ascontiguousarray(batch.vectors, dtype=self.dtype).data)
        with self._ids.open("a", encoding="utf-8") as ids:
            ids.writelines(f"{id}\n" for id in batch.ids)

    def _complete(self, stamp: Stamp) -> None:
        shape = (self.done, self.dim)
        header = f"{{'descr': '{self.dtype.str}', 'fortran_order': False, 'shape': {shape}, }}"
        text = header.ljust(self.HEADER - 11).encode() + b"\n"
        with self._rows.open("r+b") as rows:
            rows.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
        # Whenever a run is killed here, the vectors are there with their own ids or not at all, and
        # the part still holds all that another run needs.
        self.path.unlink(missing_ok=True)
        ids = self.path.with_suffix(".ids.txt")
        copy = ids.with_name(f".{ids.name}.new")
        shutil.copyfile(self._ids, copy)
        os.replace(copy, ids)
        self._beside(stamp)
        os.replace(self._rows, self.path)


class LineSink(FileSink):
    """A ``.jsonl`` file of ids, vectors and texts, with ``x.jsonl.json`` beside."""

    content = "lines"

    def _cut(self, rows: int) -> int:
        self._lines = self.folder / "lines"
        if cut_lines(self._lines, rows) < rows:
            raise self._short(rows)
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
            raise self._short(rows)
        return rows

    def _append(self, batch: VectorBatch) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        flat = pa.array(np.ascontiguousarray(batch.vectors, dtype=self.dtype).reshape(-1))
        columns = {"id": pa.array(batch.ids, pa.string())}
        if batch.texts is not None:
            columns["text"] = pa.array(batch.texts, pa.string())
        columns["vector"] = pa.FixedSizeListArray.from_arrays(flat, self.dim)
        path = self.folder / f"part-{self.done:012}.parquet"
        pq.write_table(pa.table(columns), path)
        self._parts.append(path)

    def _complete(self, stamp: Stamp) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not self._parts:
            raise GramianError(f"{self.address}: there are no rows to write")
        # batches without texts may come among others
        schemas = [pq.ParquetFile(path).schema_arrow for path in self._parts]
        widest = max(schemas, key=lambda schema: len(schema.names))
        schema = widest.with_metadata(stamped(stamp))
        whole = self.folder / "whole"
        with pq.ParquetWriter(whole, schema) as writer:
            for path in self._parts:
                part = pq.ParquetFile(path).read()
                columns = [
                    part[field.name]
                    if field.name in part.column_names
                    else pa.nulls(len(part), field.type)
                    for field in schema
                ]
                writer.write_table(pa.Table.from_arrays(columns, schema=schema))
        os.replace(whole, self.path)
