"""Results that lie in part under another name until they are complete."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from gramian.bridge.vectors.address import Address
from gramian.bridge.vectors.protocol import Limits, Stamp, VectorBatch, check_next
from gramian.errors import GramianError, refuse_existing

DTYPES = ("float32", "float16")
PLAN = "plan.json"


class FileSink(ABC):
    """What the sinks of all kinds of files share: a part that is appended to, and its journal.

    The rows lie in ``OUT.partial/``; ``plan.json`` there says what they are to become, so that
    another run goes on only with the same. A batch counts when its line is in ``journal``; what a
    killed run wrote beyond that is cut off.

    Raises
    ------
    GramianError : the file exists, a partial result of something else lies there, or what lies
        there holds less than its journal says.
    """

    limits = Limits("a file", None, DTYPES)
    content: str | None = None
    """The file of the part that becomes the result, where that is one file."""

    def __init__(
        self, address: Address, dim: int, dtype: str, purpose: Stamp, *, force: bool
    ) -> None:
        if dtype not in DTYPES:
            raise GramianError(f"dtype is {dtype!r}, expected one of {', '.join(DTYPES)}")
        self.address, self.path = address.text, refuse_existing(address.path, force=force)
        self.dim, self.dtype = dim, np.dtype(dtype)
        self.folder = self.path.with_name(f"{self.path.name}.partial")
        plan = {"dim": dim, "dtype": dtype, "kind": address.kind, "purpose": dict(purpose)}
        self._torn = False
        self._begin(plan, force=force)
        self._journal = self.folder / "journal"
        self.done = self._recover()

    def _begin(self, plan: dict[str, Any], *, force: bool) -> None:
        path = self.folder / PLAN
        self.folder.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            if _read(path) == plan:
                return
            if not force:
                raise GramianError(
                    f"{self.folder} holds part of another result; give --force to begin anew, or "
                    "another name"
                )
            remove(self.folder)
            self.folder.mkdir()
        elif any(not found.name.startswith(f".{PLAN}") for found in self.folder.iterdir()):
            raise GramianError(
                f"{self.folder} holds files that are no part of a result; move them away, or "
                "choose another name"
            )
        replace(path, json.dumps(plan).encode())

    def _recover(self) -> int:
        """Rows that are safely there, after cutting off what is not."""
        raw = self._journal.read_bytes() if self._journal.is_file() else b""
        whole = raw[: raw.rfind(b"\n") + 1]
        if whole != raw:
            os.truncate(self._journal, len(whole))
        lines = whole.split()
        rows = int(lines[-1]) if lines and lines[-1].isdigit() else 0
        if self.content is not None and not (self.folder / self.content).exists():
            rows = 0  # a run was killed after the content had got its name
            self._journal.unlink(missing_ok=True)
        return self._cut(rows)

    def _short(self, rows: int) -> GramianError:
        return GramianError(
            f"{self.folder} holds less than the {rows} rows that its journal says; remove it to "
            "begin anew"
        )

    def write(self, batch: VectorBatch) -> None:
        """Append rows."""
        self._check(batch)
        self._torn = True
        self._append(batch)
        self._torn = False
        self.done += len(batch)
        with self._journal.open("a") as journal:
            journal.write(f"{self.done}\n")

    def finish(self, stamp: Stamp) -> None:
        """Complete the file and give it its name."""
        self._complete(stamp)
        remove(self.folder)

    @abstractmethod
    def _cut(self, rows: int) -> int:
        """Cut the content after some rows; how many there are then."""

    def _check(self, batch: VectorBatch) -> None:
        """Refuse what this kind of file cannot hold, before anything is written."""
        check_next(self.address, batch, self.done, self.dim)
        if self._torn:
            raise GramianError(f"{self.address}: a batch was torn; open the place again to go on")

    @abstractmethod
    def _append(self, batch: VectorBatch) -> None:
        """Add rows to the content."""

    @abstractmethod
    def _complete(self, stamp: Stamp) -> None:
        """Give the content its name."""

    def _beside(self, stamp: Stamp) -> None:
        """The stamp in a small file of its own."""
        text = json.dumps(dict(stamp), indent=2).encode()
        replace(self.path.with_name(f"{self.path.name}.json"), text)


def replace(path: Path, data: bytes) -> None:
    """Write a small file, whole or not at all."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def remove(folder: Path) -> None:
    """Remove the folder of a part.

    First its journal, then its content, its plan last: what a kill leaves is an empty part.
    """
    order = {"journal": 0, PLAN: 2}
    for path in sorted(folder.iterdir(), key=lambda path: order.get(path.name, 1)):
        path.unlink()
    folder.rmdir()


def cut_lines(path: Path, rows: int) -> int:
    """Cut a file after some whole lines; how many there are."""
    found = size = 0
    with path.open("a+b") as lines:
        lines.seek(0)
        while found < rows and (line := lines.readline()).endswith(b"\n"):
            found, size = found + 1, size + len(line)
    os.truncate(path, size)
    return found


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError:
        return None
