"""Addresses of vectors: which file or store, and which part of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

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
        GramianError : no file of a known kind and no known store, or a port that is no number.
        """
        place, _, part = text.partition("#")
        scheme, colon, rest = place.partition(":")
        if "://" in place:
            try:
                _ = urlsplit(place.removeprefix(f"{scheme}:") if scheme == "qdrant" else place).port
            except ValueError as error:
                raise GramianError(f"address {text!r} has no such port: {error}") from error
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


def same_place(one: Address, other: Address) -> bool:
    """Whether two addresses lead to the same vectors, however they are spelled.

    Columns of one table are different places; named vectors of one collection are not, since a
    collection is only ever written as a whole. A store may be known by more names than this tells.
    """
    if one.kind != other.kind or _where(one) != _where(other):
        return False
    if one.kind in ("lancedb", "postgresql"):
        return (one.part or "vector") == (other.part or "vector")
    return True


def same_table(one: Address, other: Address) -> bool:
    """Whether two addresses lead to one table, whatever the column."""
    return one.kind == other.kind and _where(one) == _where(other)


def _where(address: Address) -> tuple[str, ...]:
    if "://" not in address.place:
        return (str(address.path.resolve()),)
    url = urlsplit(address.place)
    asked = dict(parse_qsl(url.query))
    host = (url.hostname or asked.get("host") or "").lower()
    host = "localhost" if host in ("127.0.0.1", "::1", "") else host
    port = url.port or asked.get("port") or {"qdrant": 6333, "postgresql": 5432}.get(address.kind)
    return (host, str(port), url.path.strip("/"))
