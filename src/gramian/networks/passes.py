"""How to collect within a budget: one pass over the data, or one for every window of layers."""

from __future__ import annotations

from dataclasses import dataclass

from gramian.errors import GramianError
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.needs import Need, Needs
from gramian.networks.sites import parse


@dataclass(frozen=True)
class Passes:
    """The needs of every pass over the data, and why there are so many."""

    groups: tuple[Needs, ...]
    bytes: int
    """Largest statistics of any pass, in memory at once."""
    mode: str
    """``stream`` (one pass) or ``windows`` (several, each keeping the moments of some layers)."""

    def __str__(self) -> str:
        size = f"{self.bytes / 1e6:,.1f} MB of statistics in memory"
        if self.mode == "stream":
            return f"one pass over the data, {size}"
        return f"{len(self.groups)} passes over the data, a window of layers each, {size}"


def plan_passes(checkpoint: Checkpoint, needs: Needs, memory: int | None) -> Passes:
    """Group the needs so that the statistics of every group fit into ``memory`` bytes.

    Only the statistics of one fold are in memory at a time. Needs are taken in network order and
    a new group starts when the next one would not fit; a site that two groups share is collected
    in both and written once.

    Raises
    ------
    GramianError : one need alone is larger than the budget; the message says the least budget.
    """
    needs = needs.resolved(checkpoint.blueprint)
    if not needs.items:
        raise GramianError("nothing to collect: the needs are empty")
    total = statistics_bytes(checkpoint, needs)
    if memory is None or total <= memory:
        return Passes((needs,), total, "stream")
    groups: list[Needs] = []
    current = Needs.of(())
    for need in sorted(needs, key=_depth):
        alone = statistics_bytes(checkpoint, Needs.of([need]))
        if alone > memory:
            least = max(statistics_bytes(checkpoint, Needs.of([n])) for n in needs)
            raise GramianError(
                f"a memory budget of {memory:,} bytes cannot hold the statistics of {need.site}"
                f"{f' with {need.partner}' if need.partner else ''} ({alone:,} bytes); the least "
                f"budget that works for these needs is {least:,} bytes"
            )
        joined = current + Needs.of([need])
        if current.items and statistics_bytes(checkpoint, joined) > memory:
            groups.append(current)
            joined = Needs.of([need])
        current = joined
    groups.append(current)
    largest = max(statistics_bytes(checkpoint, group) for group in groups)
    return Passes(tuple(groups), largest, "windows")


def statistics_bytes(checkpoint: Checkpoint, needs: Needs) -> int:
    """Bytes that accumulating one fold holds: the sums, as many again for the sink rows (which
    are a thin factor while few), and the product scratch of the widest pair."""
    blueprint = checkpoint.blueprint
    widest = max(
        blueprint.site_width(need.site) * blueprint.site_width(need.partner or need.site)
        for need in needs.items
    )
    return 2 * needs.cost(checkpoint).bytes_per_fold + 4 * widest


def _depth(need: Need) -> tuple[int, str, str]:
    layer = parse(need.site).layer
    return (
        -1 if layer is None and need.site == "embed" else 10**9 if layer is None else layer,
        need.site,
        need.partner or "",
    )
