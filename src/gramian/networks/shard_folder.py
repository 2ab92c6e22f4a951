"""Where the shards of a collection lie until they are added up."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gramian.errors import GramianError
from gramian.moments import MomentSet, Shard

JOB = "job"
"""File of the working folder: a digest of the collection whose shards lie there."""


@dataclass(frozen=True)
class Shards:
    """The folders of the shards of one collection."""

    target: Path
    count: int

    @property
    def folder(self) -> Path:
        return self.target.with_name(f"{self.target.name}.shards")

    @property
    def every(self) -> Sequence[Shard]:
        return [Shard(number, self.count) for number in range(1, self.count + 1)]

    def path(self, shard: Shard) -> Path:
        return self.folder / f"{shard.number}-of-{shard.count}.moments"

    def prepare(self, job: str, *, force: bool) -> None:
        """Claim the working folder.

        Raises
        ------
        GramianError : it belongs to another collection and ``force`` is false.
        """
        mark = self.folder / JOB
        if self.folder.exists():
            if mark.is_file() and mark.read_text() == job and not force:
                return
            if not force or not (mark.is_file() or not any(self.folder.iterdir())):
                raise GramianError(
                    f"{self.folder} holds shards of a collection with other data, settings or "
                    "number of workers; repeat that command to finish it, or pass --force to "
                    "discard them"
                    if mark.is_file()
                    else f"{self.folder} exists and holds no shards; choose another name for out"
                )
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)
        mark.write_text(job)

    def is_done(self, shard: Shard, run: str) -> bool:
        """Whether a shard of the collection ``run`` (see ``Packing.run``) is there.

        Raises
        ------
        GramianError : what is there is of another collection.
        """
        path = self.path(shard)
        if not path.exists():
            return False
        held = MomentSet.open(path).shards
        mine = None if held is None else (held.run, held.count, held.held)
        if mine != (None if self.count == 1 else (run, self.count, (shard.number,))):
            raise GramianError(
                f"{path} is {held or 'a set that is whole'}, not shard {shard} of this "
                "collection; delete it, and repeat the command"
            )
        return True
