"""One file of a moments folder: what it is of, and which tensors it must hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gramian.errors import GramianError
from gramian.moments.fields import Fields
from gramian.moments.folds import FOLDS
from gramian.moments.tensorfile import DTYPES, TensorSpec
from gramian.moments.tiles import packed_size

KINDS = {"site": 1, "pair": 2, "reservoir": 1, "documents": 0}
"""Kinds of parts, and how many sites each names."""
REQUIRED = {"site": "rows.sums", "pair": "rows.cross", "reservoir": "rows", "documents": "digests"}
"""The tensor that every fold of a part has."""
DIGEST_BYTES = 16
"""Leading bytes of each document's SHA-256 that are kept."""
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\Z")
_FLOATS = ("F64", "F32", "F16", "BF16")


@dataclass(frozen=True)
class Part:
    """One file of the folder: all folds of a site, a pair, a reservoir, or the documents."""

    file: str
    kind: str
    names: tuple[str, ...]
    increment: bool
    dims: tuple[int, ...]
    order: str
    counts: Mapping[str, tuple[float, float]]
    """Rows and sink rows by fold."""
    tensors: Mapping[str, TensorSpec]
    bytes: int = 0
    sha256: str = ""

    @property
    def key(self) -> tuple[str, tuple[str, ...], bool]:
        """What the part is of, apart from how it is stored."""
        return self.kind, self.names, self.increment

    @property
    def title(self) -> str:
        """What the part is of, in words."""
        if self.kind == "pair":
            x, y = self.names
            return f"pair {x} -> {y} - {x}" if self.increment else f"pair {x} -> {y}"
        return " ".join((self.kind, *self.names))

    @property
    def sort_key(self) -> tuple[int, list[tuple[int, int, str]]]:
        """Order in the index: by kind, then by names with the numbers in them counted."""
        words = re.findall(r"\d+|\D+", "\0".join((*self.names, str(self.increment))))
        keys = [(0, int(word), "") if word.isdecimal() else (1, 0, word) for word in words]
        return list(KINDS).index(self.kind), keys

    def description(self) -> dict[str, object]:
        """What the file's own header repeats, so that a part explains itself."""
        return {
            "kind": self.kind,
            "names": list(self.names),
            "increment": self.increment,
            "dims": list(self.dims),
            "order": self.order,
            "counts": {f: {"rows": n, "sinks": s} for f, (n, s) in self.counts.items()},
        }

    def to_json(self) -> dict[str, object]:
        """The entry in the index."""
        tensors = {n: {"dtype": t.dtype, "shape": list(t.shape)} for n, t in self.tensors.items()}
        return {
            "file": self.file,
            **self.description(),
            "bytes": self.bytes,
            "sha256": self.sha256,
            "tensors": tensors,
        }

    @classmethod
    def described(cls, entry: Fields, **rest: Any) -> Part:
        """Read :meth:`description`."""
        kind = entry.text("kind", KINDS)
        names, dims = entry.texts("names"), entry.sizes("dims")
        if len(names) != KINDS[kind] or len(dims) != KINDS[kind] or min(dims, default=1) < 1:
            raise GramianError(
                f"{entry.where}: a {kind} has {KINDS[kind]} names and as many dims of at least 1, "
                f"got {list(names)} and {list(dims)}"
            )
        by_fold, counts = entry.fields("counts"), {}
        for fold in by_fold:
            count = by_fold.fields(fold)
            counts[fold] = (count.number("rows", low=0), count.number("sinks", low=0))
            count.close()
        return cls(
            kind=kind,
            names=names,
            increment=entry.flag("increment"),
            dims=dims,
            order=entry.text("order", ("full", "diagonal")),
            counts=counts,
            **rest,
        )

    @classmethod
    def from_json(cls, value: object, where: str) -> Part:
        """Read :meth:`to_json`, and check every declared tensor against the layout."""
        entry = Fields(value, where)
        file = entry.text("file")
        if not _FILE.match(file) or ".." in file:
            raise GramianError(f"{where}: {file!r} is not a plain file name inside the folder")
        entry.where = f"{where}: {file}"
        listed, tensors = entry.fields("tensors"), {}
        for name in listed:
            spec = listed.fields(name)
            tensors[name] = TensorSpec(spec.text("dtype", DTYPES), spec.sizes("shape"))
            spec.close()
        sha256 = entry.text("sha256")
        if not re.fullmatch(r"[0-9a-f]{64}", sha256):
            raise GramianError(f"{entry.where}: 'sha256' is not 64 hexadecimal digits")
        size = entry.integer("bytes")
        part = cls.described(entry, file=file, tensors=tensors, bytes=size, sha256=sha256)
        entry.close()
        check_layout(part, entry.where)
        return part


