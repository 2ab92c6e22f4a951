"""Were these vectors made by one model, or by two? Told from moments alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from gramian.bridge.drift import Drift, IndexShards, drift
from gramian.bridge.vectors import VectorSource
from gramian.errors import GramianError
from gramian.moments import Moments

SHARDS = 16
BATCH = 4096
FOREIGN = 4.0
"""Standard deviations of chance up to which shared directions are none."""
KIN = 8.0
"""Standard deviations of chance from which on they are those of one model."""
ROWS = 8
"""Rows per dimension from which on directions are known well enough to call two models."""


@dataclass(frozen=True)
class Swap:
    """Whether two clouds of vectors come from one model."""

    verdict: str
    """``same`` (one model, like text), ``shifted`` (one model, other text), ``swapped`` (two
    models) or ``cannot tell``."""
    shared: float
    """Cosine of the two covariances without their mean variance: 1 for the same directions, 0 for
    none in common (`shared_directions`)."""
    drift: Drift
    """How far one lies from the other, in units of what samples of it do."""
    at: int | None = None
    """Within one source: the row from which on the vectors are of another model."""
    reason: str = field(default="", compare=False)

    def to_json(self) -> dict[str, object]:
        """Every figure."""
        return {
            "verdict": self.verdict,
            "shared": self.shared,
            "at": self.at,
            "drift": self.drift.to_json(),
            "reason": self.reason,
        }


def shared_directions(a: Moments, b: Moments) -> float:
    """Cosine of two covariances, each less its mean variance: 0 for unrelated axes.

    ``<A, B> / (|A| |B|)`` of ``A = Ca - tr(Ca)/d I``, and B alike. A random rotation of one of
    them gives 0 on average, with a standard deviation of ``sqrt(2) / d``.

    Raises
    ------
    GramianError : unequal widths, or no directions on one side: no variance, or all alike.
    """
    if a.d != b.d:
        raise GramianError(f"clouds of width {a.d} and {b.d} are of two models, no doubt")
    eye = torch.eye(a.d, dtype=torch.float64)
    one, other = (side.scatter - side.trace / side.d * eye for side in (a, b))
    lengths = float(torch.linalg.matrix_norm(one) * torch.linalg.matrix_norm(other))
    if lengths == 0:
        raise GramianError("the vectors of one side are all equal, or vary alike in all directions")
    return float((one * other).sum()) / lengths


def swapped(a: Sequence[Moments], b: Sequence[Moments]) -> Swap:
    """Compare two clouds, each given as the moments of some random shards of its rows.

    Text of another kind moves a cloud and changes how it spreads, but the axes of a model stay its
    own; the axes of two models have nothing in common. So what is tested is whether directions
    are shared more than those of unrelated axes, and beside it whether the clouds differ at all.

    Raises
    ------
    GramianError : unequal widths, fewer than 3 shards of ``a``, or no rows.
    """
    one, other = (sum(side[1:], side[0]) for side in (a, b))
    shared = shared_directions(one, other)
    far = drift(other, a)
    rows = min(one.count, other.count)
    chance = math.sqrt(2.0) / one.d
    if not far.drifted:
        return Swap("same", shared, far, reason=f"samples of one cloud; {far}")
    if shared >= KIN * chance:
        reason = f"other text, but directions are shared ({shared:.2f}, unrelated models 0)"
        return Swap("shifted", shared, far, reason=reason)
    if rows < ROWS * one.d:
        reason = (
            f"{rows:,.0f} rows for {one.d} dimensions are too few to know their directions, "
            f"{ROWS * one.d:,} are enough"
        )
        return Swap("cannot tell", shared, far, reason=reason)
    if shared <= FOREIGN * chance:
        reason = f"no directions are shared ({shared:.3f}): two models of one width"
        return Swap("swapped", shared, far, reason=reason)
    reason = f"directions are hardly shared ({shared:.3f}); compare the models' names"
    return Swap("cannot tell", shared, far, reason=reason)


def shards_of(source: VectorSource) -> list[Moments]:
    """Moments of a source by shards of its ids, from one pass."""
    found = IndexShards()
    for batch in source.batches(BATCH):
        found.update(batch.ids, batch.vectors)
    return found.full()


def stretches_of(source: VectorSource, shards: int = SHARDS) -> list[Moments]:
    """Moments of a source by stretches of its rows in their order, from one pass."""
    if source.count is None:
        raise GramianError(f"{source.address}: its rows are not counted; write it as .npy first")
    size = max(1, -(-source.count // shards))
    found: list[Moments] = []
    left = 0
    for batch in source.batches(size):
        rows = batch.vectors
        while len(rows):
            take = min(len(rows), size - left)
            part = Moments.from_rows(rows[:take], quartic=False)
            if left == 0:
                found.append(part)
            else:
                found[-1] = found[-1] + part
            left = (left + take) % size
            rows = rows[take:]
    return found


def mixed(stretches: Sequence[Moments]) -> Swap:
    """Look for one place in the order of an index from which on another model made the vectors.

    An index of which a part was embedded anew behind the rest is caught; rows of two models in
    random order are not.

    Raises
    ------
    GramianError : fewer than 6 stretches.
    """
    if len(stretches) < 6:
        raise GramianError(f"{len(stretches)} stretches of an index, expected at least 6")
    cuts = range(1, len(stretches))
    parts = {cut: (stretches[:cut], stretches[cut:]) for cut in cuts}

    def shared(cut: int) -> float:
        one, other = (sum(part[1:], part[0]) for part in parts[cut])
        return shared_directions(one, other)

    best = min(cuts, key=shared)
    one, other = parts[best]
    if len(one) < len(other):
        one, other = other, one
    if len(one) < 3:
        one = list(stretches)
    found = swapped(one, other)
    at = int(sum(part.count for part in stretches[:best])) if found.verdict == "swapped" else None
    return Swap(found.verdict, found.shared, found.drift, at, found.reason)
