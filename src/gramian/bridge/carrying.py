"""Carry vectors over a bridge into a new place: streaming, resumable, stamped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from gramian.bridge.saved import SavedBridge
from gramian.bridge.vectors import VectorBatch, VectorSink, VectorSource
from gramian.errors import GramianError

BATCH = 16_384
CHECKED = 4096
"""Rows that are compared with what the bridge was fitted on before anything is written."""


@dataclass(frozen=True)
class Carried:
    """What was written."""

    rows: int
    resumed_from: int
    stamp: dict[str, str]


def digest(bridge: SavedBridge) -> str:
    """SHA-256 of a bridge: its map, its spaces and its direction."""
    found = hashlib.sha256()
    about = [bridge.direction, bridge.normalise, bridge.source.to_json(), bridge.target.to_json()]
    found.update(json.dumps(about, sort_keys=True).encode())
    bias = getattr(bridge.map, "bias", None)
    for tensor in (bridge.map.to_dense(torch.float64), bias):
        if tensor is not None:
            found.update(tensor.to(torch.float64).contiguous().numpy().tobytes())
    return found.hexdigest()


def purpose(bridge: SavedBridge, source: VectorSource) -> dict[str, str]:
    """What a result is of; only a run of the same purpose goes on with a part of it."""
    return {"bridge": digest(bridge), "source": source.address}


def stamp_for(bridge: SavedBridge, source: VectorSource) -> dict[str, str]:
    """What is known of carried vectors: the model whose space they are in, and how they came."""
    space = bridge.target
    known = {
        "model": space.model or space.name,
        "revision": space.revision,
        "fingerprint": space.fingerprint,
        "prefix": space.prefix,
        "unit_norm": str(bridge.normalise).lower(),
        "bridged_from": bridge.source.model or bridge.source.name,
        "method": bridge.method,
    }
    return {k: v for k, v in known.items() if v is not None} | purpose(bridge, source)


def check(bridge: SavedBridge, source: VectorSource) -> None:
    """Refuse vectors that are not of the space the bridge starts in.

    Raises
    ------
    GramianError : another width, another model by its stamp, or rows that look like those of the
        other side or of another model.
    """
    if source.dim != bridge.source.dim:
        other = "; it looks like the other direction" if source.dim == bridge.target.dim else ""
        raise GramianError(
            f"{source.address} has vectors of {source.dim}, the bridge takes those of "
            f"{bridge.source}{other}"
        )
    model, expected = source.stamp.get("model"), bridge.source.model
    if model is not None and expected is not None and model != expected:
        raise GramianError(
            f"{source.address} holds vectors of {model}, the bridge takes those of {expected}; "
            "fit a bridge for this pair of models"
        )
    first = next(source.batches(CHECKED), None)
    if first is None:
        raise GramianError(f"{source.address} holds no rows")
    bridge.check_source(rows_of(first, source)).require()


def carry(
    bridge: SavedBridge,
    source: VectorSource,
    sink: VectorSink,
    *,
    batch: int = BATCH,
    anyway: bool = False,
    progress: Callable[[int, int | None], None] = lambda done, total: None,
) -> Carried:
    """Write the mapped rows of a source to a new place, from where an earlier run stopped.

    Memory holds one batch. ``anyway`` leaves out the comparison of the rows with what the bridge
    was fitted on (`check`).

    Raises
    ------
    GramianError : vectors of another space, or a row with NaN or infinity (its id is named).
    """
    if not anyway:
        check(bridge, source)
    begun = sink.done
    for rows in source.batches(batch, begun):
        mapped = bridge(rows_of(rows, source)).numpy()
        sink.write(replace(rows, vectors=mapped))
        progress(sink.done, source.count)
    if sink.done == 0:
        raise GramianError(f"{source.address} holds no rows")
    stamp = stamp_for(bridge, source)
    sink.finish(stamp)
    return Carried(sink.done, begun, stamp)


def rows_of(batch: VectorBatch, source: VectorSource) -> NDArray[np.float32]:
    """The vectors of a batch, when all of them are finite and none is zero.

    Raises
    ------
    GramianError : names the id and number of the first row that is not.
    """
    norms = np.einsum("ij,ij->i", batch.vectors, batch.vectors)
    bad = ~(np.isfinite(norms) & (norms > 0))
    if bad.any():
        row = int(bad.argmax())
        what = "is all zeros" if norms[row] == 0 else "holds NaN or infinity"
        raise GramianError(
            f"{source.address}: vector {batch.ids[row]!r} (row {batch.start + row}) {what}; "
            "embed it again or remove it"
        )
    return batch.vectors
