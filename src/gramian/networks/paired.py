"""Stream documents through two networks at once and keep the joint moments of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gramian.data import (
    AlignedPacking,
    Documents,
    Packing,
    PairedBatch,
    Total,
    same_windows,
    template_digest,
)
from gramian.errors import GramianError, refuse_existing
from gramian.moments import MomentSet, Partner, Recipe
from gramian.moments.recipe import ALIGNMENTS
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.collect import check_length, packing_of, recipe_of, settings_of
from gramian.networks.journal import Journal, job_digest
from gramian.networks.paired_needs import PairedNeeds
from gramian.networks.paired_sums import PairedSums
from gramian.networks.pilot import fixed_rule
from gramian.networks.run import Network, Progress, Run
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
    target = None if out is None else refuse_existing(out, force=force)
    needs = PairedNeeds.of(a, b, sites, inside=inside)
    passes = needs.passes(memory)
    packing = packing_of(a, docs, chosen)
    check_length(b, chosen)
    rows = Rows.of(a, b, packing, align)
    recipe = paired_recipe(a, b, rows, chosen)
    job = job_digest(
        recipe, docs.name, chosen, passes=[[str(pair) for pair in group] for group in passes]
    )
    journal = Journal.open(target, job, save_every=save_every, force=force)
    run = Run(
        passes,
        lambda group: PairedSums((a, b), needs.widths, group, recipe, chosen),
        journal,
        journal.writer(target, recipe, storage=chosen.storage, force=force),
        progress,
        chosen.own_tokens,
    )
    run.all_groups(Network(rows.batches))
    return run.finish(rows.totals(), packing.held)


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
