"""Which blocks go: the cheapest disjoint cuts."""

from __future__ import annotations

import math
from collections.abc import Callable

from gramian.compress.depth.cut import Cut
from gramian.errors import GramianError


def cheapest(
    depth: int,
    remove: int,
    cuts: int,
    price: Callable[[Cut], float],
    allowed: Callable[[Cut], bool],
) -> tuple[Cut, ...]:
    """Up to ``cuts`` runs of blocks, ``remove`` blocks in all, of least total price.

    At least one block stays between two runs. Exact, by dynamic programming over the blocks.

    Raises
    ------
    GramianError : more blocks than there are, less than one cut, or no allowed choice.
    """
    if not 0 <= remove < depth:
        raise GramianError(
            f"remove is {remove}, expected from 0 to {depth - 1} of the {depth} blocks"
        )
    if cuts < 1:
        raise GramianError(f"cuts is {cuts}, expected 1 or more")
    prices: dict[Cut, float] = {}

    def cost(cut: Cut) -> float:
        if cut not in prices:
            prices[cut] = price(cut) if allowed(cut) else math.inf
        return prices[cut]

    # best[i][c, r]: over the first i blocks, c cuts that hold r blocks, block i - 1 kept.
    best: list[dict[tuple[int, int], tuple[float, tuple[Cut, ...]]]] = [{(0, 0): (0.0, ())}]
    for end in range(1, depth + 2):
        here: dict[tuple[int, int], tuple[float, tuple[Cut, ...]]] = {}
        # Either nothing goes before the kept block end - 1, or a cut ends there.
        for count in range(0, min(remove, end - 1) + 1):
            start = end - 1 - count
            for (used, gone), (total, chosen) in best[start].items():
                if count and (used == cuts or gone + count > remove):
                    continue
                cut = Cut(start, count)
                price_here = total + (cost(cut) if count else 0.0)
                key = (used + bool(count), gone + count)
                if price_here < here.get(key, (math.inf, ()))[0]:
                    here[key] = (price_here, (*chosen, cut) if count else chosen)
        best.append(here)
    found = [best[-1][c, remove] for c in range(cuts + 1) if (c, remove) in best[-1]]
    if not found:
        raise GramianError(
            f"no choice of {remove} blocks in {cuts} {'cut' if cuts == 1 else 'cuts'} that these "
            "moments have maps for; collect with a larger max_remove (--for depth:all), give more "
            "cuts, or drop"
        )
    return min(found, key=lambda entry: entry[0])[1]
