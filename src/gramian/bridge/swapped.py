"""Were these vectors made by one model, or by two? Told from moments alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from gramian.bridge.drift import Drift, IndexShards, drift
from gramian.bridge.vectors import VectorSource
from gramian.errors import GramianError
from gramian.moments import Moments
from gramian.solvers.spectrum import eigh

SHARDS = 16
BATCH = 4096
FIRST = 256
"""Rows of a first stretch where the rows are not counted beforehand."""
FOREIGN = 4.0
"""Standard deviations of chance up to which shared directions are none."""
KIN = 8.0
"""Standard deviations of chance from which on they are those of one model."""
ROWS = 2
"""Rows per dimension from which on directions are known well enough to call two models."""
FLOOR = 1e-2
"""Smallest eigenvalue that counts, over the mean one."""


@dataclass(frozen=True)
class Swap:
    """Whether two clouds of vectors come from one model."""

    verdict: str
    """``same`` (one model, like text), ``shifted`` (one model, other text), ``swapped`` (two
    models) or ``cannot tell``."""
    shared: float
    """Cosine of the logarithms of the two covariances: 1 for the same directions, 0 for none in
    common (`shared_directions`)."""
    drift: Drift
    """How far one lies from the other, in units of what samples of it do."""
    at: int | None = None
    """Within one source: the row from which on the vectors are of another model."""
    stretches: tuple[tuple[int, int], ...] = ()
    """Within one source: first row and end of every stretch of the smaller part."""
    reason: str = field(default="", compare=False)

    def to_json(self) -> dict[str, object]:
        """Every figure."""
        return {
            "verdict": self.verdict,
            "shared": self.shared,
            "at": self.at,
            "stretches": [list(stretch) for stretch in self.stretches],
            "drift": self.drift.to_json(),
            "reason": self.reason,
        }


def shared_directions(a: Moments, b: Moments) -> float:
    """Cosine of the logarithms of two covariances, each less its mean: 0 for unrelated axes.

    ``<A, B> / (|A| |B|)`` of ``A = log Ca - tr(log Ca)/d I``, and B alike, eigenvalues below a
    hundredth of the mean one raised to it. The logarithm lets the directions that a model hardly
    uses speak as loudly as the main ones, and they stay when the text changes. A random rotation
    of one side gives 0 on average with a standard deviation of ``sqrt(2 / ((d - 1)(d + 2)))``,
    whatever the two spectra: matrices that are symmetric and without trace are irreducible under
    rotations.

    Raises
    ------
    GramianError : unequal widths, or no directions on one side: no variance, or all alike.
    """
    if a.d != b.d:
        raise GramianError(f"clouds of width {a.d} and {b.d} are of two models, no doubt")
    return _cosine(_log(a), _log(b))


def chance(d: int) -> float:
    """Standard deviation of `shared_directions` between unrelated axes of ``d`` dimensions."""
    return math.sqrt(2.0 / ((d - 1) * (d + 2))) if d > 1 else math.inf


def _log(side: Moments) -> Tensor:
    """Logarithm of a covariance less its mean, (d, d)."""
    values, vectors = eigh(side.scatter)
    mean = float(values.mean())
    if mean <= 0:
        raise GramianError("the vectors of one side are all equal, and have no directions")
    logs = (values / mean).clamp(min=FLOOR).log()
    logs = logs - logs.mean()
    if float(logs.abs().max()) < 1e-9:
        raise GramianError("the vectors of one side vary alike in all directions")
    return (vectors * logs) @ vectors.T


def _cosine(one: Tensor, other: Tensor) -> float:
    return float((one * other).sum() / (one.norm() * other.norm()))


def swapped(a: Sequence[Moments], b: Sequence[Moments]) -> Swap:
    """Compare two clouds, each given as the moments of some random shards of its rows.

    Text of another kind moves a cloud and changes how it spreads, but the axes of a model stay its
    own; the axes of two models have nothing in common. So what is tested is whether directions
    are shared more than those of unrelated axes, and beside it whether the clouds differ at all.

    What it cannot tell: a model from its own fine-tuning, another prompt or a constant added to
    all vectors, which keep the axes (``shifted``); and rows of two models on one side, which share
    the axes of one of them (search each side by `mixed`).

    Raises
    ------
    GramianError : unequal widths, fewer than 3 shards of ``a``, or no rows.
    """
    one, other = (sum(side[1:], side[0]) for side in (a, b))
    shared = shared_directions(one, other)
    far = drift(other, a)
    rows = min(one.count, other.count)
    if not far.drifted:
        return Swap("same", shared, far, reason=f"samples of one cloud; {far}")
    if shared >= KIN * chance(one.d):
        reason = f"other text, but directions are shared ({shared:.2f}, unrelated models 0)"
        return Swap("shifted", shared, far, reason=reason)
    if rows < ROWS * one.d:
        reason = (
            f"{rows:,.0f} rows for {one.d} dimensions are too few to know their directions, "
            f"{ROWS * one.d:,} are enough"
        )
        return Swap("cannot tell", shared, far, reason=reason)
    if shared <= FOREIGN * chance(one.d):
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
    """Moments of a source by stretches of its rows in their order, from one pass.

    ``shards`` stretches; of a source whose rows are not counted beforehand up to twice as many.
    """
    size = FIRST if source.count is None else max(1, -(-source.count // shards))
    found: list[Moments] = []
    for batch in source.batches(min(size, BATCH)):
        rows = batch.vectors
        while len(rows):
            left = size - int(found[-1].count) if found else 0
            take = left if left > 0 else size
            part = Moments.from_rows(np.array(rows[:take]), quartic=False)
            if left > 0:
                found[-1] = found[-1] + part
            else:
                found.append(part)
            rows = rows[take:]
            if source.count is None and len(found) > 2 * shards:
                # too many: every two become one, and from now on stretches are twice as long
                size *= 2
                found = [sum(found[i + 1 : i + 2], found[i]) for i in range(0, len(found), 2)]
    if len(found) > 1 and 2 * found[-1].count < size:
        found[-2:] = [found[-2] + found[-1]]
    return found


def mixed(stretches: Sequence[Moments]) -> Swap:
    """Look for vectors of a second model in an index, by stretches of its rows in their order.

    The stretches are parted into the two groups that share the fewest directions, and these are
    compared as by `swapped`; stretches at which the group changes may hold both and are left out.
    An index of which parts were embedded anew is caught when they are longer than a few
    stretches; rows of two models in random order are not.

    Raises
    ------
    GramianError : fewer than 6 stretches, or one without directions.
    """
    if len(stretches) < 6:
        raise GramianError(f"{len(stretches)} stretches of an index, expected at least 6")
    logs = [_log(part) for part in stretches]
    cosines = [[_cosine(one, other) for other in logs] for one in logs]
    alike = torch.tensor(cosines, dtype=torch.float64)
    # the leading direction of the centred similarities parts them, as principal coordinates do
    centred = alike - alike.mean(0) - alike.mean(1, keepdim=True) + alike.mean()
    second = (eigh(centred)[1][:, -1] > 0).tolist()
    if sum(second) * 2 > len(second):
        second = [not side for side in second]
    edges = {i + j for i in range(len(second) - 1) if second[i] != second[i + 1] for j in (0, 1)}
    groups = []
    for side in (False, True):
        members = [i for i, found in enumerate(second) if found is side]
        inner = [i for i in members if i not in edges]
        groups.append([stretches[i] for i in inner or members])
    one, other = groups
    found = swapped(one if len(one) >= 3 else list(stretches), other)
    if found.verdict != "swapped":
        return found
    starts = [0, *itertools.accumulate(int(part.count) for part in stretches)]
    spans = [(starts[i], starts[i + 1]) for i, side in enumerate(second) if side]
    merged = spans[:1]
    for first, end in spans[1:]:
        if first == merged[-1][1]:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((first, end))
    change = next(i for i in range(1, len(second)) if second[i] != second[i - 1])
    return replace(found, at=starts[change], stretches=tuple(merged))
