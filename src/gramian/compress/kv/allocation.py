"""How many directions of each part stay, when their sum is given."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from torch import Tensor

from gramian.errors import GramianError


def greedy(
    curves: Sequence[Tensor], weights: Sequence[float], total: int, *, multiple: int = 1
) -> list[int]:
    """Ranks that lose least in the weighted sum of their tails, exactly.

    ``curves`` are descending, so what one more direction saves never grows and taking the best
    each time is optimal. Every part keeps ``multiple`` directions or all it has.

    Raises
    ------
    GramianError : the total is less than the least of every part, or more than there is.
    """
    sizes = [len(curve) for curve in curves]
    ranks = [min(multiple, size) for size in sizes]
    left = total - sum(ranks)
    if left < 0 or total > sum(sizes):
        raise GramianError(
            f"{total} directions for {len(curves)} parts: expected between {sum(ranks)} (at least "
            f"{multiple} in each) and {sum(sizes)}; keep more, or use a smaller multiple"
        )
    sums = [curve.cumsum(0).tolist() for curve in curves]

    def step(i: int) -> tuple[float, int, int]:
        """What the next block of a part saves for each direction, negated for the heap."""
        size = min(multiple, sizes[i] - ranks[i])
        gain = weights[i] * (sums[i][ranks[i] + size - 1] - sums[i][ranks[i] - 1]) / size
        return -gain, i, size

    heap = [step(i) for i in range(len(curves)) if ranks[i] < sizes[i]]
    heapq.heapify(heap)
    while heap and left:
        _, i, size = heapq.heappop(heap)
        if size > left:
            continue
        ranks[i] += size
        left -= size
        if ranks[i] < sizes[i]:
            heapq.heappush(heap, step(i))
    return ranks


def uniform(sizes: Sequence[int], keep: float, *, multiple: int = 1) -> list[int]:
    """The same share of every part, at least one block."""
    found = []
    for size in sizes:
        rank = multiple * max(1, math.floor(keep * size / multiple + 1e-9))
        found.append(min(rank, size))
    return found
