"""Stream documents through two networks at once and keep the joint moments of their rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from gramian.data import (
    AlignedPacking,
    Documents,
    Packing,
    PairedBatch,
    Total,
    same_windows,
    template_digest,
)
from gramian.errors import GramianError
from gramian.moments import MomentSet, MomentSetWriter, Partner, Recipe
from gramian.moments.recipe import ALIGNMENTS
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.collect import Progress, packing_of, recipe_of, settings_of
from gramian.networks.journal import Journal
from gramian.networks.paired_needs import PairedNeeds
from gramian.networks.paired_sums import PairedSums
from gramian.networks.pilot import fixed_rule
from gramian.networks.settings import Settings


def collect_pair(
    a: Checkpoint,
    b: Checkpoint,
    docs: Documents,
    *,
    sites: tuple[Sequence[str], Sequence[str]] | None = None,
    inside: bool = False,
    align: str = "auto",
    out: str | Path | None = None,
    memory: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
    save_every: float = 300.0,
    **settings: Any,
) -> MomentSet:
    """Run two networks over the same documents and keep the joint moments of their sites.

    Sites of ``a`` are named ``a:<site>`` in the set, those of ``b`` ``b:<site>``; every site of
    ``a`` is paired with every site of ``b``. A row is a sink if it is one in either network.
    With ``out``, an interrupted run is taken up by the same call, as of :func:`collect`.

    Parameters
    ----------
    sites : those of ``a`` and of ``b``; by default the residual stream of both.
    inside : also keep every pair within ``a`` and within ``b``.
    align : what a row is. ``tokens``: a position, where both have the same tokenizer.
        ``characters``: the two tokens that end at the same character, of windows that start at
        the same one. ``documents``: the mean over a document's tokens, sink rows left out.
        ``auto`` chooses the first that is possible.
    out, memory, force, progress, save_every, settings : as of :func:`collect`; ``tokens`` and
        ``length`` count in tokens of ``a``, and no window is longer than ``length`` in either.
        Windows that are aligned by characters or documents are not cut, so a fold may hold up
        to one window of tokens more than was asked for.

    Raises
    ------
    GramianError : as of :func:`collect`, and for rows that do not align: ``tokens`` with
        tokenizers that differ, ``characters`` with one that does not tell where tokens end.
    """
    chosen = settings_of(settings)
    target = None if out is None else Path(out)
    if target is not None and target.exists() and not force:
        raise GramianError(
            f"{target} exists; choose another name, or force=True (--force) to replace it"
        )
    needs = PairedNeeds.of(a, b, sites, inside=inside)
    passes = needs.passes(memory)
    packing = packing_of(a, docs, chosen)
    packing_limit(b, chosen)
    rows = Rows.of(a, b, packing, align)
    recipe = paired_recipe(a, b, rows, chosen)
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
    counts = _stream((a, b), needs, passes, rows, recipe, chosen, journal, writer, progress)
    totals = rows.totals()
    return writer.finish(
        documents={fold: total.digests for fold, total in totals.items()},
        counts={
            fold: {
                "tokens": total.tokens,
                "rows": counts[fold][0],
                "sinks": counts[fold][1],
                "documents": total.documents,
            }
            for fold, total in totals.items()
        },
        shards=packing.held,
    )


@dataclass(frozen=True)
class Rows:
    """Where paired rows come from: batches from any number on, and what they held in all."""

    align: str
    bos: bool
    """Whether windows of the second network start with BOS."""
    template: str
    """Of the second network."""
    packing: Packing
    batches: Callable[[int], Iterator[PairedBatch]]
    totals: Callable[[], Mapping[str, Total]]

    @classmethod
    def of(cls, a: Checkpoint, b: Checkpoint, packing: Packing, align: str) -> Rows:
        """Choose the alignment.

        Raises
        ------
        GramianError : one that is unknown or impossible with these tokenizers.
        """
        if align not in ("auto", *ALIGNMENTS):
            raise GramianError(
                f"align is {align!r}, expected one of {', '.join(('auto', *ALIGNMENTS))}"
            )
        template = template_digest(b.tokenizer, packing.chat_template, packing.thinking)
        same = a.tokenizer_digest == b.tokenizer_digest and packing.template == template
        if align == "tokens" and not same:
            raise GramianError(
                f"align='tokens': {a.name} and {b.name} do not have the same tokenizer and "
                "template, so their positions do not correspond; align characters or documents"
            )
        if align == "auto":
            align = "tokens" if same else "characters"
        if align == "tokens":
            batches = lambda start: same_windows(packing, start)  # noqa: E731
            return cls(align, packing.bos, template, packing, batches, packing.totals)
        aligned = AlignedPacking(packing, b.tokenizer, whole=align == "documents")
        return cls(align, aligned.bos, template, packing, aligned.batches, aligned.totals)


def paired_recipe(a: Checkpoint, b: Checkpoint, rows: Rows, settings: Settings) -> Recipe:
    """What the joint moments will be of."""
    partner = Partner(
        model=b.name,
        weights=b.digest,
        tensors=b.fingerprints,
        tokenizer=b.tokenizer_digest,
        template=rows.template,
        bos=rows.bos,
        rows=fixed_rule(b, settings.rule),
        align=rows.align,
    )
    return replace(recipe_of(a, rows.packing, settings), partner=partner)


def packing_limit(checkpoint: Checkpoint, settings: Settings) -> None:
    """Refuse windows that are longer than what a network has positions for."""
    limit = checkpoint.positions
    if limit is not None and settings.length > limit:
        raise GramianError(
            f"length {settings.length} is more than the {limit} positions of {checkpoint.name}; "
            f"give a length of at most {limit}"
        )


def _stream(
    networks: tuple[Checkpoint, Checkpoint],
    needs: PairedNeeds,
    passes: Sequence[Sequence[Any]],
    rows: Rows,
    recipe: Recipe,
    settings: Settings,
    journal: Journal,
    writer: MomentSetWriter,
    progress: Progress | None,
) -> dict[str, tuple[int, int]]:
    """All passes over the batches, taken up where the journal says; rows and sinks by fold."""
    counts, done = journal.counts, journal.tokens
    total = None if settings.own_tokens is None else settings.own_tokens * len(passes)
    first = journal.pass_number
    for number in range(first, len(passes)):
        sums = PairedSums(networks, needs.widths, passes[number], recipe, settings)
        start, fold = 0, None
        if number == first and journal.batch_number:
            start, fold = journal.batch_number, journal.fold
            if journal.state:
                sums.restore(journal.state)
        for index, batch in enumerate(rows.batches(start), start):
            if fold is not None and batch.fold != fold:
                sums.store(writer, fold)
                counts[fold] = (sums.rows, sums.sinks)
                sums.clear()
                journal.save(number, index, batch.fold, done, counts, {})
            fold = batch.fold
            sums.update(batch)
            done += batch.tokens
            try:
                if progress:
                    progress(done, total)
            except KeyboardInterrupt:
                # Between two batches nothing is half added, so this is the place to save.
                journal.save(number, index + 1, fold, done, counts, sums.state())
                raise
            if journal.due():
                journal.save(number, index + 1, fold, done, counts, sums.state())
        if fold is not None:
            sums.store(writer, fold)
            counts[fold] = (sums.rows, sums.sinks)
        journal.save(number + 1, 0, None, done, counts, {})
    if first >= len(passes):
        for _ in rows.batches(0):
            pass  # only to know the totals again: everything else is stored
    return counts


def _job(
    recipe: Recipe, docs: Documents, passes: Sequence[Sequence[Any]], settings: Settings
) -> str:
    """A digest of everything that the result depends on."""
    described = {
        "recipe": recipe.to_json(),
        "documents": docs.name,
        "passes": [[str(pair) for pair in group] for group in passes],
        "settings": str(settings),
        "threads": torch.get_num_threads(),
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
