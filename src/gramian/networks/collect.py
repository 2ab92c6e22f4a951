"""Stream documents through a network once and keep their moments."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from gramian.data import Batch, Documents, Packing
from gramian.errors import GramianError
from gramian.moments import (
    MomentSet,
    MomentSetWriter,
    Recipe,
)
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.fold_sums import FoldSums
from gramian.networks.journal import Journal
from gramian.networks.needs import Needs
from gramian.networks.passes import Passes, plan_passes
from gramian.networks.pilot import fixed_rule
from gramian.networks.settings import Settings

Progress = Callable[[int, int | None], None]
"""Called with (tokens done, tokens in all or None) after every batch."""


def collect(
    checkpoint: Checkpoint,
    docs: Documents,
    needs: Needs,
    *,
    out: str | Path | None = None,
    memory: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
    save_every: float = 300.0,
    **settings: Any,
) -> MomentSet:
    """Run the network over the documents and keep the moments that ``needs`` asks for.

    With ``out``, an interrupted run (a lost machine, Ctrl-C) leaves ``<out>.partial``; the same
    call takes up from there and ends with the same bits as an uninterrupted one.

    Parameters
    ----------
    out : folder to write; None keeps the moments in memory.
    memory : bytes that the statistics may take; a smaller budget means more passes over the data.
    progress : called after every batch with the tokens done and the tokens in all.
    save_every : seconds between saved states.
    settings : the fields of :class:`Settings`.

    Raises
    ------
    GramianError : a site the network does not have, a budget that is too small, activations that
        are not finite (naming site, document and offset), a fold without documents, an existing
        ``out``, a ``.partial`` of another run, no disk space.
    """
    chosen = settings_of(settings)
    target = None if out is None else Path(out)
    if target is not None and target.exists() and not force:
        raise GramianError(f"{target} exists; choose another name or pass --force to replace it")
    passes = plan_passes(checkpoint, needs, memory)
    packing = packing_of(checkpoint, docs, chosen)
    recipe = recipe_of(checkpoint, packing, chosen)
    job = _job(recipe, docs, passes, chosen)
    journal = Journal.open(target, job, save_every=save_every, force=force)
    writer = MomentSetWriter(
        target,
        recipe,
        storage=chosen.storage,
        force=force,
        folder=journal.folder,
        keep=target is not None,
    )
    run = _Run(checkpoint, packing, chosen, recipe, passes, journal, writer, progress)
    run.all_passes()
    totals = packing.totals()
    counts = {
        fold: {
            "tokens": total.tokens,
            "rows": run.counts[fold][0],
            "sinks": run.counts[fold][1],
            "documents": total.documents,
        }
        for fold, total in totals.items()
    }
    return writer.finish(
        documents={fold: total.digests for fold, total in totals.items()}, counts=counts
    )


def recipe_of(checkpoint: Checkpoint, packing: Packing, settings: Settings) -> Recipe:
    """What the moments will be of; two sets add only if this agrees."""
    return Recipe(
        model=checkpoint.name,
        weights=checkpoint.digest,
        tensors=checkpoint.fingerprints,
        tokenizer=checkpoint.tokenizer_digest,
        template=packing.template,
        length=settings.length,
        bos=packing.bos,
        rows=fixed_rule(checkpoint, settings.rule),
        shares=settings.shares,
        precision=settings.precision,
    )


@dataclass
class _Run:
    """One collection under way: which batch of which pass it is at."""

    checkpoint: Checkpoint
    packing: Packing
    settings: Settings
    recipe: Recipe
    passes: Passes
    journal: Journal
    writer: MomentSetWriter
    progress: Progress | None

    def __post_init__(self) -> None:
        self.counts: dict[str, tuple[int, int]] = self.journal.counts
        self.done = self.journal.tokens
        every = Needs.of(need for group in self.passes.groups for need in group)
        self.orders = every.orders(self.checkpoint.blueprint)

    def all_passes(self) -> None:
        for number, group in enumerate(self.passes.groups):
            if number >= self.journal.pass_number:
                self.one_pass(number, group)

    def one_pass(self, number: int, group: Needs) -> None:
        """Stream all batches; the folds come one after another, and so do their statistics."""
        sums = FoldSums(self.checkpoint, group, self.orders, self.recipe, self.settings)
        start = 0
        if number == self.journal.pass_number:
            start = self.journal.batch_number
            if self.journal.state:
                sums = FoldSums.restore(
                    self.checkpoint,
                    group,
                    self.orders,
                    self.recipe,
                    self.settings,
                    self.journal.state,
                )
        fold: str | None = self.journal.fold if start else None
        for index, batch in enumerate(self.packing.batches(start), start):
            if fold is not None and batch.fold != fold:
                self._store(fold, sums)
                sums.clear()
                self.journal.save(number, index, batch.fold, self.done, self.counts, {})
            fold = batch.fold
            sums.update(batch)
            self.done += batch.tokens
            try:
                if self.progress:
                    self.progress(self.done, self._total())
            except KeyboardInterrupt:
                # Between two batches nothing is half added, so this is the place to save.
                self._save(number, index + 1, fold, sums)
                raise
            if self.journal.due():
                self._save(number, index + 1, fold, sums)
        if fold is not None:
            self._store(fold, sums)
        self.journal.save(number + 1, 0, None, self.done, self.counts, {})

    def _store(self, fold: str, sums: FoldSums) -> None:
        sums.store(self.writer, fold)
        self.counts[fold] = (sums.rows, sums.sinks)

    def _save(self, number: int, index: int, fold: str, sums: FoldSums) -> None:
        self.journal.save(number, index, fold, self.done, self.counts, sums.state())

    def _total(self) -> int | None:
        if self.settings.tokens is None:
            return None
        return self.settings.tokens * len(self.passes.groups)


def settings_of(given: dict[str, Any]) -> Settings:
    """The defaults with what was given in their place; refuses unknown names."""
    try:
        return replace(Settings(), **given)
    except TypeError as error:
        raise GramianError(
            f"collect: {error}; the settings are {', '.join(asdict(Settings()))}"
        ) from None


def packing_of(checkpoint: Checkpoint, docs: Documents, settings: Settings) -> Packing:
    """Windows that the network can take; refuses a length beyond its positions."""
    limit = getattr(checkpoint.config, "max_position_embeddings", None)
    if limit is not None and settings.length > limit:
        raise GramianError(
            f"length {settings.length} is more than the {limit} positions of {checkpoint.name}; "
            f"give a length of at most {limit}"
        )
    return Packing(
        docs,
        checkpoint.tokenizer,
        length=settings.length,
        rows=settings.batch_rows,
        tokens=settings.tokens,
        seed=settings.seed,
        shares=settings.shares,
        chat_template=settings.chat_template,
        thinking=settings.thinking,
    )


def _job(recipe: Recipe, docs: Documents, passes: Passes, settings: Settings) -> str:
    """A digest of everything that the result depends on."""
    described = {
        "recipe": recipe.to_json(),
        "documents": docs.name,
        "passes": [[str(need) for need in group] for group in passes.groups],
        "settings": str(settings),
        "threads": torch.get_num_threads(),
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def batches(checkpoint: Checkpoint, docs: Documents, **settings: Any) -> Iterator[Batch]:
    """The batches that :func:`collect` would stream, for evaluation on the same packing."""
    return iter(packing_of(checkpoint, docs, settings_of(settings)))
