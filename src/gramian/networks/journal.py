"""The journal of a collection: how far it has come, so that it can go on after an interruption."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import MomentSetWriter, Recipe, load_state, save_state
from gramian.moments.state import load_meta
from gramian.networks.settings import Settings


@dataclass
class Journal:
    """Where a run stands. ``folder`` is None for a collection that stays in memory."""

    folder: Path | None
    job: str
    save_every: float
    pass_number: int = 0
    batch_number: int = 0
    fold: str | None = None
    tokens: int = 0
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    state: dict[str, Tensor] = field(default_factory=dict)
    chosen: dict[str, str] = field(default_factory=dict)
    """How the work is done, so that it is taken up in the same way."""
    trusted: bool = False
    """Whether files that were written without a sync are those that the journal speaks of: the
    machine has not been started anew since."""
    saved_at: float = field(default_factory=time.monotonic)

    @classmethod
    def open(
        cls,
        out: Path | None,
        job: str,
        *,
        save_every: float,
        force: bool,
        chosen: Mapping[str, str] | None = None,
    ) -> Journal:
        """The journal of this job: a new one, or the one that an interrupted run left.

        Raises
        ------
        GramianError : ``<out>.partial`` belongs to another job and ``force`` is false.
        """
        if out is None:
            return cls(None, job, save_every)
        how = dict(chosen or {})
        folder = out.with_name(f"{out.name}.partial")
        found = load_state(folder) if folder.is_dir() else None
        if found is not None and found[1].get("job") == job:
            tensors, meta = found
            counts = {fold: (int(a), int(b)) for fold, (a, b) in meta["counts"].items()}
            return cls(
                folder,
                job,
                save_every,
                int(meta["pass"]),
                int(meta["batch"]),
                meta["fold"],
                int(meta["tokens"]),
                counts,
                tensors,
                how,
                trusted=bool(meta["boot"]) and meta["boot"] == boot(),
            )
        if folder.is_dir():
            if not force and any(folder.iterdir()):
                raise GramianError(
                    f"{folder} holds an interrupted collection with other data or settings; "
                    "repeat that command to finish it, or force=True (--force) to discard it"
                )
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        journal = cls(folder, job, save_every, chosen=how)
        journal.save(0, 0, None, 0, {}, {})
        return journal

    @staticmethod
    def chosen_before(out: Path | None) -> dict[str, str]:
        """How an interrupted run that left ``<out>.partial`` does its work; empty without one."""
        folder = None if out is None else out.with_name(f"{out.name}.partial")
        meta = load_meta(folder) if folder is not None and folder.is_dir() else None
        return {} if meta is None else {str(k): str(v) for k, v in meta["chosen"].items()}

    def writer(
        self, out: Path | None, recipe: Recipe, *, storage: str, force: bool
    ) -> MomentSetWriter:
        """The writer that goes on with the parts in the journal's folder."""
        return MomentSetWriter(
            out, recipe, storage=storage, force=force, folder=self.folder, keep=out is not None
        )

    def take_state(self) -> dict[str, Tensor]:
        """The saved tensors, which are then held here no longer."""
        state, self.state = self.state, {}
        return state

    def due(self) -> bool:
        """Whether it is time to save."""
        return self.folder is not None and time.monotonic() - self.saved_at >= self.save_every

    def save(
        self,
        pass_number: int,
        batch_number: int,
        fold: str | None,
        tokens: int,
        counts: Mapping[str, tuple[int, int]],
        state: Mapping[str, Tensor],
    ) -> None:
        """Record that everything before this batch of this pass is in ``state`` or stored."""
        if self.folder is None:
            return
        meta = {
            "job": self.job,
            "pass": pass_number,
            "batch": batch_number,
            "fold": fold,
            "tokens": tokens,
            "chosen": self.chosen,
            "boot": boot(),
            "counts": {fold: list(pair) for fold, pair in counts.items()},
        }
        save_state(self.folder, dict(state), meta)
        self.saved_at = time.monotonic()


def job_digest(recipe: Recipe, documents: str, settings: Settings, **plan: object) -> str:
    """A digest of everything that the result depends on; ``plan`` are JSON values."""
    described = {
        "recipe": recipe.to_json(),
        "documents": documents,
        "settings": str(settings),
        "threads": torch.get_num_threads(),
        **plan,
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def boot() -> str:
    """What this start of the machine is called; empty where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
