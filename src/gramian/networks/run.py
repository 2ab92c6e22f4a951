"""A collection under way: which batch of which pass it is at, and where its rows come from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from gramian.data import Total
from gramian.moments import HeldShards, MomentSet, MomentSetWriter
from gramian.moments.place import on_disk
from gramian.networks.journal import Journal
from gramian.networks.sums import Sums

Progress = Callable[[int, int | None], None]
"""Called with (tokens done, tokens in all or None) after every batch of every pass."""


class Streamed(Protocol):
    """What a run needs to know of a batch."""

    @property
    def fold(self) -> str: ...

    @property
    def tokens(self) -> int: ...


Group = TypeVar("Group")
B = TypeVar("B", bound=Streamed)
S = TypeVar("S", bound=Sums)
To = TypeVar("To", bound=Sums, contravariant=True)
Read = TypeVar("Read", bound=Streamed, contravariant=True)


class Source(Protocol[B, To]):
    """Where the rows of a pass come from."""

    def batches(self, start: int) -> Iterator[B]:
        """All batches from one on, fold after fold; the same in every pass."""

    def add(self, sums: To, batch: B, index: int) -> None:
        """Add the rows of one batch."""

    def done(self, number: int) -> None:
        """The statistics of a group are complete."""


class Updates(Protocol[Read]):
    """Sums that run the network over a batch themselves."""

    def update(self, batch: Read) -> None: ...


@dataclass(frozen=True)
class Network(Generic[B]):
    """Rows straight from the whole network."""

    stream: Callable[[int], Iterator[B]]

    def batches(self, start: int) -> Iterator[B]:
        return self.stream(start)

    def add(self, sums: Updates[B], batch: B, index: int) -> None:
        sums.update(batch)

    def done(self, number: int) -> None:
        """Nothing is held for a group."""


@dataclass
class Run(Generic[Group, S]):
    """The statistics of every group of needs, one pass over the rows each."""

    groups: Sequence[Group]
    sums_of: Callable[[Group], S]
    """Empty sums for a group."""
    journal: Journal
    writer: MomentSetWriter
    progress: Progress | None
    tokens: int | None
    """In all batches, where that is known beforehand."""
    mapped: Collection[int] = ()
    """Groups that have their sums on disk, in memory maps."""
    maps: Path = Path()
    """Folder for these."""
    first: int = 0
    """Number, in the journal, of the first group's pass."""

    def __post_init__(self) -> None:
        self.counts: dict[str, tuple[int, int]] = self.journal.counts
        self.done = self.journal.tokens

    def all_groups(self, source: Source[B, S]) -> None:
        """Go on from where the journal is."""
        if self.journal.pass_number >= self.first + len(self.groups):
            for _ in source.batches(0):
                pass  # only to know the totals again: everything is stored
        for number, group in enumerate(self.groups):
            if self.first + number >= self.journal.pass_number:
                with on_disk(self.maps) if number in self.mapped else nullcontext():
                    self.one_group(self.first + number, group, source)
                source.done(number)

    def one_group(self, number: int, group: Group, source: Source[B, S]) -> None:
        """Stream all batches; the folds come one after another, and so do their statistics."""
        start, fold = 0, None
        sums = self.sums_of(group)
        if number == self.journal.pass_number:
            start = self.journal.batch_number
            fold = self.journal.fold if start else None
            state = self.journal.take_state()
            if state:
                sums.restore(state)
        for index, batch in enumerate(source.batches(start), start):
            if fold is not None and batch.fold != fold:
                self._store(fold, sums)
                sums.clear()
                self.journal.save(number, index, batch.fold, self.done, self.counts, {})
            fold = batch.fold
            source.add(sums, batch, index)
            self.advance(batch, number, index + 1, fold, sums)
        if fold is not None:
            self._store(fold, sums)
        self.journal.save(number + 1, 0, None, self.done, self.counts, {})

    def advance(
        self, batch: Streamed, number: int, index: int, fold: str | None, sums: S | None
    ) -> None:
        """Count a batch that is done, report it, and save when it is time."""
        self.done += batch.tokens
        try:
            self.report()
        except KeyboardInterrupt:
            # Between two batches nothing is half added, so this is the place to save.
            self._save(number, index, fold, sums)
            raise
        if self.journal.due():
            self._save(number, index, fold, sums)

    def report(self) -> None:
        """Tell how far the work has come."""
        if self.progress:
            passes = self.first + len(self.groups)
            self.progress(self.done, None if self.tokens is None else self.tokens * passes)

    def finish(self, totals: Mapping[str, Total], shards: HeldShards | None) -> MomentSet:
        """Complete the set with what the batches held."""
        counts = {
            fold: {
                "tokens": total.tokens,
                "rows": self.counts[fold][0],
                "sinks": self.counts[fold][1],
                "documents": total.documents,
            }
            for fold, total in totals.items()
        }
        documents = {fold: total.digests for fold, total in totals.items()}
        return self.writer.finish(documents=documents, counts=counts, shards=shards)

    def _store(self, fold: str, sums: S) -> None:
        sums.store(self.writer, fold)
        self.counts[fold] = (sums.rows, sums.sinks)

    def _save(self, number: int, index: int, fold: str | None, sums: S | None) -> None:
        state = {} if sums is None else sums.state()
        self.journal.save(number, index, fold, self.done, self.counts, state)
