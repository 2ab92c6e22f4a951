"""Where a writer puts its parts: a working folder that becomes the target, or memory."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from torch import Tensor

from gramian.errors import GramianError, refuse_existing
from gramian.moments.fields import Fields, parse_json
from gramian.moments.format import CHECKSUM, INDEX, Index, write_index
from gramian.moments.part import KINDS, Part, check_layout
from gramian.moments.parts import FolderParts, MemoryParts, Parts
from gramian.moments.recipe import Recipe
from gramian.moments.tensorfile import (
    file_sha256,
    json_bytes,
    read_header,
    sync_folder,
    write_bytes,
    write_tensors,
)

WORK = "work.json"
"""What a working folder is for: the recipe and the storage."""
_HEADER_KEY = "gramian"


class Store(Protocol):
    """A place for parts that are being written."""

    def put(self, part: Part, tensors: Mapping[str, Tensor]) -> tuple[int, str]:
        """Store one part; its size in bytes and its SHA-256."""

    def held(self, part: Part) -> Mapping[str, Tensor]:
        """The tensors of a part that has been put, to be put again with more; never changed."""

    def finish(self, index: Index) -> Parts:
        """Complete the set; nothing can be put afterwards."""

    def discard(self) -> None:
        """Remove what has been put."""


class MemoryStore:
    """Keeps every tensor in memory, as it is given: moments are values that nobody changes."""

    def __init__(self) -> None:
        self._tensors: dict[str, dict[str, Tensor]] = {}

    def put(self, part: Part, tensors: Mapping[str, Tensor]) -> tuple[int, str]:
        self._tensors[part.file] = {name: t.detach().cpu() for name, t in tensors.items()}
        return sum(spec.nbytes for spec in part.tensors.values()), "0" * 64

    def held(self, part: Part) -> Mapping[str, Tensor]:
        return self._tensors[part.file]

    def finish(self, index: Index) -> Parts:
        return MemoryParts(self._tensors)

    def discard(self) -> None:
        self._tensors = {}


class FolderStore:
    """A working folder beside the target, renamed to it when complete.

    Args:
        target: the final folder.
        work: the working folder; None makes one of its own beside the target.
        keep: leave the working folder, with its finished parts, when the work is cut short.
        force: whether a set that exists may be replaced (after the new one is complete).

    Raises:
        GramianError: the target exists, or the folder cannot be made.
    """

    def __init__(self, target: Path, work: Path | None, keep: bool, force: bool) -> None:
        self.target, self._force, self._keep = target, force, keep
        self._check_target()
        self.work = work or target.with_name(f"{target.name}.writing-{os.getpid()}")
        try:
            if work is None and self.work.exists():
                shutil.rmtree(self.work)  # of a dead process that had the same number
            self.work.mkdir(parents=True, exist_ok=work is not None)
        except OSError as error:
            raise GramianError(f"cannot make the folder {self.work}: {error}") from error

    def _check_target(self) -> None:
        refuse_existing(self.target, force=self._force)
        if not os.path.lexists(self.target):
            return
        if not (self.target / INDEX).is_file() or self.target.is_symlink():
            raise GramianError(
                f"{self.target} exists and is not a moments folder; it is not replaced, even "
                "with force"
            )

    def adopt(self, recipe: Recipe, storage: str) -> list[Part]:
        """Claim the working folder for this recipe; the parts that it already holds.

        Raises:
            GramianError: the folder is at work on something else, or a part in it is damaged.
        """
        path = self.work / WORK
        mine = json_bytes({"storage": storage, "recipe": recipe.to_json()})
        if not path.exists():
            write_bytes(path, mine)
        elif path.read_bytes() != mine:
            top = Fields(parse_json(path.read_bytes(), str(path)), str(path))
            theirs = Recipe.from_json(top.value("recipe"), str(path))
            unequal = theirs.difference(recipe)
            if top.text("storage") != storage:
                unequal.append(f"storage: {top.text('storage')!r} against {storage!r}")
            raise GramianError(
                f"{self.work} is at work on something else: {'; '.join(unequal)}; finish that, "
                "or delete the folder"
            )
        for leftover in self.work.glob("*.tmp"):
            leftover.unlink()
        files = sorted(f for kind in KINDS for f in self.work.glob(f"{kind}*.safetensors"))
        return [self._read_part(file) for file in files]

    def _read_part(self, file: Path) -> Part:
        stored, texts = read_header(file)
        tensors = dict(sorted(stored.items()))
        where = str(file)
        description = parse_json(texts.get(_HEADER_KEY, "null").encode(), where)
        entry = Fields(description, where)
        size, sha256 = file.stat().st_size, file_sha256(file)
        part = Part.described(entry, file=file.name, tensors=tensors, bytes=size, sha256=sha256)
        entry.close()
        check_layout(part, where)
        return part

    def put(self, part: Part, tensors: Mapping[str, Tensor]) -> tuple[int, str]:
        header = {_HEADER_KEY: json_bytes(part.description()).decode()}
        try:
            return write_tensors(self.work / part.file, tensors, header)
        except OSError as error:
            raise GramianError(f"cannot write {self.work / part.file}: {error}") from error

    def held(self, part: Part) -> Mapping[str, Tensor]:
        files = FolderParts(self.work, lazy_hash=False)
        return {name: files.tensor(part, name) for name in part.tensors}

    def finish(self, index: Index) -> Parts:
        self._check_target()
        old = self.target.with_name(f"{self.target.name}.replaced-{os.getpid()}")
        replaces = self.target.exists()
        try:
            write_index(self.work, index)
            if replaces:
                os.rename(self.target, old)
            try:
                os.rename(self.work, self.target)
            except OSError:
                if replaces:
                    os.rename(old, self.target)
                raise
        except OSError as error:
            raise GramianError(
                f"cannot complete {self.target} from {self.work}: {error}"
            ) from error
        sync_folder(self.target.parent)
        if replaces:
            shutil.rmtree(old, ignore_errors=True)
        # Only now: a process killed before the rename finds its work as it left it.
        keep = {part.file for part in index.parts} | {INDEX, CHECKSUM}
        for file in (self.target / WORK, *self.target.glob("state*")):
            if file.is_file() and file.name not in keep:
                file.unlink()
        return FolderParts(self.target)

    def discard(self) -> None:
        if not self._keep:
            with contextlib.suppress(OSError):
                shutil.rmtree(self.work)