@dataclass(frozen=True)
class Rule:
    """What one tensor of a part must look like, and when it must be there."""

    shape: tuple[int | None, ...]
    dtypes: tuple[str, ...] = ("F64",)
    needs: tuple[str, ...] = ()
    """Tensors that must be there whenever this one is."""
    scales: tuple[str, ...] = ()
    """Tensors that must be there whenever this one is stored as float32."""


def layout(part: Part) -> dict[str, Rule]:
    """The tensors that each fold of a part may hold; None in a shape is any length."""
    if part.kind == "documents":
        return {"digests": Rule((None, DIGEST_BYTES), ("U8",))}
    if part.kind == "reservoir":
        names = ("rows", "digests", "offsets", "capacity")
        return {
            "rows": Rule((None, part.dims[0]), _FLOATS, names),
            "digests": Rule((None, 32), ("U8",), names),
            "offsets": Rule((None,), ("I64",), names),
            "capacity": Rule((1,), ("I64",), names),
        }
    rules: dict[str, Rule] = {}
    for block in ("rows.", "sinks."):
        if part.kind == "site":
            rules |= _moments(block, part.dims[0], full=part.order == "full")
        else:
            target = _moments(f"{block}y.", part.dims[1], full=False)
            needed = replace(target[f"{block}y.sums"], needs=(f"{block}y.mean", f"{block}cross"))
            rules |= _cross(block, *part.dims) | target | {f"{block}y.sums": needed}
    if part.kind == "site":
        rules["sinks.thin"] = Rule((None, part.dims[0]), _FLOATS)
    return rules


def _moments(prefix: str, d: int, full: bool) -> dict[str, Rule]:
    sums, mean, scatter, scale, vector, square = (
        prefix + name
        for name in ("sums", "mean", "scatter", "scatter.scale", "quartic.vector", "quartic.square")
    )
    base = (sums, mean, scatter)
    rules = {
        sums: Rule((2,), needs=base),
        mean: Rule((d,), needs=base),
        scatter: Rule((d,), needs=base),
        vector: Rule((d,), needs=(*base, square)),
        square: Rule((1,), needs=(*base, vector)),
    }
    if full:
        rules[scatter] = Rule((packed_size(d),), ("F64", "F32"), needs=base, scales=(scale,))
        rules[scale] = Rule((d,), needs=base)
    return rules


def _cross(prefix: str, dx: int, dy: int) -> dict[str, Rule]:
    cross, left, right = (prefix + name for name in ("cross", "cross.left", "cross.right"))
    xy, yx, product = (f"{prefix}quartic.{name}" for name in ("xy", "yx", "product"))
    base = (f"{prefix}y.sums", cross)
    return {
        cross: Rule((dx, dy), ("F64", "F32"), needs=base, scales=(left, right)),
        left: Rule((dx,), needs=(*base, right)),
        right: Rule((dy,), needs=(*base, left)),
        xy: Rule((dy,), needs=(*base, yx, product)),
        yx: Rule((dx,), needs=(*base, xy, product)),
        product: Rule((1,), needs=(*base, xy, yx)),
    }


def check_layout(part: Part, where: str) -> None:
    """Refuse a part whose tensors are not those of its kind.

    Raises:
        GramianError: an unknown fold or tensor, another dtype or shape, or one that is missing.
    """
    rules = layout(part)
    for fold in part.counts:
        if fold not in FOLDS:
            raise GramianError(f"{where}: unknown fold {fold!r}, expected {', '.join(FOLDS)}")
        if f"{fold}.{REQUIRED[part.kind]}" not in part.tensors:
            raise GramianError(f"{where}: '{fold}.{REQUIRED[part.kind]}' is missing")
    for name, spec in part.tensors.items():
        fold, _, inner = name.partition(".")
        if fold not in part.counts or inner not in rules:
            raise GramianError(f"{where}: unexpected tensor {name!r} in a {part.kind}")
        rule = rules[inner]
        sizes = zip(spec.shape, rule.shape, strict=False)
        fits = len(spec.shape) == len(rule.shape) and all(b in (None, a) for a, b in sizes)
        if not fits or spec.dtype not in rule.dtypes:
            raise GramianError(
                f"{where}: {name!r} is {spec.dtype} {list(spec.shape)}, "
                f"expected {'|'.join(rule.dtypes)} {list(rule.shape)}"
            )
        needs = rule.needs + (rule.scales if spec.dtype == "F32" else ())
        for other in needs:
            if f"{fold}.{other}" not in part.tensors:
                raise GramianError(f"{where}: {name!r} is there without '{fold}.{other}'")
