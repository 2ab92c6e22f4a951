"""From two sources of vectors that share no item to a bridge in a folder."""

from __future__ import annotations

import time
from collections.abc import Callable

from gramian.bridge import cautions
from gramian.bridge.building import Built, Known, Sides, disagreements, finite, space_of
from gramian.bridge.cautions import Lengths
from gramian.bridge.saved import DIRECTIONS, SavedBridge
from gramian.bridge.unpaired import UnpairedBridge
from gramian.bridge.vectors import VectorSource
from gramian.errors import GramianError

BATCH = 8192


def build_unpaired(
    old: VectorSource,
    new: VectorSource,
    *,
    direction: str = "query_to_old",
    estimator: UnpairedBridge | None = None,
    known: Known = ({}, {}),
    progress: Callable[[int, int | None], None] = lambda done, total: None,
) -> Built:
    """Fit a bridge on vectors of different items of the same kind; no pair is known.

    Both sides are read once; the estimator keeps ``pool_rows`` rows of each. The other parameters
    are those of `build`. There is no error to report: ``confidence`` says whether the two clouds
    match in one way only.

    Raises
    ------
    GramianError : an unknown direction, too few rows, or clouds that match in no clear way.
    """
    if direction not in DIRECTIONS:
        raise GramianError(f"direction is {direction!r}, expected {' or '.join(DIRECTIONS)}")
    started = time.perf_counter()
    sides: Sides = (new, old) if direction == "query_to_old" else (old, new)
    stated = known[::-1] if direction == "query_to_old" else known
    found = estimator or UnpairedBridge()
    lengths = Lengths(), Lengths()
    clouds = found.new_cloud(0), found.new_cloud(1)
    for side, cloud, length in zip(sides, clouds, lengths, strict=True):
        for batch in side.batches(BATCH):
            cloud.update(batch.vectors, f"rows of {side.address}")
            length.update(batch.vectors)
            progress(cloud.count, side.count)
    found.set_params(normalise=lengths[1].unit)
    found.fit_clouds(*clouds)
    spaces = [
        space_of(side, length.unit, one)
        for side, length, one in zip(sides, lengths, stated, strict=True)
    ]
    warnings = [
        *disagreements((old, new), known),
        *cautions.of_texts(sides),
        "no pair was known, so no error is: judge the bridge on queries before using it",
    ]
    report = {
        "method": "unpaired",
        "direction": direction,
        "pairs": 0,
        "rows": {"source": clouds[0].count, "target": clouds[1].count},
        "dim_from": spaces[0].dim,
        "dim_to": spaces[1].dim,
        "confidence": found.confidence_,
        "evidence": found.evidence_.to_json(),
        "warnings": warnings,
        "seconds": time.perf_counter() - started,
    }
    bridge = SavedBridge(
        found.map_,
        spaces[0],
        spaces[1],
        direction,
        "unpaired",
        0,
        normalise=bool(found.normalise),
        report=finite(report),
        paired=False,
    )
    return Built(bridge, tuple(warnings))
