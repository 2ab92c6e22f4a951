"""Pairs that are not pairs: found by what each half of the pairs says of the other."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.mapped_rows import mapped
from gramian.bridge.paired.assignment import Keys
from gramian.bridge.paired.families import Fitting, Setting
from gramian.bridge.paired.fold_moments import plain
from gramian.bridge.paired.stream import PAIR, PRODUCT, PairStream
from gramian.maps import LinearMap
from gramian.moments import JointMoments, squared_error

ROUNDS = 2
"""Times that maps are fitted without the suspects of the time before."""
LEVELS = (0.95, 0.9, 0.8)
"""Share of wrong pairs that is to be found: the first that right pairs leave alone."""
MOST = 0.6
"""Share of wrong pairs above which nobody can say which are the right ones."""
FEWEST = 100
"""Pairs below which nothing is judged."""
JUDGES = (
    *(Setting("ridge", lam) for lam in (1e-3, 1e-2, 1e-1, 1.0)),
    Setting("shrunk", 1.0, "scaled"),
)


@dataclass(frozen=True, eq=False)
class Suspects:
    """Pairs whose two rows seem to be of different items."""

    rows: NDArray[np.int64]
    """Their row numbers, ascending."""
    ids: list[Any]
    """Their ids; row numbers when there are none."""
    pairs: int
    """How many were judged."""
    share: float
    """Estimated share of wrong pairs; nan when it cannot be told."""
    note: str
    """What was found, or why nothing can be told."""
    told: bool = True
    """Whether wrong pairs can be told from right ones here."""
    keys: Keys = field(default_factory=lambda: np.empty(0, np.uint64), repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def keep(self) -> NDArray[np.bool_]:
        """(pairs,) false for suspects."""
        keep = np.ones(self.pairs, np.bool_)
        keep[self.rows] = False
        return keep

    def to_json(self) -> dict[str, Any]:
        """Counts, and at most the first hundred ids as text."""
        return {
            "suspects": len(self),
            "pairs": self.pairs,
            "share": None if math.isnan(self.share) else self.share,
            "told": self.told,
            "note": self.note,
            "ids": [str(value) for value in self.ids[:100]],
        }


def find_suspects(
    stream: PairStream,
    x: NDArray[Any],
    y: NDArray[Any],
    ids: list[Any] | None,
    *,
    intercept: bool,
) -> Suspects:
    """Which pairs fit no better than partners drawn at random.

    Pairs are halved by their hash; a map fitted on one half judges the other, so that no pair
    excuses itself. A pair is a suspect when its misfit is above the 5 % quantile of the misfit of
    pairs that are surely wrong: the same rows, each with the partner of another. The maps are
    fitted again without suspects, and all pairs judged again: four passes over the rows. Nothing
    is added to ``stream``, which lends its folds and its products.

    When right pairs reach into the misfits of wrong ones the level is lowered, to 80 % of wrong
    pairs at least; if they still do, nobody is a suspect and ``told`` is False.

    Raises
    ------
    GramianError : NaN or infinity in a row.
    """
    parts = [(part, keys) for part, keys, _ in stream.chunks(x, y, ids)]
    keep = np.ones(len(x), np.bool_)
    verdict = _Verdict(keep, math.nan, f"{len(x)} pairs are too few to tell wrong ones")
    for _ in range(ROUNDS if len(x) >= FEWEST else 0):
        own, wrong = np.empty(len(x), np.float32), np.full(len(x), np.nan, np.float32)
        maps = _judges(stream, parts, x, y, keep, intercept)
        if maps is None:
            break
        for part, keys in parts:
            half = _half(keys)
            for side, judge in enumerate(reversed(maps)):
                mine = part.start + np.flatnonzero(half == side)
                for some in np.array_split(mine, max(1, len(mine) // PRODUCT)):
                    image, target = mapped(judge.map, x[some]), np.asarray(y[some])
                    own[some] = _misfit(image, target, judge.centre)
                    if len(some) > 1:
                        other = np.roll(target, len(some) // 2, axis=0)
                        wrong[some] = _misfit(image, other, judge.centre)
        verdict = _judged(own, wrong[~np.isnan(wrong)])
        keep = verdict.keep
        if math.isnan(verdict.share):
            break
    rows = np.flatnonzero(~keep)
    every = np.concatenate([keys for _, keys in parts]) if parts else np.empty(0, np.uint64)
    return Suspects(
        rows,
        rows.tolist() if ids is None else [ids[row] for row in rows],
        len(x),
        verdict.share,
        verdict.note,
        not math.isnan(verdict.share),
        every[rows],
    )


@dataclass(frozen=True, eq=False)
class _Judge:
    map: LinearMap
    centre: NDArray[np.float64]
    """(dy,) mean of the targets it was fitted on."""


@dataclass(frozen=True, eq=False)
class _Verdict:
    keep: NDArray[np.bool_]
    share: float
    note: str


def _half(keys: Keys) -> NDArray[np.int8]:
    """0 or 1, from the lowest bit, which no fold is decided by."""
    return (keys & np.uint64(1)).astype(np.int8)


def _judges(
    stream: PairStream,
    parts: list[tuple[slice, Keys]],
    x: NDArray[Any],
    y: NDArray[Any],
    keep: NDArray[np.bool_],
    intercept: bool,
) -> list[_Judge] | None:
    """One map per half; each of the setting that errs least on the other half."""
    names = ("train", "select")
    sums = {name: stream.accumulator() for name in names}
    for part, keys in parts:
        stream.update(sums, x[part], y[part], _half(keys), keep[part], part.start)
    if min(total.count for total in sums.values()) < FEWEST / 4:
        return None
    joints = [plain(sums[name].joint(PAIR)) for name in names]
    if min(joint.x.trace for joint in joints) <= 0:
        return None
    return [
        _judge(one, other, intercept) for one, other in zip(joints, reversed(joints), strict=True)
    ]


def _judge(joint: JointMoments, other: JointMoments, intercept: bool) -> _Judge:
    fitting = Fitting(joint, intercept)
    maps = [fitting.map(setting) for setting in JUDGES]
    best = min(maps, key=lambda map: squared_error(other, map))
    return _Judge(best, joint.y.mean.numpy())


def _misfit(
    image: NDArray[Any], target: NDArray[Any], centre: NDArray[np.float64]
) -> NDArray[np.float32]:
    """``|u - v|^2 / (|u|^2 + |v|^2)`` about the centre: 0 when equal, about 1 when unrelated."""
    dtype = np.float64 if target.dtype == np.float64 else np.float32
    u, v = image - centre.astype(dtype), target - centre.astype(dtype)
    size = np.einsum("ij,ij->i", u, u) + np.einsum("ij,ij->i", v, v)
    product = np.einsum("ij,ij->i", u, v)
    misfit: NDArray[np.float32] = 1.0 - 2.0 * product / np.where(size > 0, size, 1)
    return misfit.astype(np.float32)


def _judged(own: NDArray[np.float32], wrong: NDArray[np.float32]) -> _Verdict:
    """Who is above the misfit of wrong pairs, and whether that many can be wrong.

    Half of all wrong pairs lie above the median of ``wrong``, where right ones hardly reach: twice
    the share of pairs there is the share of wrong ones. A level is plausible when it flags no more
    than that share leaves room for.
    """
    n = len(own)
    everyone = np.ones(n, np.bool_)
    share = 2.0 * float((own > np.quantile(wrong, 0.5)).mean())
    if share > MOST:
        return _Verdict(
            everyone, math.nan, "cannot tell wrong pairs: most pairs fit no better than wrong ones"
        )
    noise = 2.0 * math.sqrt(max(share, 1.0 / n) / n)
    for level in LEVELS:
        cut = np.quantile(wrong, 1.0 - level)
        flagged = own > cut
        powerful = float((wrong > cut).mean()) > level - 0.05
        if powerful and float(flagged.mean()) <= 1.1 * level * share + 0.005 + noise:
            note = (
                f"{int(flagged.sum())} of {n} pairs seem wrong and were left out; about "
                f"{share * n:.0f} are"
            )
            return _Verdict(~flagged, share, note if flagged.any() else "no pair seems wrong")
    return _Verdict(
        everyone,
        math.nan,
        "cannot tell wrong pairs: many pairs fit as badly as wrong ones, more than can be wrong",
    )
