"""Which rows of a store to embed anew: a sample to fit a bridge on."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from gramian.bridge.vectors import VectorBatch, VectorSource
from gramian.errors import GramianError
from gramian.moments import Accumulator
from gramian.registry import method
from gramian.solvers.spectrum import eigh

STRATEGIES = ("random", "telling")
BATCH = 4096


@dataclass(frozen=True)
class Sampled:
    """A row of the sample."""

    id: str
    vector: NDArray[np.float32]
    text: str | None
    leverage: float | None
    """How much the row tells, from 0 to 1; None for a random sample."""


@method("leverage_sampling", job="bridge", paper="1411.4357")
def sample(
    source: VectorSource,
    n: int,
    *,
    strategy: str = "random",
    seed: int = 0,
    texts: bool = True,
    progress: Callable[[int, int | None], None] = lambda done, total: None,
) -> list[Sampled]:
    """Draw rows of a store, the same ones every time, holding only the sample in memory.

    ``random``: every row alike, by a hash of its id. ``telling``: in proportion to the ridge
    leverage ``x^T (S + lambda I)^-1 x``, with lambda the mean eigenvalue: rows in directions that
    few others have, of which least squares learns most when pairs are dear. It takes two passes. A
    random sample is the right one for judging, and for rotations.

    Raises
    ------
    GramianError : an unknown strategy, n below 1, or a row without a text when texts are wanted.
    """
    if strategy not in STRATEGIES:
        raise GramianError(f"strategy is {strategy!r}, expected one of {', '.join(STRATEGIES)}")
    if n < 1:
        raise GramianError(f"a sample of {n} rows, expected at least 1")
    weigh = _leverages(source) if strategy == "telling" else None
    kept: list[tuple[float, str, Sampled]] = []
    done = 0
    for batch in source.batches(BATCH):
        if texts and batch.texts is None:
            raise GramianError(
                f"{source.address} carries no texts; name their column with --text-field, or "
                "embed the sampled ids from your own texts and fit on two files"
            )
        scores = None if weigh is None else weigh(batch.vectors)
        for key, row in _keys(batch, scores, seed):
            if len(kept) == n and key <= kept[0][0]:
                continue
            text = None if batch.texts is None else batch.texts[row]
            score = None if scores is None else float(scores[row])
            found = Sampled(batch.ids[row], batch.vectors[row].copy(), text, score)
            if len(kept) < n:
                heapq.heappush(kept, (key, found.id, found))
            else:
                heapq.heapreplace(kept, (key, found.id, found))
        done += len(batch)
        progress(done, source.count)
    return [found for _, _, found in sorted(kept, key=lambda one: one[:2], reverse=True)]


def _keys(
    batch: VectorBatch, scores: NDArray[np.float64] | None, seed: int
) -> Iterator[tuple[float, int]]:
    """A key for every row; the largest stay: ``u^(1/w)`` with u from the id (Efraimidis)."""
    for row, id in enumerate(batch.ids):
        digest = hashlib.sha256(f"gramian-sample:{seed}:{id}".encode()).digest()
        u = (int.from_bytes(digest[:8], "big") + 0.5) / 2.0**64
        weight = 1.0 if scores is None else max(float(scores[row]), 1e-12)
        yield float(np.log(u)) / weight, row


def _leverages(
    source: VectorSource,
) -> Callable[[NDArray[np.float32]], NDArray[np.float64]]:
    sums = Accumulator({"x": source.dim})
    for batch in source.batches(BATCH):
        sums.update({"x": torch.from_numpy(np.ascontiguousarray(batch.vectors))})
    moments = sums.moments("x")
    values, vectors = eigh(moments.scatter)
    ridge = max(float(values.mean()), 1e-30)
    root = (vectors / (values.clamp_min(0.0) + ridge).sqrt()).numpy()
    mean = moments.mean.numpy()

    def weigh(rows: NDArray[np.float32]) -> NDArray[np.float64]:
        projected = (rows - mean) @ root
        found: NDArray[np.float64] = np.einsum("ij,ij->i", projected, projected)
        return found

    return weigh
