"""Which rows of a store to embed anew: a sample to fit a bridge on."""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.paired.stream import tensor_of
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
    weight: float = 1.0
    """Rows of the store that it stands for, over the mean of the sample: sums with these weights
    are those of the store, whatever the strategy preferred."""


@dataclass(frozen=True)
class Sample:
    """Rows that were drawn, and what they were drawn from."""

    rows: list[Sampled]
    of: int
    """Rows of the store."""
    textless: int
    """Rows that could not be drawn because their text is empty."""


@method("leverage_sampling", job="bridge", paper="1411.4357")
def sample(
    source: VectorSource,
    n: int,
    *,
    strategy: str = "random",
    seed: int = 0,
    texts: bool = True,
    progress: Callable[[int, int | None], None] = lambda done, total: None,
) -> Sample:
    """Draw rows of a store, the same ones every time, holding only the sample in memory.

    ``random``: every row alike, by a hash of its id. ``telling``: in proportion to the ridge
    leverage ``x^T (S + lambda I)^-1 x``, with lambda the mean eigenvalue, by priority sampling:
    rows in directions that few others have, of which least squares learns most when pairs are
    dear. It takes two passes, and every row carries the weight that makes up for the preference.
    A random sample is the right one for judging, and for rotations.

    Raises
    ------
    GramianError : an unknown strategy, n below 1, or no texts when texts are wanted.
    """
    if strategy not in STRATEGIES:
        raise GramianError(f"strategy is {strategy!r}, expected one of {', '.join(STRATEGIES)}")
    if n < 1:
        raise GramianError(f"a sample of {n} rows, expected at least 1")
    weigh = _leverages(source) if strategy == "telling" else None
    # One row more than asked for: its priority is the threshold of the others' weights.
    kept: list[tuple[float, str, float, Sampled]] = []
    done = textless = 0
    for batch in source.batches(BATCH):
        if texts and batch.texts is None:
            raise GramianError(
                f"{source.address} carries no texts; name their column with --text-field, or "
                "embed the sampled ids from your own texts and fit on two files"
            )
        scores = np.ones(len(batch)) if weigh is None else weigh(batch.vectors)
        for priority, row in _priorities(batch, scores, seed):
            text = None if batch.texts is None else batch.texts[row]
            if texts and not (text or "").strip():
                textless += 1
                continue
            if len(kept) > n and priority <= kept[0][0]:
                continue
            found = Sampled(batch.ids[row], batch.vectors[row].copy(), text)
            one = (priority, found.id, float(scores[row]), found)
            if len(kept) <= n:
                heapq.heappush(kept, one)
            else:
                heapq.heapreplace(kept, one)
        done += len(batch)
        progress(done, source.count)
    if not kept:
        raise GramianError(f"{source.address}: none of {done} rows has a text")
    threshold = heapq.heappop(kept)[0] if len(kept) > n else 0.0
    return Sample(_weighted(kept, threshold), done, textless)


def _priorities(
    batch: VectorBatch, scores: NDArray[np.float64], seed: int
) -> Iterator[tuple[float, int]]:
    """``score / u`` of every row, with u from its id: the largest are the sample (Duffield,
    Lund & Thorup 2007, priority sampling)."""
    for row, id in enumerate(batch.ids):
        digest = hashlib.sha256(f"gramian-sample:{seed}:{id}".encode()).digest()
        u = (int.from_bytes(digest[:8], "big") + 0.5) / 2.0**64
        yield max(float(scores[row]), 1e-12) / u, row


def _weighted(kept: list[tuple[float, str, float, Sampled]], threshold: float) -> list[Sampled]:
    """Rows by falling priority; a row of score s was drawn with probability min(1, s / t)."""
    ordered = sorted(kept, key=lambda one: one[:2], reverse=True)
    weights = [max(1.0, threshold / max(score, 1e-12)) for _, _, score, _ in ordered]
    mean = math.fsum(weights) / len(weights)
    return [
        replace(found, weight=weight / mean)
        for (*_, found), weight in zip(ordered, weights, strict=True)
    ]


def _leverages(
    source: VectorSource,
) -> Callable[[NDArray[np.float32]], NDArray[np.float64]]:
    sums = Accumulator({"x": source.dim})
    for batch in source.batches(BATCH):
        sums.update({"x": tensor_of(batch.vectors)})
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
