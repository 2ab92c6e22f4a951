"""A collection under way: which batch of which pass it is at, and where its rows come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gramian.data import Batch, Packing
from gramian.moments import MomentSetWriter, Recipe
from gramian.moments.place import on_disk
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.fold_sums import FoldSums
from gramian.networks.journal import Journal
from gramian.networks.needs import Needs
from gramian.networks.passes import Passes
from gramian.networks.settings import Settings

Progress = Callable[[int, int | None], None]
"""Called with (tokens done, tokens in all or None) after every batch of every pass."""


class Source(Protocol):
    """Where the rows of a pass come from."""

    def batches(self, start: int) -> Iterator[Batch]:
        """All batches from one on, fold after fold; the same in every pass."""

    def add(self, sums: FoldSums, batch: Batch, index: int) -> None:
        """Add the rows of one batch."""

    def done(self, number: int) -> None:
        """The statistics of a group are complete."""


@dataclass(frozen=True)
class Network:
    """Rows straight from the whole network."""

    packing: Packing

    def batches(self, start: int) -> Iterator[Batch]:
        return self.packing.batches(start)

    def add(self, sums: FoldSums, batch: Batch, index: int) -> None:
        sums.update(batch)

    def done(self, number: int) -> None:
        """Nothing is held for a group."""


@dataclass
class Run:
    """The statistics of every group of needs, one pass over the rows each."""

    checkpoint: Checkpoint
    settings: Settings
    recipe: Recipe
    passes: Passes
    journal: Journal
    writer: MomentSetWriter
    progress: Progress | None
    maps: Path
    """Folder for the memory maps of groups that have their sums on disk."""
    first: int = 0
    """Number, in the journal, of the first group's pass."""

    def __post_init__(self) -> None:
        self.counts: dict[str, tuple[int, int]] = self.journal.counts
        self.done = self.journal.tokens
        every = Needs.of(need for group in self.passes.groups for need in group)
        self.orders = every.orders(self.checkpoint.blueprint)

    def all_groups(self, source: Source) -> None:
        """Go on from where the journal is."""
        for number, group in enumerate(self.passes.groups):
            if self.first + number >= self.journal.pass_number:
                mapped = number in self.passes.mapped
                with on_disk(self.maps) if mapped else nullcontext():
                    self.one_group(self.first + number, group, source)
                source.done(number)

    def one_group(self, number: int, group: Needs, source: Source) -> None:
        """Stream all batches; the folds come one after another, and so do their statistics."""
        start, fold = 0, None
        parts = (self.checkpoint, group, self.orders, self.recipe, self.settings)
        sums = FoldSums(*parts)
        if number == self.journal.pass_number:
            start = self.journal.batch_number
            fold = self.journal.fold if start else None
            state = self.journal.take_state()
            if state:
                sums = FoldSums.restore(*parts, state)
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
        self, batch: Batch, number: int, index: int, fold: str | None, sums: FoldSums | None
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
            self.progress(self.done, self._total())

    def _store(self, fold: str, sums: FoldSums) -> None:
        sums.store(self.writer, fold)
        self.counts[fold] = (sums.rows, sums.sinks)

    def _save(self, number: int, index: int, fold: str | None, sums: FoldSums | None) -> None:
        state = {} if sums is None else sums.state()
        self.journal.save(number, index, fold, self.done, self.counts, state)

    def _total(self) -> int | None:
        tokens = self.settings.own_tokens
        return None if tokens is None else tokens * (self.first + len(self.passes.groups))
