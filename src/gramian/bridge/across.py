"""Rows across a bridge: one product in float32 for every batch."""

from __future__ import annotations

import numpy as np
import torch

from gramian.bridge.saved import SavedBridge
from gramian.bridge.vectors import VectorBatch
from gramian.bridge.vectors.protocol import Floats
from gramian.errors import GramianError

HALF_LARGEST = 65504.0
"""The largest number that float16 holds."""
BLOCK = 1024
"""Rows that are mapped together: what they become stays in the cache until it is scaled."""


class BatchMap:
    """A bridge made ready for many batches: its weight and bias, dense and in float32.

    dtype : what the results will be stored as; ``float16`` refuses numbers that it cannot hold.
    """

    def __init__(self, bridge: SavedBridge, *, dtype: str = "float32") -> None:
        self._bridge, self._half = bridge, dtype == "float16"
        zero = torch.zeros(bridge.source.dim, dtype=torch.float64)
        self._bias = bridge.map.to(dtype=torch.float64)(zero).to(torch.float32)
        self._weight = bridge.map.to_dense(torch.float64).to(torch.float32).T.contiguous()

    def __call__(self, batch: VectorBatch) -> VectorBatch:
        """The same rows in the target space; unit rows when the bridge says so.

        Raises
        ------
        GramianError : another width, or a row that holds NaN or infinity, is all zeros, or leaves
            the range of the dtype; the message names its id and place.
        """
        width = self._bridge.source.dim
        if batch.vectors.shape[1] != width:
            raise GramianError(
                f"vectors {batch.vectors.shape[1]} wide, expected {width} of "
                f"{self._bridge.source}; this bridge is not for them"
            )
        rows = np.ascontiguousarray(batch.vectors, dtype=np.float32)
        x = torch.from_numpy(rows if rows.flags.writeable else rows.copy())
        y = torch.empty(len(rows), len(self._bias))
        norms = torch.empty(len(rows))
        for start in range(0, len(rows), BLOCK):
            at = slice(start, start + BLOCK)
            torch.addmm(self._bias, x[at], self._weight, out=y[at])
            torch.linalg.vector_norm(y[at], dim=1, out=norms[at])
            self._refuse_empty(batch, rows, y[at, 0], start)
            if self._bridge.normalise:
                y[at].div_(norms[at, None])
        # Whatever is not finite on the way in is not finite on the way out: rows are looked at one
        # by one only where a length says so.
        if not bool(torch.isfinite(norms).all()):
            self._refuse_infinite(batch, rows, norms)
        if self._bridge.normalise:
            flat = (norms == 0).nonzero()
            if len(flat):
                raise GramianError(
                    f"{_place(batch, int(flat[0]))} is mapped to zero and has no direction; "
                    "leave it out"
                )
        elif self._half and float(y.abs().max()) > HALF_LARGEST:
            row = int((y.abs().amax(1) > HALF_LARGEST).nonzero()[0])
            raise GramianError(f"{_place(batch, row)} leaves the range of float16; write float32")
        return VectorBatch(batch.ids, y.numpy(), batch.texts, batch.start)

    def _refuse_empty(
        self, batch: VectorBatch, rows: Floats, first: torch.Tensor, start: int
    ) -> None:
        """Zeros come out as the bias: looked at one by one where the first number is."""
        suspects = start + np.flatnonzero((first == self._bias[0]).numpy())
        empty = suspects[~rows[suspects].any(1)]
        if len(empty):
            raise GramianError(
                f"{_place(batch, int(empty[0]))} is all zeros and means nothing in either space; "
                "leave it out or embed it again"
            )

    def _refuse_infinite(self, batch: VectorBatch, rows: Floats, norms: torch.Tensor) -> None:
        bad = np.flatnonzero(~np.isfinite(rows).all(1))
        if len(bad):
            raise GramianError(
                f"{_place(batch, int(bad[0]))} holds NaN or infinity; leave it out or embed it "
                "again"
            )
        row = int((~torch.isfinite(norms)).nonzero()[0])
        raise GramianError(
            f"{_place(batch, row)} leaves the range of float32 when it is mapped; its largest "
            f"number is {float(np.abs(rows[row]).max()):.3g}"
        )


def _place(batch: VectorBatch, row: int) -> str:
    return f"row {batch.start + row} (id {batch.ids[row]!r})"
