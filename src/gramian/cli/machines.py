"""Options of collect that deal the work out over machines, and what does not go together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gramian.errors import GramianError

if TYPE_CHECKING:
    from gramian.moments import MomentSet, Shard


@dataclass(frozen=True)
class Machines:
    """Which part of a collection this machine takes, or that a Ray cluster takes all of it."""

    shard: Shard | None
    ray: bool

    @classmethod
    def of(
        cls, shard: str | None, ray: bool, workers: int | None, cpus: int | None, *, pair: bool
    ) -> Machines:
        """Read the options.

        Raises
        ------
        GramianError : no such shard, or options that contradict each other.
        """
        from gramian.moments import Shard

        if shard is not None and ray:
            raise GramianError(
                f"--shard {shard} and --ray contradict each other: --ray collects all shards; "
                "give one of them"
            )
        for name, value in (("--workers", workers), ("--cpus", cpus)):
            if value is not None and not ray:
                raise GramianError(f"{name} {value} is an option of --ray; give --ray with it")
        if ray and pair:
            raise GramianError(
                "--ray collects one network; for two, give --shard i/n on every machine and add "
                "the results with gramian add"
            )
        return cls(None if shard is None else Shard.parse(shard), ray)


def missing(moments: MomentSet, path: Path) -> str | None:
    """What to do about shards that a set lacks; None when it is whole."""
    from gramian.moments.shards import named

    held = moments.shards
    if held is None:
        return None
    number = held.missing[0]
    return (
        f"{path} holds {held}; missing: {named(held.missing)}. Collect each with "
        f"--shard {number}/{held.count} and so on, and gramian add them all"
    )
