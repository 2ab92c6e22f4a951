"""Collect on a Ray cluster: one actor per shard, each with its journal, added up at the end."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gramian.data import Documents
from gramian.errors import GramianError, refuse_existing
from gramian.moments import MomentSet, Shard, add_moments
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.collect import packing_of, settings_of
from gramian.networks.needs import Needs
from gramian.networks.passes import Mode
from gramian.networks.ray_cluster import cluster, require_ray, room_for
from gramian.networks.run import Progress
from gramian.networks.settings import Settings
from gramian.networks.shard_folder import Shards
from gramian.networks.shard_worker import REPORT_EVERY, ShardWorker, Tally, Task


def collect_on_ray(
    checkpoint: Checkpoint,
    docs: Documents,
    needs: Needs,
    *,
    out: str | Path,
    workers: int | None = None,
    cpus: int = 1,
    restarts: int = 3,
    memory: int | None = None,
    mode: Mode = "auto",
    force: bool = False,
    progress: Progress | None = None,
    save_every: float = 60.0,
    address: str | None = None,
    **settings: Any,
) -> MomentSet:
    """Collect as :func:`~gramian.networks.collect.collect` does, dealt out over a Ray cluster.

    The result is that of one machine, up to the rounding of sums. Every worker must see the
    model, the documents and the folder of ``out`` under the same paths. Shards lie in
    ``<out>.shards`` until all are there; a worker that is lost is started again and goes on from
    its last saved state, and after a failure the same call goes on from what is done.

    Parameters
    ----------
    workers : shards, each collected by one actor; by default as many as the cluster has room
        for. Those that find no room wait.
    cpus : of each worker; one GPU comes on top where ``checkpoint.device`` is one.
    restarts : how often a worker that is lost is started again.
    memory, mode : of each worker, as of ``collect``.
    progress : called several times a second with the tokens done and the tokens in all.
    save_every : seconds between saved states of a worker: what a loss can cost.
    address : of the cluster. None: the one this process is connected to, or that
        ``RAY_ADDRESS`` names, or that runs on this machine, or else a new one on this machine.
    settings : the fields of :class:`Settings` but ``shard``; ``tokens`` are those of all shards.

    Raises
    ------
    GramianError : as of ``collect``; no Ray; ``device_map``; a cluster without room for one
        worker; other weights or documents on a worker; a worker lost for good (naming its shard
        and how to finish it by hand); a working folder of another collection.
    """
    ray = require_ray()
    chosen = settings_of(settings)
    if chosen.shard is not None:
        raise GramianError(
            f"shard {chosen.shard} was given, but on Ray all shards are collected; leave it out"
        )
    if checkpoint.device_map is not None:
        raise GramianError(
            "device_map spreads a model over the devices of one machine, which a Ray worker does "
            "not own; open the model without it, or collect on every machine with shard="
        )
    for name, value, least in (
        ("workers", workers, 1),
        ("cpus", cpus, 1),
        ("restarts", restarts, 0),
    ):
        if value is not None and value < least:
            raise GramianError(f"{name} is {value}, expected at least {least}")
    target = Path(out).absolute()
    refuse_existing(target, force=force)
    run = packing_of(checkpoint, docs, chosen).run
    how = {"memory": memory, "mode": mode, "save_every": save_every}
    rest = {"run": run, "needs": needs, "how": how, "settings": settings, "threads": cpus}
    task = Task.of(checkpoint, docs, **rest)
    resources = {"num_cpus": cpus, "num_gpus": int(checkpoint.device.startswith("cuda"))}
    with cluster(ray, address):
        room = room_for(ray, resources)
        shards = Shards(target, workers or room)
        shards.prepare(_job(task, chosen, shards.count), force=force)
        before = [shard for shard in shards.every if shards.is_done(shard, run)]
        options = {**resources, "max_restarts": restarts, "max_task_retries": restarts}
        _Collection(ray, task, shards, options, progress).run(before)
        for shard in shards.every:
            shards.is_done(shard, run)
    moments = add_moments([shards.path(shard) for shard in shards.every], target, force=force)
    shutil.rmtree(shards.folder)
    return moments


@dataclass
class _Collection:
    """The actors of one collection under way."""

    ray: Any
    task: Task
    shards: Shards
    options: dict[str, Any]
    progress: Progress | None

    def run(self, before: Sequence[Shard]) -> None:
        """Collect every shard that is not there; the others go on when one is lost for good."""
        todo = [shard for shard in self.shards.every if shard not in before]
        remote = self.ray.remote(Tally).options(num_cpus=0, max_restarts=-1, max_task_retries=-1)
        tally = remote.remote()
        actors = [self.ray.remote(ShardWorker).options(**self.options).remote() for _ in todo]
        task = self.ray.put(self.task)
        waiting = {
            actor.collect.remote(task, shard, str(self.shards.path(shard)), tally): shard
            for actor, shard in zip(actors, todo, strict=True)
        }
        lost: dict[Shard, str] = {}
        try:
            while waiting:
                done, _ = self.ray.wait(list(waiting), timeout=REPORT_EVERY)
                for answer in done:
                    shard = waiting.pop(answer)
                    reason = self._failure(answer, shard)
                    if reason is not None:
                        lost[shard] = reason
                self._report(tally, len(before))
        finally:
            for actor in (*actors, tally):
                self.ray.kill(actor, no_restart=True)
        missing = [s for s in todo if s not in lost and not self.shards.path(s).exists()]
        if missing:
            raise GramianError(
                f"the worker of shard {missing[0]} has written {self.shards.path(missing[0])}, "
                "which is not on this machine; give out= a folder that all machines share"
            )
        if lost:
            self._refuse(lost)

    def _failure(self, answer: Any, shard: Shard) -> str | None:
        """Why a shard is not there; None when it is."""
        try:
            self.ray.get(answer)
        except GramianError as error:
            # Input that cannot be used would fail again; every other worker would meet it too.
            raise GramianError(f"shard {shard}: {getattr(error, 'cause', error)}") from None
        except self.ray.exceptions.RayTaskError as error:
            return repr(error.cause)
        except self.ray.exceptions.RayError as error:
            return (str(error).strip() or type(error).__name__).splitlines()[0]
        return None

    def _refuse(self, lost: dict[Shard, str]) -> None:
        shard, reason = next(iter(lost.items()))
        others = ", ".join(map(str, list(lost)[1:]))
        number, count = shard.number, shard.count
        raise GramianError(
            f"the worker of shard {shard} was lost for good, after "
            f"{self.options['max_restarts']} restarts: {reason}"
            f"{f' (so were {others})' if others else ''}. What is done lies in "
            f"{self.shards.folder}; the same command goes on from there. To finish the shard by "
            f"hand, give the command with --shard {shard} -o {self.shards.path(shard)} in the "
            f"place of --ray (in Python: collect(..., shard=Shard({number}, {count}), out=...)), "
            "then repeat it with --ray"
        )

    def _report(self, tally: Any, before: int) -> None:
        if self.progress is None:
            return
        try:
            reports = self.ray.get(tally.reports.remote(), timeout=5.0)
        except self.ray.exceptions.RayError:  # it is being started again
            return
        each = max((total for _, total in reports.values() if total is not None), default=None)
        done = sum(done for done, _ in reports.values()) + before * (each or 0)
        self.progress(done, None if each is None else each * self.shards.count)


def _job(task: Task, settings: Settings, count: int) -> str:
    """A digest of everything that the shards depend on."""
    described = {
        "weights": task.weights,
        "run": task.run,
        "needs": [str(need) for need in task.needs],
        "settings": str(replace(settings, shard=None)),
        "count": count,
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
