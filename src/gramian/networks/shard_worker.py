"""What runs on the nodes of a Ray cluster: one shard of a collection, and a tally of all."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from gramian.data import Documents
from gramian.errors import GramianError
from gramian.moments import Shard
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.collect import collect, packing_of, settings_of
from gramian.networks.needs import Needs
from gramian.networks.sources import Source

REPORT_EVERY = 0.25
"""Seconds between two reports of a worker."""


@dataclass(frozen=True)
class Task:
    """A collection as plain values, from which any machine makes it again."""

    source: Source
    device: str
    dtype: torch.dtype
    device_map: Any
    weights: str
    """Digest of the weights; a machine that reads others is refused."""
    docs: Documents
    run: str
    """Digest of the documents and of how they are cut; likewise."""
    needs: Needs
    how: Mapping[str, Any]
    """``memory``, ``mode`` and ``save_every`` of :func:`~gramian.networks.collect.collect`."""
    settings: Mapping[str, Any]
    threads: int

    @classmethod
    def of(cls, checkpoint: Checkpoint, docs: Documents, **rest: Any) -> Task:
        """The task of a checkpoint and documents, their paths made absolute."""
        source = checkpoint.source
        if source.local:
            source = replace(source, location=str(Path(source.location).absolute()))
        return cls(
            source=source,
            device=_own(checkpoint.device),
            dtype=checkpoint.dtype,
            device_map=checkpoint.device_map,
            weights=checkpoint.digest,
            docs=_absolute(docs),
            **rest,
        )

    def checkpoint(self) -> Checkpoint:
        """The network, opened on this machine.

        Raises
        ------
        GramianError : its weights are not those of the machine that asked for the collection.
        """
        config = self.source.load_config()
        opened = Checkpoint(self.source, config, self.device, self.dtype, self.device_map)
        if opened.digest != self.weights:
            raise GramianError(
                f"{self.source.name}: the weights at {self.source.location} are not those of the "
                "machine that started the collection; give all machines the same files"
            )
        return opened


class Tally:
    """How far every shard has come; the last report of each counts."""

    def __init__(self) -> None:
        self._reports: dict[int, tuple[int, int | None]] = {}

    def report(self, shard: int, done: int, total: int | None) -> None:
        """Note the tokens done of a shard, and those in all if known."""
        self._reports[shard] = done, total

    def reports(self) -> dict[int, tuple[int, int | None]]:
        """Shard -> tokens done, tokens in all."""
        return self._reports


class ShardWorker:
    """Collects one shard. Started anew after a loss, it goes on from the journal beside ``out``."""

    def collect(self, task: Task, shard: Shard, out: str, tally: Any) -> None:
        """Collect a shard into the folder ``out``, unless it is there already.

        Raises
        ------
        GramianError : other weights or documents than were asked for, or as of ``collect``.
        """
        if Path(out).exists():
            return
        torch.set_num_threads(task.threads)
        checkpoint = task.checkpoint()
        settings = {**task.settings, "shard": shard}
        if packing_of(checkpoint, task.docs, settings_of(settings)).run != task.run:
            raise GramianError(
                f"{task.docs.name}: this worker reads other documents than the machine that "
                "started the collection; give all machines the same files"
            )
        last = -REPORT_EVERY

        def progress(done: int, total: int | None) -> None:
            nonlocal last
            if time.monotonic() - last >= REPORT_EVERY:
                tally.report.remote(shard.number, done, total)
                last = time.monotonic()

        collect(
            checkpoint, task.docs, task.needs, out=out, progress=progress, **task.how, **settings
        )


def _own(device: str) -> str:
    """The device of a worker: Ray shows it its own GPU alone, which is then the first."""
    return "cuda" if device.startswith("cuda") else device


def _absolute(docs: Documents) -> Documents:
    """The same documents, with nothing held open and with paths that any folder resolves."""
    readers = []
    for reader in docs.readers:
        path = getattr(reader, "path", None)
        changes = {} if path is None else {"path": path.absolute()}
        copy: Any = replace(reader, **changes)  # type: ignore[type-var]
        readers.append(copy)
    return Documents(docs.name, tuple(readers), docs.limit)
