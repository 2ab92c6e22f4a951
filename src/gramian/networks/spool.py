"""Rows on disk: for every site one file with the rows of all batches, one after another."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gramian.errors import GramianError

SPARE = 1 << 28
"""Bytes of a disk that are left to others."""


class Spool:
    """Rows of several names in one folder, written and read batch by batch.

    A batch has its place in every file, so writing it again changes nothing.

    folder : made when it does not exist. rows : number of rows in every batch. columns : name to
    width. dtypes : name to dtype, where it is not ``dtype``.

    Raises
    ------
    GramianError : the disk has too little room for all of it.
    """

    def __init__(
        self,
        folder: Path,
        rows: Sequence[int],
        columns: Mapping[str, int],
        dtype: torch.dtype,
        dtypes: Mapping[str, torch.dtype] | None = None,
    ) -> None:
        self.folder = folder
        self.columns = dict(columns)
        self._dtypes = {name: (dtypes or {}).get(name, dtype) for name in columns}
        self._files = {name: folder / f"{index}.rows" for index, name in enumerate(columns)}
        self._starts = np.concatenate([[0], np.cumsum(np.asarray(rows, dtype=np.int64))])
        folder.mkdir(parents=True, exist_ok=True)
        there = sum(file.stat().st_blocks * 512 for file in self._files.values() if file.exists())
        room(folder, self.nbytes - there, "rows between the layers")

    @property
    def nbytes(self) -> int:
        """Bytes of all files when they are full."""
        return sum(int(self._starts[-1]) * self._row(name) for name in self.columns)

    def _row(self, name: str) -> int:
        return self.columns[name] * self._dtypes[name].itemsize

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def write(self, name: str, batch: int, rows: Tensor) -> None:
        """Keep the rows of one batch, of shape (..., width).

        Raises
        ------
        GramianError : they do not fill the batch's place, or the disk is full.
        """
        start, stop = (int(n) for n in self._starts[batch : batch + 2])
        flat = rows.detach().reshape(-1, rows.shape[-1]).to("cpu", self._dtypes[name]).contiguous()
        if tuple(flat.shape) != (stop - start, self.columns[name]):
            raise GramianError(
                f"batch {batch} of {name}: rows of shape {tuple(flat.shape)}, expected "
                f"({stop - start}, {self.columns[name]})"
            )
        try:
            with open(self._files[name], "r+b" if self._files[name].exists() else "w+b") as file:
                file.seek(start * self._row(name))
                file.write(flat.view(torch.uint8).numpy().data)
        except OSError as error:
            raise GramianError(
                f"cannot keep rows in {self.folder}: {error.strerror or error}; give another "
                "scratch folder, or a larger memory budget"
            ) from error

    def read(self, name: str, batch: int) -> Tensor:
        """The rows (n, width) of one batch."""
        start, stop = (int(n) * self._row(name) for n in self._starts[batch : batch + 2])
        file = self._files[name]
        if not file.is_file() or file.stat().st_size < stop:
            raise GramianError(
                f"the rows of {name} in {self.folder} are gone or cut short; "
                "force=True (--force) starts over"
            )
        flat = np.fromfile(file, dtype=np.uint8, count=stop - start, offset=start)
        return torch.from_numpy(flat).view(self._dtypes[name]).view(-1, self.columns[name])

    def drop(self, name: str) -> None:
        """Remove the rows of one name."""
        with contextlib.suppress(FileNotFoundError):
            self._files[name].unlink()

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def free_bytes(folder: Path) -> int:
    """Bytes that may be written to the disk of a folder (which need not exist yet)."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    return max(0, shutil.disk_usage(place).free - SPARE)


def room(folder: Path, size: int, what: str) -> None:
    """Check that a disk has room.

    Raises
    ------
    GramianError : it has not; says how much is needed and how much is free.
    """
    free = free_bytes(folder)
    if size > free:
        raise GramianError(
            f"{what} need {size:,} bytes on the disk of {folder}, which has {free:,} to spare; "
            "give another scratch folder, a larger memory budget, or fewer tokens"
        )
