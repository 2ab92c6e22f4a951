"""Which block writes the attention sink: the one after which sink rows are long."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from gramian.compress.depth.cut import Cut, StreamChange

JUMP = 3.0
"""Times that a block must lengthen the sink rows to be called their writer."""
LONG = 4.0
"""Times the length of the other rows that sink rows must have after it."""


@dataclass(frozen=True)
class SinkWriter:
    """The block that makes sink rows long."""

    layer: int
    before: float
    """Root mean square length of the sink rows as they enter it."""
    after: float
    others: float
    """The same of all other rows, after it."""

    def __str__(self) -> str:
        return (
            f"block {self.layer} writes the attention sink (sink rows of length "
            f"{self.before:,.0f} before and {self.after:,.0f} after it, others {self.others:,.0f})"
        )


def sink_writer(rows: StreamChange, sinks: StreamChange) -> SinkWriter | None:
    """The block after which sink rows are longest for what they were; None where none is."""
    found: SinkWriter | None = None
    if sinks.count <= 0:
        return None
    for layer in range(len(rows.lengths) - 1):
        before, after = (math.sqrt(max(0.0, sinks.lengths[layer + i])) for i in (0, 1))
        others = math.sqrt(rows.lengths[layer + 1])
        if after < JUMP * before or after < LONG * others:
            continue
        if found is None or after - before > found.after - found.before:
            found = SinkWriter(layer, before, after, others)
    return found


def touches(writer: SinkWriter | None, cut: Cut, *, fitted: bool) -> bool:
    """Whether a cut takes the writer out or, with a map in its place, sits on its output."""
    if writer is None:
        return False
    return writer.layer in cut.layers or (fitted and writer.layer == cut.start - 1)


def warnings_for(writer: SinkWriter | None, cuts: Iterable[Cut], *, fitted: bool) -> list[str]:
    """What to say of cuts that touch the writer."""
    said: list[str] = []
    for cut in cuts:
        if writer is None or not touches(writer, cut, fitted=fitted):
            continue
        if writer.layer in cut.layers:
            said.append(f"the cut of {cut} takes it out: {writer}; choose other blocks")
        else:
            said.append(
                f"the cut of {cut} follows it, and its map is fitted on rows that the sink owns: "
                f"{writer}; choose other blocks"
            )
    return said
