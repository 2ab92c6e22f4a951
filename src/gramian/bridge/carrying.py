"""Carry vectors over a bridge into a new place: streaming, resumable, stamped."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gramian.bridge.across import BatchMap
from gramian.bridge.provenance import stamp_for
from gramian.bridge.saved import SavedBridge
from gramian.bridge.vectors import VectorBatch, VectorSink, VectorSource
from gramian.errors import GramianError

BATCH = 16_384
CHECKED = 4096
"""Rows that are compared with what the bridge was fitted on before anything is written."""
AHEAD = 2
"""Batches that are mapped while earlier ones are written."""
TOLD = ("model", "revision", "fingerprint", "prefix")
"""What a stamp may say of its vectors that a bridge knows as well."""


@dataclass(frozen=True)
class Carried:
    """What was written."""

    rows: int
    resumed_from: int
    stamp: dict[str, str]


def check(bridge: SavedBridge, source: VectorSource) -> None:
    """Refuse vectors that are not of the space the bridge starts in.

    Raises
    ------
    GramianError : another width; another model, revision, weights or prompt by its stamp; or rows
        that look like those of the other side or of another model.
    """
    if source.dim != bridge.source.dim:
        other = "; it looks like the other direction" if source.dim == bridge.target.dim else ""
        raise GramianError(
            f"{source.address} has vectors of {source.dim}, the bridge takes those of "
            f"{bridge.source}{other}"
        )
    told: dict[str, Any] = {key: source.stamp[key] for key in TOLD if key in source.stamp}
    reasons = bridge.source.differs(replace(bridge.source, **told))
    if reasons:
        raise GramianError(
            f"{source.address} says of its vectors: {'; '.join(reasons)}. Fit a bridge for these, "
            "or give --anyway (anyway=True) if the stamp is wrong"
        )
    first = next(source.batches(CHECKED), None)
    if first is None:
        raise GramianError(f"{source.address} holds no rows")
    # rows that cannot be used are refused by name where they are mapped
    rows = first.vectors[np.isfinite(first.vectors).all(1)]
    if len(rows):
        found = bridge.check_source(rows)
        if not found.good:
            raise GramianError(
                f"{source.address}: {found.reason}. Give --anyway (anyway=True) to map them all "
                "the same"
            )


def carry(
    bridge: SavedBridge,
    source: VectorSource,
    sink: VectorSink,
    *,
    dtype: str = "float32",
    batch: int = BATCH,
    anyway: bool = False,
    progress: Callable[[int, int | None], None] = lambda done, total: None,
) -> Carried:
    """Write the mapped rows of a source to a new place, from where an earlier run stopped.

    Memory holds a few batches. ``dtype`` is that of the place. ``anyway`` leaves out the comparison
    of the rows with what the bridge was fitted on (`check`).

    Raises
    ------
    GramianError : vectors of another space; a row with NaN or infinity, all zeros, or beyond
        float16 (its id is named; the rows before it stay written); a source that ends before its
        count is reached. The place is not completed, and the next run goes on from there.
    """
    if batch < 1:
        raise GramianError(f"batch is {batch}, expected at least 1")
    if not anyway:
        check(bridge, source)
    begun = sink.done
    if source.count is not None and begun > source.count:
        raise GramianError(
            f"{begun:,} rows are written and {source.address} has only {source.count:,}; give "
            "--force (force=True) to begin anew"
        )
    across = BatchMap(bridge, dtype=dtype)
    pending: deque[Future[VectorBatch]] = deque()

    def settle() -> None:
        sink.write(pending.popleft().result())
        progress(sink.done, source.count)

    # Reading and writing stay in this thread, as some stores ask for; the products run beside.
    with ThreadPoolExecutor(1, "across") as worker:
        for rows in source.batches(batch, begun):
            pending.append(worker.submit(across, rows))
            if len(pending) > AHEAD:
                settle()
        while pending:
            settle()
    if sink.done == 0:
        raise GramianError(f"{source.address} holds no rows")
    if source.count is not None and sink.done != source.count:
        raise GramianError(
            f"{source.address} gave {sink.done:,} rows of {source.count:,}: it changed or went "
            "away half way. Run the same command again to go on"
        )
    stamp = stamp_for(bridge, source, dtype=dtype)
    rows_written = sink.done
    sink.finish(stamp)
    return Carried(rows_written, begun, stamp)
