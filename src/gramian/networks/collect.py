"""Stream documents through a network once and keep their moments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any, cast

from gramian.data import Batch, Documents, Packing
from gramian.errors import GramianError, refuse_existing
from gramian.moments import MomentSet, Recipe
from gramian.networks.blockwise import Slot, layer_by_layer
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.fold_sums import FoldSums
from gramian.networks.journal import Journal, job_digest
from gramian.networks.needs import Needs
from gramian.networks.passes import Mode, Passes, plan_passes
from gramian.networks.pilot import fixed_rule
from gramian.networks.run import Network, Progress, Run
from gramian.networks.settings import Settings
from gramian.networks.spool import free_bytes

__all__ = [
    "Progress",
    "batches",
    "check_length",
    "collect",
    "packing_of",
    "recipe_of",
    "settings_of",
]


def collect(
    checkpoint: Checkpoint,
    docs: Documents,
    needs: Needs,
    *,
    out: str | Path | None = None,
    memory: int | None = None,
    mode: Mode = "auto",
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
    memory : bytes that the statistics may take while they are collected; the model and one batch
        of activations come on top, and so does the result itself where ``out`` is None.
    mode : ``auto``, or ``stream``, ``windows``, ``blockwise`` or ``spill``: see
        :func:`~gramian.networks.passes.plan_passes`. The result is the same.
    progress : called after every batch with the tokens done and the tokens in all.
    save_every : seconds between saved states.
    settings : the fields of :class:`Settings`.

    Raises
    ------
    GramianError : a site the network does not have, a budget that is too small, activations that
        are not finite (naming site, document and offset), a fold without documents, an existing
        ``out``, a ``.partial`` of another run, no disk space, a network whose layers cannot be run
        one by one (``blockwise`` and ``spill``).
    """
    chosen = settings_of(settings)
    target = None if out is None else refuse_existing(out, force=force)
    packing = packing_of(checkpoint, docs, chosen)
    before = {} if force else Journal.chosen_before(target)
    passes, slots = _passes(checkpoint, needs, memory, mode, packing, target, chosen, before)
    recipe = recipe_of(checkpoint, packing, chosen)
    how = {"mode": passes.mode, "carry": "auto" if passes.carry is None else passes.carry.what}
    job = job_digest(
        recipe,
        docs.name,
        chosen,
        mode=passes.mode,
        carry=None if passes.carry is None else passes.carry.what,
        mapped=passes.mapped,
        passes=[[str(need) for need in group] for group in passes.groups],
    )
    journal = Journal.open(target, job, save_every=save_every, force=force, chosen=how)
    every = Needs.of(need for group in passes.groups for need in group)
    orders = every.orders(checkpoint.blueprint)
    with ExitStack() as stack:
        work = journal.folder
        if work is None and passes.carry is not None:
            work = Path(stack.enter_context(TemporaryDirectory(prefix="gramian-")))
        run = Run(
            passes.groups,
            lambda group: FoldSums(checkpoint, group, orders, recipe, chosen),
            journal,
            journal.writer(target, recipe, storage=chosen.storage, force=force),
            progress,
            chosen.own_tokens,
            passes.mapped,
            work or Path(),
        )
        if passes.carry is None:
            run.all_groups(Network(packing.batches))
        else:
            assert work is not None
            layer_by_layer(run, checkpoint, passes, packing, slots, work / "rows")
    return run.finish(packing.totals(), packing.held)


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


def settings_of(given: dict[str, Any]) -> Settings:
    """The defaults with what was given in their place; refuses unknown names."""
    try:
        return replace(Settings(), **given)
    except TypeError as error:
        raise GramianError(
            f"collect: {error}; the settings are {', '.join(asdict(Settings()))}"
        ) from None


def check_length(checkpoint: Checkpoint, settings: Settings) -> None:
    """Refuse windows that are longer than what a network has positions for."""
    limit = checkpoint.positions
    if limit is not None and settings.length > limit:
        raise GramianError(
            f"length {settings.length} is more than the {limit} positions of {checkpoint.name}; "
            f"give a length of at most {limit}"
        )


def packing_of(checkpoint: Checkpoint, docs: Documents, settings: Settings) -> Packing:
    """Windows that the network can take; refuses a length beyond its positions."""
    check_length(checkpoint, settings)
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
        shard=settings.shard,
    )


def _passes(
    checkpoint: Checkpoint,
    needs: Needs,
    memory: int | None,
    mode: Mode,
    packing: Packing,
    target: Path | None,
    settings: Settings,
    before: Mapping[str, str],
) -> tuple[Passes, list[Slot]]:
    """The plan, in the way of an interrupted run if there is one; and, where layers run one by
    one, all batches without their tensors."""
    arguments: dict[str, Any] = {"precision": settings.precision}
    place = Path(gettempdir()) if target is None else target.parent
    resumed = before.get("mode", "stream") != "stream" and mode in ("auto", before["mode"])
    if resumed:
        mode = cast(Mode, before["mode"])
        arguments["carry"] = before["carry"]
    passes = plan_passes(
        checkpoint, needs, memory, mode=mode, tokens=settings.own_tokens, **arguments
    )
    if passes.carry is None:
        return passes, []
    slots = [Slot.of(batch) for batch in packing.batches()]
    arguments["tokens"] = sum(slot.shape[0] * slot.shape[1] for slot in slots)
    if not resumed:
        arguments["disk"] = free_bytes(place)
    return plan_passes(checkpoint, needs, memory, mode=mode, **arguments), slots


def batches(checkpoint: Checkpoint, docs: Documents, **settings: Any) -> Iterator[Batch]:
    """The batches that :func:`collect` would stream, for evaluation on the same packing."""
    return iter(packing_of(checkpoint, docs, settings_of(settings)))
