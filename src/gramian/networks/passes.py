"""How to collect within a budget: what is chosen, why, and what it takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from gramian.errors import GramianError
from gramian.networks.budget import Extent, in_groups
from gramian.networks.carry import Carry, carries
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.needs import Need, Needs
from gramian.networks.sites import parse

Mode = Literal["auto", "stream", "windows", "blockwise", "spill"]

WIDEST = 16384
"""Order of the largest scatter that is kept whole unless told otherwise."""
FEW = 2
"""Forward passes that are preferred to keeping rows on disk."""


@dataclass(frozen=True)
class Passes:
    """The needs whose statistics are in memory together, in turn, and why it is done so."""

    groups: tuple[Needs, ...]
    bytes: int
    """Largest statistics of any group, in memory at once."""
    mode: str
    """``stream``: one pass. ``windows``: a pass for every group. ``blockwise``: layer after layer,
    rows between them on disk. ``spill``: as blockwise, and some sums in memory maps on disk."""
    why: str = ""
    carry: Carry | None = None
    """What lies on disk between the layers, for ``blockwise`` and ``spill``."""
    mapped: tuple[int, ...] = ()
    """Groups whose sums lie in memory maps."""
    map_bytes: int = 0
    """Bytes of the largest group of memory maps."""

    @property
    def forwards(self) -> int:
        """Times that every layer runs over the data."""
        if self.carry is not None:
            return self.carry.forwards
        return len(self.groups)

    @property
    def disk(self) -> int:
        """Bytes of disk that are taken until the collection is complete."""
        return (0 if self.carry is None else self.carry.bytes or 0) + self.map_bytes

    def __str__(self) -> str:
        times = "one forward pass" if self.forwards == 1 else f"{self.forwards} forward passes"
        text = f"{self.mode}: {times} over the data, {size(self.bytes)} of statistics in memory"
        if self.carry is not None:
            text += f", {self.carry}"
        if self.mapped:
            text += f", sums of up to {size(self.map_bytes)} in memory maps on disk"
        return f"{text}; {self.why}" if self.why else text


def plan_passes(
    checkpoint: Checkpoint,
    needs: Needs,
    memory: int | None,
    *,
    mode: Mode = "auto",
    tokens: int | None = None,
    disk: int | None = None,
    precision: str = "float32",
    widest: int = WIDEST,
    carry: Literal["auto", "rows", "inputs"] = "auto",
) -> Passes:
    """Choose how to keep the statistics within ``memory`` bytes, from the configuration alone.

    Only the statistics of one fold are in memory at a time. ``auto`` takes the first that fits:
    one pass; two passes; blockwise, if the rows fit the disk; more passes; and spill when the
    statistics of a single need do not fit.

    Parameters
    ----------
    memory : bytes; None for no limit.
    mode : ``auto``, or the one to use.
    tokens : of all the data; None when that is not known beforehand.
    disk : bytes that may be taken on disk for rows and maps; None for no limit.
    precision : of the products.
    widest : order of the largest scatter that may be kept whole.
    carry : what lies on disk between layers; ``auto`` for the rows if the disk holds them.

    Raises
    ------
    GramianError : nothing to collect, an unknown mode, a budget that the mode does not hold (says
        the least that works), a disk that is too small, a site wider than ``widest``.
    """
    if mode not in get_args(Mode):
        raise GramianError(f"mode is {mode!r}, expected one of {', '.join(get_args(Mode))}")
    needs = needs.resolved(checkpoint.blueprint)
    if not needs.items:
        raise GramianError("nothing to collect: the needs are empty")
    planner = _Planner(checkpoint, tuple(sorted(needs, key=_depth)), memory, disk, precision, carry)
    planner.check_width(widest)
    return planner.choose(mode, tokens)


def statistics_bytes(checkpoint: Checkpoint, needs: Needs, precision: str = "float32") -> int:
    """Bytes that accumulating one fold takes: the sums, as many again for the sink rows (which
    are a thin factor while few), product buffers, and handing the widest to the writer."""
    blueprint = checkpoint.blueprint
    return Extent.of(needs.resolved(blueprint), blueprint.site_width, precision).total


def size(count: int) -> str:
    """``1.2 GB``."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= scale:
            return f"{count / scale:,.1f} {unit}"
    return f"{count / 1e3:,.1f} kB"


