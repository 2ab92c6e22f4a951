"""Pairs that go by once: moments per fold, and a few rows of the folds that judge."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gramian.bridge.paired.assignment import Keys, folds_of, keys_of
from gramian.bridge.paired.fold_moments import plain, without
from gramian.bridge.paired.held import HeldRows, Holding
from gramian.errors import GramianError
from gramian.moments import FOLDS, Accumulator, JointMoments, NonFiniteRows, Pair, Shares

CHUNK = 32768
"""Rows dealt together: the shares that judge fill most of one product of an accumulator."""
PRODUCT = 4096
"""Rows of one product at most."""
PAIR = Pair("x", "y")
Chunk = tuple[slice, Keys, NDArray[np.int8]]
"""Which rows, and the key and the fold of each."""


class PairStream:
    """Moments of pairs by fold, added to and taken from batch by batch; rows are not kept.

    ``held`` keeps at most ``limit`` pairs of ``select`` and of ``report`` as rows.
    """

    def __init__(
        self,
        dx: int,
        dy: int,
        *,
        shares: Shares,
        seed: int,
        limit: int,
        target: str,
        precision: str,
    ) -> None:
        self.dx, self.dy = dx, dy
        self.shares, self.seed = shares, seed
        self._made = {"orders": {"y": target}, "precision": precision}
        self.added = {fold: self.accumulator() for fold in FOLDS}
        self.removed = {fold: self.accumulator() for fold in FOLDS}
        self._holding = {fold: Holding(limit, dx, dy) for fold in FOLDS[1:]}

    def accumulator(self) -> Accumulator:
        """Sums like those of a fold, without a row in them."""
        return Accumulator({"x": self.dx, "y": self.dy}, [PAIR], **self._made)  # type: ignore[arg-type]

    @property
    def held(self) -> dict[str, HeldRows]:
        """The rows that are kept of ``select`` and of ``report``."""
        return {fold: holding.now() for fold, holding in self._holding.items()}

    @property
    def count(self) -> float:
        """Pairs so far."""
        return sum(self.added[f].count - self.removed[f].count for f in FOLDS)

    def add(
        self,
        x: NDArray[Any],
        y: NDArray[Any],
        ids: list[Any] | None = None,
        keep: NDArray[np.bool_] | None = None,
        *,
        weight: NDArray[np.float64] | None = None,
        fold: str | None = None,
    ) -> None:
        """Add pairs (n, dx) and (n, dy); ``keep`` (n,) leaves out those where it is false.

        weight : (n,) above zero. fold : where all of them go; None deals them.

        Raises
        ------
        GramianError : NaN or infinity in a row; the chunks before it have been added. An id that
            is among the held rows already; nothing has been added then.
        """
        parts = self.chunks(x, y, ids)
        if ids is not None:
            parts = iter(self._new(list(parts), ids))
        for part, keys, folds in parts:
            chosen = None if keep is None else keep[part]
            if fold is not None:
                folds = np.full_like(folds, FOLDS.index(fold))
            heavy = None if weight is None else weight[part]
            self.update(self.added, x[part], y[part], folds, chosen, part.start, heavy)
            self.hold(keys, x[part], y[part], folds, chosen)

    def _new(self, parts: list[Chunk], ids: list[Any]) -> list[Chunk]:
        """The parts themselves, when none of their ids is held."""
        known = np.concatenate([rows.keys for rows in self.held.values()])
        for part, keys, _ in parts:
            again = np.flatnonzero(np.isin(keys, known))
            if len(again):
                raise GramianError(
                    f"id {str(ids[part.start + again[0]])!r} was added before; add every pair "
                    "once, or remove the old one first"
                )
        return parts

    def hold(
        self,
        keys: Keys,
        x: NDArray[Any],
        y: NDArray[Any],
        folds: NDArray[np.int8],
        keep: NDArray[np.bool_] | None = None,
    ) -> None:
        """Keep what belongs to the held rows of a chunk."""
        for number, fold in enumerate(FOLDS[1:], 1):
            mine = folds == number
            which = np.flatnonzero(mine if keep is None else mine & keep)
            self._holding[fold].add(keys, x, y, which)

    def remove(
        self,
        x: NDArray[Any],
        y: NDArray[Any],
        ids: list[Any] | None = None,
        never: Keys | None = None,
    ) -> None:
        """Take out pairs that were added before; those of the keys ``never`` were not.

        Raises
        ------
        GramianError : more pairs than a fold holds: some of them were never added.
        """
        parts = []
        for part, keys, folds in self.chunks(x, y, ids):
            if never is not None and len(never):
                folds = np.where(np.isin(keys, never), np.int8(len(FOLDS)), folds)
            parts.append((part, keys, folds))
        leaving = np.bincount(
            np.concatenate([[], *(f for *_, f in parts)]).astype(int), minlength=len(FOLDS)
        )[: len(FOLDS)]
        for fold, gone in zip(FOLDS, leaving, strict=True):
            there = self.added[fold].count - self.removed[fold].count
            if gone > there:
                raise GramianError(
                    f"{gone} pairs of the fold {fold} to remove and {there:g} there: some were "
                    "never added, or added with other ids"
                )
        for part, keys, folds in parts:
            self.update(self.removed, x[part], y[part], folds, None, part.start)
            for fold in FOLDS[1:]:
                self._holding[fold].remove(keys)

    def chunks(self, x: NDArray[Any], y: NDArray[Any], ids: list[Any] | None) -> Iterator[Chunk]:
        """Stretches of the rows, with key and fold of each."""
        if len(x) != len(y):
            raise GramianError(f"{len(x)} rows of X and {len(y)} of Y, expected pairs")
        for start in range(0, len(x), CHUNK):
            part = slice(start, min(start + CHUNK, len(x)))
            keys = keys_of(x[part], None if ids is None else ids[part], self.seed)
            yield part, keys, folds_of(keys, self.shares)

    def update(
        self,
        sums: dict[str, Accumulator],
        x: NDArray[Any],
        y: NDArray[Any],
        folds: NDArray[np.int8],
        keep: NDArray[np.bool_] | None,
        start: int,
        heavy: NDArray[np.float64] | None = None,
    ) -> None:
        """Add a chunk to sums by fold; ``start`` is the number of its first row, ``heavy`` (n,)
        the weight of each.

        Raises
        ------
        GramianError : NaN or infinity in a row.
        """
        for number, fold in enumerate(FOLDS):
            mine = folds == number
            which = np.flatnonzero(mine if keep is None else mine & keep)
            for some in np.array_split(which, -(-len(which) // PRODUCT)) if len(which) else ():
                low, high = int(some[0]), int(some[-1]) + 1
                rows = {"x": tensor_of(x[low:high]), "y": tensor_of(y[low:high])}
                weight = None
                if len(some) < high - low or heavy is not None:
                    weight = np.zeros(high - low)
                    weight[some - low] = 1.0 if heavy is None else heavy[some]
                try:
                    sums[fold].update(rows, weight)
                except NonFiniteRows as error:
                    side, row = error.site.upper(), start + low + error.row
                    raise GramianError(
                        f"{side}: row {row} {error.reason or 'holds NaN or infinity'}; leave it "
                        "out or embed it again"
                    ) from None

    def folds(self) -> dict[str, JointMoments]:
        """Joint moments of every fold that holds pairs."""
        result = {}
        for fold in FOLDS:
            added, removed = self.added[fold], self.removed[fold]
            if added.count <= removed.count:
                continue
            joint = plain(added.joint(PAIR))
            if removed.count:
                joint = without(joint, plain(removed.joint(PAIR)))
            result[fold] = joint
        return result


def tensor_of(rows: NDArray[Any]) -> Tensor:
    """Rows as a tensor over the same memory, which is only read."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
        return torch.from_numpy(np.ascontiguousarray(rows))
