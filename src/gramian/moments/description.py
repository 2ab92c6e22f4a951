"""What is in a moments set, as JSON values: the data behind ``gramian info``."""

from __future__ import annotations

from gramian.moments.format import Index
from gramian.moments.part import Part
from gramian.moments.parts import Parts


def description(index: Index, parts: Parts) -> dict[str, object]:
    """The recipe, the counts, and a row for each site, pair and reservoir.

    Every row has ``bytes`` and ``verified``: whether its SHA-256 was checked since the set was
    opened.
    """

    def row(part: Part) -> dict[str, object]:
        return {
            "rows": {fold: rows for fold, (rows, _) in part.counts.items()},
            "bytes": part.bytes,
            "verified": parts.is_verified(part),
        }

    def site(part: Part) -> dict[str, object]:
        sinks = {fold: count for fold, (_, count) in part.counts.items()}
        named = {"site": part.names[0], "d": part.dims[0], "order": part.order}
        return named | row(part) | {"sinks": sinks}

    def pair(part: Part) -> dict[str, object]:
        x, y = part.names
        return {"x": x, "y": y, "increment": part.increment, "d": list(part.dims)} | row(part)

    def reservoir(part: Part) -> dict[str, object]:
        return {"site": part.names[0], "d": part.dims[0]} | row(part)

    count, digest = index.documents
    return {
        "path": None if parts.path is None else str(parts.path),
        "gramian": index.gramian,
        "storage": index.storage,
        "recipe": index.recipe.to_json(),
        "counts": {fold: dict(index.counts[fold]) for fold in index.folds},
        "documents": {"count": count, "digest": digest},
        "shards": None if index.shards is None else index.shards.to_json(),
        "sites": [site(part) for part in index.parts if part.kind == "site"],
        "pairs": [pair(part) for part in index.parts if part.kind == "pair"],
        "reservoirs": [reservoir(part) for part in index.parts if part.kind == "reservoir"],
        "bytes": sum(part.bytes for part in index.parts),
        "verified": all(parts.is_verified(part) for part in index.parts),
    }