@dataclass(frozen=True)
class _Planner:
    checkpoint: Checkpoint
    needs: tuple[Need, ...]
    memory: int | None
    disk: int | None
    precision: str
    what: Literal["auto", "rows", "inputs"]

    def extent(self, needs: Iterable[Need]) -> Extent:
        return Extent.of(needs, self.checkpoint.blueprint.site_width, self.precision)

    def fits(self, needs: Iterable[Need]) -> bool:
        return self.memory is None or self.extent(needs).total <= self.memory

    def check_width(self, widest: int) -> None:
        width = self.checkpoint.blueprint.site_width
        for need in self.needs:
            whole = need.partner is not None or need.order == "full"
            if whole and width(need.site) > widest:
                d = width(need.site)
                raise GramianError(
                    f"{need.site} is {d:,} wide: its scatter would have {d * d:,} entries, and the "
                    f"limit is a width of {widest:,}; keep its diagonal (order='diagonal'), push "
                    "narrower moments through the weights, or raise the limit (widest=...)"
                )

    def choose(self, mode: Mode, tokens: int | None) -> Passes:
        whole = self.extent(self.needs).total
        if mode == "stream" or (mode == "auto" and self.fits(self.needs)):
            if not self.fits(self.needs):
                raise self.refused("one pass", whole)
            why = "" if self.memory is None else f"it fits the budget of {size(self.memory)}"
            return Passes((Needs.of(self.needs),), whole, "stream", why)
        alone = max(self.needs, key=lambda need: self.extent([need]).total)
        tight = not self.fits([alone])
        if tight and mode not in ("auto", "spill"):
            raise self.refused(f"the statistics of {_title(alone)}", self.extent([alone]).total)
        one = f"one pass would take {size(whole)}"
        if self.memory is not None:
            one += f", the budget is {size(self.memory)}"
        if tight or mode == "spill":
            if tight:
                one += f", {_title(alone)} alone takes {size(self.extent([alone]).total)}"
            return self.spill(tokens, one if tight else "as asked", everything=not tight)
        groups = self.grouped(by_layer=mode == "blockwise" and self.memory is None)
        if mode == "windows" or (mode == "auto" and len(groups) <= FEW):
            return self.windows(groups, one)
        carry, obstacle = self.carry(tokens)
        if carry is None:
            if mode == "auto":
                return self.windows(groups, f"{one}; blockwise is not possible: {obstacle}")
            raise GramianError(f"mode='blockwise' is not possible: {obstacle}")
        if self.memory is not None:
            one += f", windows would take {len(groups)} forward passes"
        return Passes(groups, self.largest(groups), "blockwise", one, carry)

    def windows(self, groups: Sequence[Needs], why: str) -> Passes:
        return Passes(tuple(groups), self.largest(groups), "windows", why)

    def largest(self, groups: Iterable[Needs]) -> int:
        return max(self.extent(group.items).total for group in groups)

    def grouped(self, *, by_layer: bool = False) -> tuple[Needs, ...]:
        """Needs in network order, a new group where the next one would not fit (or belongs to
        the next layer); a site that two groups share is collected in both and written once."""

        def apart(before: Need, need: Need) -> bool:
            return by_layer and _depth(before)[0] != _depth(need)[0]

        return tuple(Needs.of(group) for group in in_groups(self.needs, self.fits, apart))

    def spill(self, tokens: int | None, why: str, *, everything: bool) -> Passes:
        carry, obstacle = self.carry(tokens)
        if carry is None:
            raise GramianError(f"{why}; keeping sums on disk is not possible: {obstacle}")
        groups: list[Needs] = []
        mapped: list[int] = []
        for group in self.grouped():
            on_disk = everything or not self.fits(group.items)
            mapped += [len(groups)] * on_disk
            groups.append(group)
        maps = max(self.extent(groups[index].items).large for index in mapped)
        vectors = max(self.extent(groups[index].items).vectors for index in mapped)
        if self.memory is not None and vectors > self.memory:
            raise self.refused("sums in memory maps", vectors)
        if self.disk is not None and (carry.bytes or 0) + maps > self.disk:
            raise GramianError(
                f"{why}; sums and rows on disk take {size((carry.bytes or 0) + maps)}, of which "
                f"{size(self.disk)} are free; give a larger memory budget, a roomier disk or fewer "
                "tokens"
            )
        inside = [
            self.extent(group.items).total for i, group in enumerate(groups) if i not in mapped
        ]
        return Passes(
            tuple(groups), max([vectors, *inside]), "spill", why, carry, tuple(mapped), maps
        )

    def carry(self, tokens: int | None) -> tuple[Carry | None, str]:
        return carries(self.checkpoint, self.needs, tokens, self.disk, self.what)

    def refused(self, what: str, least: int) -> GramianError:
        return GramianError(
            f"a memory budget of {self.memory:,} bytes cannot hold {what} ({least:,} bytes); the "
            f"least budget that works for these needs is {least:,} bytes"
        )


def _title(need: Need) -> str:
    return need.site if need.partner is None else f"{need.site} with {need.partner}"


def _depth(need: Need) -> tuple[int, str, str]:
    layer = parse(need.site).layer
    before = parse(need.site).kind == "embed"
    return (
        -1 if before else 10**9 if layer is None else layer,
        need.site,
        need.partner or "",
    )
