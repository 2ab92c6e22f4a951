"""Carry out a plan: write a new checkpoint, prove what it computes, and only then name it."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

from torch import Tensor, nn

from gramian.errors import GramianError, refuse_existing
from gramian.networks.building import built, write_model
from gramian.networks.certificate import (
    Certificate,
    Outputs,
    certificate,
    default_tolerance,
    difference,
    outputs_of,
    probe_ids,
    require_within,
)
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.checkpoint import open as open_checkpoint
from gramian.networks.draft import Draft
from gramian.networks.moves import Move, as_if, stages
from gramian.networks.opening import opener
from gramian.networks.plan import Plan
from gramian.networks.reach import reach
from gramian.networks.staging import staged_folder
from gramian.networks.structures import load_with_own_code, structures_of

COPIED = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
)
"""Files that a plan never changes; they are copied byte for byte."""


def apply(
    checkpoint: Checkpoint,
    plan: Plan,
    out: str | Path,
    *,
    probe: Tensor | None = None,
    tolerance: float | None = None,
    force: bool = False,
) -> Certificate:
    """Write the checkpoint that the plan describes. The source is never changed.

    The new folder is an ordinary transformers checkpoint (with split linears, one that carries
    modelling code of its own and asks for ``trust_remote_code``). It is written under a temporary
    name, opened again (by its own code too, if it has some), and compared on ``probe`` with the
    source network in which the moves are made by hooks; only when all agree does it get its name.
    Where a move speaks of a basis that an earlier one has changed, the network so far is built in
    memory, compared, and hooked for the moves that follow. ``gramian.json`` in the folder holds
    the plan's description and the certificate.

    Parameters
    ----------
    probe : (batch, length) token ids to compare on; seeded random ids when None.
    tolerance : largest allowed difference between the written network and the reference, as a
        share of the reference's largest absolute output; when None 1e-4, or 16 units of rounding
        in half precision.

    Raises
    ------
    GramianError : the plan is for other weights, the network cannot take a move, ``out`` exists,
        no space is left, or the written network does not compute what it should.
    """
    refuse_existing(Path(out), force=force)
    if plan.weights != checkpoint.digest:
        raise GramianError(
            f"this plan was made for the weights {plan.weights[:12]} of {plan.model}, but "
            f"{checkpoint.name} has the weights {checkpoint.digest[:12]}; plan again on this model"
        )
    first = start = Draft.of(checkpoint)
    _rewritten(first, plan.moves)
    allowed = default_tolerance(checkpoint.dtype) if tolerance is None else tolerance
    ids = (probe_ids(checkpoint) if probe is None else probe).to(checkpoint.device)
    model, drift = checkpoint.model, 0.0
    source_outputs = outputs_of(model, ids)
    *earlier, last = stages(plan.moves)
    with staged_folder(Path(out), force=force) as folder:
        for moves in earlier:
            intended = _intended(model, start, moves, ids)
            end = _rewritten(start, moves)
            tensors = end.computed()
            model = built(end, tensors, checkpoint.device)
            drift += difference(outputs_of(model, ids), intended)
            require_within(drift, allowed)
            start = end.settled(tensors)
        intended = _intended(model, start, last, ids)
        end = _rewritten(start, last)
        tensors = end.computed()
        write_model(end, tensors, folder)
        copy_companions(checkpoint, folder)
        if structures_of(end.config):
            auto = opener(end.config).__name__
            model = load_with_own_code(folder, auto, checkpoint.dtype).to(checkpoint.device)
            require_within(drift + difference(outputs_of(model, ids), intended), allowed)
            del model
        written = open_checkpoint(folder, device=checkpoint.device, dtype=checkpoint.dtype)
        certified = certificate(
            checkpoint,
            folder,
            tensors,
            Outputs(source_outputs, intended, outputs_of(written.model, ids)),
            drift=drift,
            tolerance=allowed,
            loads_in=reach(first, end),
        )
        document = {
            "source": checkpoint.name,
            "source_weights": plan.weights,
            "moves": [move.describe() for move in plan.moves],
            "evidence": dict(plan.evidence),
            "certificate": asdict(certified),
        }
        (folder / "gramian.json").write_text(json.dumps(document, indent=2) + "\n")
        (folder / "README.md").write_text(model_card(checkpoint, plan, certified))
    return certified


def copy_companions(checkpoint: Checkpoint, folder: Path) -> None:
    """Tokenizer, chat template and generation settings, byte for byte where there are files."""
    source = checkpoint.source.folder
    if source is None:
        checkpoint.tokenizer.save_pretrained(folder)
        return
    for name in COPIED:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
        else:
            (folder / name).unlink(missing_ok=True)
    if (source / "chat_templates").is_dir():
        shutil.copytree(source / "chat_templates", folder / "chat_templates")


def model_card(checkpoint: Checkpoint, plan: Plan, certified: Certificate) -> str:
    """A short README for the new checkpoint."""
    moves = "\n".join(f"{i + 1}. {move.describe()}" for i, move in enumerate(plan.moves))
    own = (
        "Some linears are stored as factors: `gramian.open(folder)` reads them as they are, and "
        "transformers with the code in this folder (`trust_remote_code=True`).\n\n"
        if "gramian" in certified.loads_in
        else ""
    )
    return (
        f"---\nbase_model: {checkpoint.name}\nlibrary_name: transformers\n---\n\n"
        f"# {Path(checkpoint.name).name}, rewritten by Gramian\n\n{own}{moves}\n\n{certified}\n"
    )


def _intended(model: nn.Module, start: Draft, moves: tuple[Move, ...], ids: Tensor) -> Tensor:
    """What the network at the start of a stage gives while hooks make the moves."""
    with as_if(model, start.blueprint, start, moves):
        return outputs_of(model, ids)


def _rewritten(draft: Draft, moves: tuple[Move, ...]) -> Draft:
    for move in moves:
        draft = move.rewrite(draft)
    return draft
