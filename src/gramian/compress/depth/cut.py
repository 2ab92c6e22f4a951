"""A run of consecutive blocks that goes, and what the moments say of it without a fit."""

from __future__ import annotations

from dataclasses import dataclass

from gramian.errors import GramianError
from gramian.moments import Moments, MomentSet
from gramian.moments.lookup import Folds
from gramian.networks.between import places
from gramian.networks.blueprint import Blueprint
from gramian.networks.sites import BETWEEN


@dataclass(frozen=True, order=True)
class Cut:
    """``count`` blocks from ``start`` on."""

    start: int
    count: int

    @property
    def end(self) -> int:
        """The first block after it."""
        return self.start + self.count

    @property
    def layers(self) -> tuple[int, ...]:
        """The blocks that go."""
        return tuple(range(self.start, self.end))

    def __str__(self) -> str:
        last = self.end - 1
        return f"block {last}" if self.count == 1 else f"blocks {self.start} to {last}"


@dataclass(frozen=True)
class StreamChange:
    """How the residual stream differs at every two depths, over some rows."""

    count: float
    """Rows."""
    cosines: dict[tuple[int, int], float]
    """Mean cosine of the rows at two depths."""
    distances: dict[tuple[int, int], float]
    """Mean squared distance."""
    lengths: tuple[float, ...]
    """Mean squared length at every depth."""

    @classmethod
    def of(
        cls, blueprint: Blueprint, moments: MomentSet, fold: Folds, *, sinks: bool = False
    ) -> StreamChange:
        """Of all rows that are no sinks, or with ``sinks`` of the sink rows alone."""
        residual, prefix = blueprint.residual_sites(), blueprint.main.prefix
        columns = list(places(len(residual)))
        sums = {name: _sums(moments, f"{prefix}{name}", fold, sinks) for name in BETWEEN}
        count = sums["cosines"][0]
        if count <= 0:
            return cls(0.0, {}, {}, ())
        cosines, distances = (
            dict(zip(columns, (x / count for x in total), strict=True))
            for _, total in sums.values()
        )
        lengths = tuple(_energy(moments, site, fold, sinks) / count for site in residual)
        return cls(count, cosines, distances, lengths)


def cuts_of(layers: tuple[int, ...], depth: int) -> tuple[Cut, ...]:
    """The runs that some blocks form.

    Raises
    ------
    GramianError : a block that is not there or twice, or all of them.
    """
    chosen = sorted(layers)
    if len(set(chosen)) != len(chosen) or any(not 0 <= i < depth for i in chosen):
        raise GramianError(
            f"layers {list(layers)}: expected different blocks from 0 to {depth - 1}"
        )
    if len(chosen) == depth:
        raise GramianError(f"all {depth} blocks are to go; at least one has to stay")
    found: list[Cut] = []
    for layer in chosen:
        if found and found[-1].end == layer:
            found[-1] = Cut(found[-1].start, found[-1].count + 1)
        else:
            found.append(Cut(layer, 1))
    return tuple(found)


def _sums(moments: MomentSet, site: str, fold: Folds, sinks: bool) -> tuple[float, list[float]]:
    """Rows, and the sum of every column."""
    kept = moments.moments(site, fold)
    if not sinks:
        return kept.count, (kept.mean * kept.count).tolist()
    every = moments.moments(site, fold, sinks=True)
    total = every.mean * every.count - kept.mean * kept.count
    return every.count - kept.count, total.tolist()


def _energy(moments: MomentSet, site: str, fold: Folds, sinks: bool) -> float:
    """``sum |x|^2``."""
    kept = _squares(moments.moments(site, fold))
    return _squares(moments.moments(site, fold, sinks=True)) - kept if sinks else kept


def _squares(moments: Moments) -> float:
    return moments.trace + moments.count * float(moments.mean.square().sum())
