"""All vectors of a source at once, and what is known of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian.bridge.vectors.protocol import VectorBatch, VectorSource
from gramian.errors import GramianError


def read_all(source: VectorSource, limit: int | None = None) -> VectorBatch:
    """All rows of a source in memory, or its first ``limit``.

    Texts are there when every row has one.

    Raises
    ------
    GramianError : a limit below 1, or whatever the source cannot read.
    """
    if limit is not None and limit < 1:
        raise GramianError(f"limit is {limit}, expected at least 1")
    left = limit
    parts: list[VectorBatch] = []
    for batch in source.batches(4096 if limit is None else min(limit, 4096)):
        part = batch if left is None or len(batch) <= left else _first(batch, left)
        parts.append(part)
        if left is not None:
            left -= len(part)
            if not left:
                break
    if not parts:
        raise GramianError(f"{source.address} holds no rows")
    said = [text for part in parts for text in part.texts or ()]
    ids = [id for part in parts for id in part.ids]
    vectors = np.concatenate([part.vectors for part in parts])
    return VectorBatch(ids, vectors, said if len(said) == len(ids) else None)


def describe(source: VectorSource) -> dict[str, Any]:
    """What is known of a source without reading it, ready for JSON or a table.

    ``rows`` is null where only reading tells; ``metric`` where there is no store; ``lossy`` tells
    whether an index hands out approximations of the vectors that went into it.
    """
    return {
        "address": source.address,
        "rows": source.count,
        "dim": source.dim,
        "dtype": source.dtype,
        "metric": getattr(source, "metric", None),
        "lossy": bool(getattr(source, "lossy", False)),
        "stamp": dict(source.stamp),
    }


def _first(batch: VectorBatch, rows: int) -> VectorBatch:
    texts = None if batch.texts is None else batch.texts[:rows]
    return VectorBatch(batch.ids[:rows], batch.vectors[:rows], texts, batch.start)
