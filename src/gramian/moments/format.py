"""The index of a moments folder: what is in it, and the rules by which it is read.

docs/format.md states the same rules in words. A change of either raises the last of
:data:`VERSIONS`; a set is written in the first version that can state it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gramian.errors import GramianError
from gramian.moments.fields import Fields, parse_json
from gramian.moments.folds import FOLDS
from gramian.moments.part import Part
from gramian.moments.recipe import Recipe
from gramian.moments.shards import HeldShards
from gramian.moments.tensorfile import json_bytes, write_bytes

MAGIC = "gramian-moments"
VERSIONS = (1, 2, 3)
INDEX = "index.json"
CHECKSUM = "index.json.sha256"
INDEX_LIMIT = 1 << 28
"""Bytes of index.json; larger ones are refused before they are read."""
STORAGES = ("float64", "float32")
COUNTS = ("tokens", "rows", "sinks", "documents")


@dataclass(frozen=True)
class Index:
    """All that index.json says."""

    recipe: Recipe
    storage: str
    counts: Mapping[str, Mapping[str, int]]
    """Fold -> tokens, rows, sinks and documents."""
    documents: tuple[int, str]
    """How many, and a digest over all of them whatever their order."""
    parts: tuple[Part, ...]
    gramian: str = ""
    shards: HeldShards | None = None
    """Which shards of one collection these are; None for a set that is whole."""

    @property
    def folds(self) -> tuple[str, ...]:
        """The folds that hold anything, in the order train, select, report."""
        return tuple(fold for fold in FOLDS if fold in self.counts)

    @property
    def format(self) -> int:
        """The least version of the folder format that can state this index."""
        return self.recipe.format if self.shards is None else 3

    def to_bytes(self) -> bytes:
        """The file index.json."""
        dealt = {} if self.shards is None else {"shards": self.shards.to_json()}
        return json_bytes(
            {
                "magic": MAGIC,
                "format": self.format,
                "gramian": self.gramian or gramian_version(),
                "storage": self.storage,
                "recipe": self.recipe.to_json(),
                "folds": list(self.folds),
                "counts": {fold: dict(self.counts[fold]) for fold in self.folds},
                "documents": {"count": self.documents[0], "digest": self.documents[1]},
                **dealt,
                "parts": [part.to_json() for part in self.parts],
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Index:
        """Read :meth:`to_bytes`.

        Raises:
            GramianError: not this format, another version of it, or anything out of its rules.
        """
        top = Fields(parse_json(data, where), where)
        if "magic" not in top or top.text("magic") != MAGIC:
            raise GramianError(f"{where}: not the index of a moments folder (no magic {MAGIC!r})")
        number = top.integer("format")
        if number not in VERSIONS:
            advice = "upgrade gramian" if number > VERSIONS[-1] else "collect it again"
            raise GramianError(
                f"{where}: written by format {number}, this gramian reads "
                f"{', '.join(map(str, VERSIONS[:-1]))} and {VERSIONS[-1]}; {advice}"
            )
        by_fold, counts = top.fields("counts"), {}
        folds = top.texts("folds")
        if folds != tuple(fold for fold in FOLDS if fold in folds):
            raise GramianError(f"{where}: folds {list(folds)}, expected some of {list(FOLDS)}")
        for fold in folds:
            entry = by_fold.fields(fold)
            counts[fold] = {name: entry.integer(name) for name in COUNTS}
            entry.close()
        by_fold.close()
        documents = top.fields("documents")
        index = cls(
            recipe=Recipe.from_json(top.value("recipe"), f"{where}: recipe"),
            storage=top.text("storage", STORAGES),
            counts=counts,
            documents=(documents.integer("count"), documents.text("digest")),
            parts=tuple(
                Part.from_json(value, f"{where}: part {i}")
                for i, value in enumerate(top.items("parts"))
            ),
            gramian=top.text("gramian"),
            shards=HeldShards.read(top.fields("shards")) if "shards" in top else None,
        )
        documents.close()
        top.close()
        if index.format != number:
            raise GramianError(
                f"{where}: written by format {number}, but what it states is of format "
                f"{index.format} ('partner' of the recipe is what format 2 adds, 'shards' what "
                "format 3 does)"
            )
        index.check(where)
        return index

    def _check_storage(self, part: Part, where: str) -> None:
        """Full scatters and cross scatters must be stored as the index says."""
        other = "F32" if self.storage == "float64" else "F64"
        full = (".cross", ".scatter") if part.order == "full" else (".cross",)
        for name, spec in part.tensors.items():
            if name.endswith(full) and spec.dtype == other:
                raise GramianError(
                    f"{where}: {part.file} stores {name!r} as {spec.dtype}, but the index says "
                    f"storage {self.storage}"
                )

    def check(self, where: str) -> None:
        """Refuse an index whose parts contradict each other.

        Raises:
            GramianError: a part or file twice, a fold without counts, a pair without its source
                or of other dimensions than its sites.
        """
        sites: dict[str, Part] = {}
        for part in self.parts:
            if part.kind == "site":
                sites[part.names[0]] = part
        for what, seen in (
            ("file", [part.file.lower() for part in self.parts]),
            ("part", [part.title for part in self.parts]),
        ):
            name, times = next(iter(Counter(seen).most_common(1)), ("", 1))
            if times > 1:
                raise GramianError(f"{where}: the {what} {name!r} is listed twice")
        for part in self.parts:
            unknown = sorted(set(part.counts) - set(self.folds))
            if unknown:
                raise GramianError(f"{where}: {part.file} holds the uncounted fold {unknown[0]!r}")
            self._check_storage(part, where)
            if part.kind != "pair":
                continue
            x, y = part.names
            if x not in sites:
                raise GramianError(f"{where}: the pair {x} -> {y} is there without the site {x!r}")
            lacking = sorted(set(part.counts) - set(sites[x].counts))
            if lacking:
                raise GramianError(f"{where}: the fold {lacking[0]!r} of {x} -> {y} lacks its site")
            for fold, name in ((fold, name) for fold in part.counts for name in part.names):
                rows = part.counts[fold][0]
                there = sites[name].counts.get(fold) if name in sites else None
                if there is not None and abs(rows - there[0]) > 1e-9 * max(rows, 1.0):
                    raise GramianError(
                        f"{where}: the fold {fold!r} has {there[0]:g} rows of {name!r} and "
                        f"{rows:g} of the pair {x} -> {y}, expected the same rows"
                    )
            for name, d in zip(part.names, part.dims, strict=True):
                if name in sites and sites[name].dims != (d,):
                    raise GramianError(
                        f"{where}: {name!r} has dimension {sites[name].dims[0]} as a site "
                        f"and {d} in the pair {x} -> {y}"
                    )


def total_counts(
    parts: Iterable[Part], given: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, int]]:
    """Fold -> the counts of :data:`COUNTS`; what is not given is taken from the largest site.

    Raises:
        GramianError: an unknown fold, or something given that is no count.
    """
    largest: dict[str, dict[str, int]] = {}
    for part in parts:
        for fold, (rows, sinks) in part.counts.items():
            total = largest.setdefault(fold, dict.fromkeys(COUNTS, 0))
            if part.kind == "documents":
                total["documents"] = round(rows)
            elif part.kind == "site":
                total["rows"] = max(total["rows"], round(rows))
                total["sinks"] = max(total["sinks"], round(sinks))
                total["tokens"] = total["rows"] + total["sinks"]
    for fold, counts in given.items():
        total = largest.setdefault(fold, dict.fromkeys(COUNTS, 0))
        for name, value in counts.items():
            whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
            if fold not in FOLDS or name not in COUNTS or not whole:
                raise GramianError(
                    f"counts of the fold {fold!r}: {name!r} is {value!r}, expected folds "
                    f"{', '.join(FOLDS)} and counts of {', '.join(COUNTS)}"
                )
            total[name] = value
    return {fold: largest[fold] for fold in FOLDS if fold in largest}


def gramian_version() -> str:
    """The installed version of this package."""
    try:
        return version("gramian")
    except PackageNotFoundError:
        return "unknown"


def write_index(folder: Path, index: Index) -> None:
    """Write index.json, and beside it its checksum in the form that ``sha256sum -c`` reads."""
    data = index.to_bytes()
    line = f"{hashlib.sha256(data).hexdigest()}  {INDEX}\n"
    write_bytes(folder / CHECKSUM, line.encode())
    write_bytes(folder / INDEX, data)


def read_index(folder: Path) -> Index:
    """Read and check index.json.

    Raises:
        GramianError: no moments folder, a changed index, or one out of the rules.
    """
    path, checksum = folder / INDEX, folder / CHECKSUM
    if not folder.is_dir():
        what = "a file" if folder.exists() else "not there"
        raise GramianError(
            f"{folder} is {what}, not a moments folder; expected the output of gramian collect"
        )
    for file, limit in ((path, INDEX_LIMIT), (checksum, 1024)):
        if not file.is_file():
            raise GramianError(
                f"{folder} is not a moments folder: {file.name} is missing; expected the output "
                "of a finished collection"
            )
        if file.stat().st_size > limit:
            raise GramianError(f"{file}: {file.stat().st_size} bytes, expected at most {limit}")
    data = path.read_bytes()
    index = Index.from_bytes(data, str(path))
    recorded = checksum.read_bytes().decode("ascii", "replace")
    if not re.fullmatch(r"[0-9a-f]{64}  index\.json\n", recorded):
        raise GramianError(f"{checksum}: expected one line '<sha256>  {INDEX}'")
    if recorded[:64] != hashlib.sha256(data).hexdigest():
        raise GramianError(
            f"{path}: changed since it was written: its SHA-256 is not {checksum}'s; restore the "
            "file or collect again"
        )
    return index
