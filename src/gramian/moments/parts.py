"""Where the tensors of a moments set lie: in a folder of files, or in memory."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from safetensors import SafetensorError, safe_open
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments.part import Part
from gramian.moments.place import like
from gramian.moments.tensorfile import file_sha256, read_header


class Parts(Protocol):
    """What a :class:`MomentSet` needs of the place where its tensors lie."""

    path: Path | None

    def tensor(self, part: Part, name: str) -> Tensor:
        """One tensor of one part."""

    def verify(self, part: Part) -> None:
        """Check the part's hash; raises GramianError when it has changed."""

    def is_verified(self, part: Part) -> bool:
        """Whether the part's hash has been checked."""


class MemoryParts:
    """Tensors in memory: a set collected without an output folder."""

    path: Path | None = None

    def __init__(self, tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
        self._tensors = tensors

    def tensor(self, part: Part, name: str) -> Tensor:
        """A copy, so that a reader cannot change the set."""
        return self._tensors[part.file][name].clone()

    def verify(self, part: Part) -> None:
        """Nothing to check: the tensors never left this process."""

    def is_verified(self, part: Part) -> bool:
        """Always."""
        return True


class FolderParts:
    """Files of a folder, opened lazily: a part's header and hash are checked on its first read.

    Args:
        path: the folder.
        lazy_hash: whether the first read of a part checks its SHA-256 too.
    """

    def __init__(self, path: Path, lazy_hash: bool = True) -> None:
        self.path: Path | None = path
        self._folder = path
        self._lazy_hash = lazy_hash
        self._seen: set[str] = set()
        self._verified: set[str] = set()

    def locate(self, part: Part) -> Path:
        """The part's file, after checking that it is one: inside the folder, of the right size.

        Raises:
            GramianError: missing, outside the folder, not a regular file, or of another size.
        """
        path = self._folder / part.file
        try:
            if not path.resolve(strict=True).is_relative_to(self._folder.resolve()):
                raise GramianError(f"{path}: a link that leaves the folder; not followed")
            found = path.stat()
        except (OSError, RuntimeError) as error:
            raise GramianError(
                f"{path}: cannot be read ({error}); the folder is incomplete, restore the file "
                "or collect again"
            ) from error
        if not stat.S_ISREG(found.st_mode):
            raise GramianError(f"{path}: not a regular file")
        if found.st_size != part.bytes:
            raise GramianError(
                f"{path}: truncated or changed: {found.st_size} bytes, the index says "
                f"{part.bytes}; restore the file or collect again"
            )
        return path

    def tensor(self, part: Part, name: str) -> Tensor:
        """One tensor; only its bytes are read (and, the first time, those that are checked)."""
        path = self.locate(part)
        if self._lazy_hash and part.file not in self._verified:
            self.verify(part)
        elif part.file not in self._seen:
            self._check_header(part, path)
        try:
            with safe_open(path, framework="pt") as file:
                stored: Tensor = file.get_tensor(name)
                tensor = like(stored).copy_(stored)
        except (SafetensorError, OSError) as error:
            raise GramianError(f"{path}: cannot be read: {error}") from error
        return tensor

    def verify(self, part: Part) -> None:
        """Check the part's size, SHA-256 and header."""
        path = self.locate(part)
        self._check_header(part, path)
        if file_sha256(path) != part.sha256:
            raise GramianError(
                f"{path}: changed since it was written: its SHA-256 is not the index's; restore "
                "the file or collect again"
            )
        self._verified.add(part.file)

    def is_verified(self, part: Part) -> bool:
        """Whether the part's hash has been checked since the folder was opened."""
        return part.file in self._verified

    def _check_header(self, part: Part, path: Path) -> None:
        stored, _ = read_header(path)
        if stored != dict(part.tensors):
            names = sorted(set(stored) | set(part.tensors))
            name = next(name for name in names if stored.get(name) != part.tensors.get(name))
            raise GramianError(
                f"{path}: {name!r} is {stored.get(name)} in the file and "
                f"{part.tensors.get(name)} in the index"
            )
        self._seen.add(part.file)
