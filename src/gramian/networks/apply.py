"""Carry out a plan: write a new checkpoint, prove what it computes, and only then name it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from gramian.errors import GramianError
from gramian.networks.certificate import Certificate, certify
from gramian.networks.checkpoint import Checkpoint, skeleton, state
from gramian.networks.draft import Draft
from gramian.networks.moves import as_if
from gramian.networks.plan import Plan
from gramian.networks.staging import staged_folder

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
    tolerance: float = 1e-4,
    force: bool = False,
) -> Certificate:
    """Write the checkpoint that the plan describes. The source is never changed.

    The new folder is an ordinary transformers checkpoint. It is written under a temporary name,
    opened again, and compared on ``probe`` with the source network in which the moves are made by
    hooks; only when the two agree does it get its name. ``gramian.json`` in it holds the plan's
    description and the certificate.

    Parameters
    ----------
    probe : (batch, length) token ids to compare on; seeded random ids when None.
    tolerance : largest allowed difference between the written network and the reference, as a
        share of the reference's largest absolute logit.

    Raises
    ------
    GramianError : the plan is for other weights, the network cannot take a move, ``out`` exists,
        no space is left, or the written network does not compute what it should.
    """
    if plan.weights != checkpoint.digest:
        raise GramianError(
            f"this plan was made for the weights {plan.weights[:12]} of {plan.model}, but "
            f"{checkpoint.name} has the weights {checkpoint.digest[:12]}; plan again on this model"
        )
    start = draft = Draft.of(checkpoint)
    for move in plan.moves:
        draft = move.rewrite(draft)
    with staged_folder(Path(out), force=force) as folder:
        tensors = {name: make() for name, make in draft.tensors.items()}
        write_model(draft.config, tensors, folder)
        copy_companions(checkpoint, folder)
        with as_if(checkpoint.model, checkpoint.blueprint, start, plan.moves):
            certificate = certify(checkpoint, folder, tensors, probe, tolerance)
        document = {
            "source": checkpoint.name,
            "source_weights": plan.weights,
            "moves": [move.describe() for move in plan.moves],
            "evidence": dict(plan.evidence),
            "certificate": asdict(certificate),
        }
        (folder / "gramian.json").write_text(json.dumps(document, indent=2) + "\n")
        (folder / "README.md").write_text(model_card(checkpoint, plan, certificate))
    return certificate


def write_model(config: Any, tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Save configuration and tensors as safetensors shards that transformers loads."""
    model: Any = skeleton(config)
    expected, found = set(state(model)), set(tensors)
    if expected != found:
        raise GramianError(
            f"the plan leaves the tensors {sorted(found ^ expected)[:4]} unmatched with a "
            f"{config.model_type} checkpoint; this is a defect of the move, please report it"
        )
    model.load_state_dict(dict(tensors), strict=False, assign=True)
    model.tie_weights()
    model.config.dtype = next(iter(tensors.values())).dtype
    model.save_pretrained(folder, max_shard_size="2GB")


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


def model_card(checkpoint: Checkpoint, plan: Plan, certificate: Certificate) -> str:
    """A short README for the new checkpoint."""
    moves = "\n".join(f"{i + 1}. {move.describe()}" for i, move in enumerate(plan.moves))
    return (
        f"---\nbase_model: {checkpoint.name}\nlibrary_name: transformers\n---\n\n"
        f"# {Path(checkpoint.name).name}, rewritten by Gramian\n\n{moves}\n\n{certificate}\n"
    )
