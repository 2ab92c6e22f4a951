"""Addresses of vectors: which file or store, and which part of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gramian.errors import GramianError

SUFFIXES = (".npy", ".npz", ".parquet", ".jsonl", ".faiss")
STORES = ("lancedb", "qdrant", "faiss", "postgresql", "postgres")
EXPECTED = (
    "expected x.npy, x.npz#name, x.parquet#column, x.jsonl#field, lancedb:FOLDER/TABLE#column, "
    "qdrant:FOLDER_OR_URL/COLLECTION#vector, faiss:FILE or postgresql://…/db#table.column"
)


@dataclass(frozen=True)
class Address:
    """An address taken apart."""

    text: str
    kind: str
    """``npy``, ``npz``, ``parquet``, ``jsonl``, or a store."""
    place: str
    """A path, a URL, or a folder."""
    part: str | None = None
    """What stands behind ``#``: a column, a field, a named vector."""

    @property
    def path(self) -> Path:
        """The place as a path."""
        return Path(self.place).expanduser()

    @property
    def table(self) -> tuple[str, str]:
        """``FOLDER/TABLE`` as folder (or URL) and name.

        Raises
        ------
        GramianError : there is no name.
        """
        before, slash, name = self.place.rpartition("/")
        if not slash or not before or not name:
            raise GramianError(f"address {self.text!r} names no table; {EXPECTED}")
        return before, name

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read an address.

        Raises
        ------
        GramianError : neither a file of a known kind nor a known store.
        """
        place, _, part = text.partition("#")
        scheme, colon, rest = place.partition(":")
        if colon and scheme in STORES:
            if scheme in ("postgresql", "postgres"):
                return cls(text, "postgresql", place, part or None)
            if not rest:
                raise GramianError(f"address {text!r} names no place; {EXPECTED}")
            return cls(text, scheme, rest, part or None)
        suffix = Path(place).suffix.lower()
        if suffix not in SUFFIXES:
            raise GramianError(f"{text!r} is no address of vectors; {EXPECTED}")
        return cls(text, suffix.removeprefix("."), place, part or None)
