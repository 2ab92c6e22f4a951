"""Shards: one collection dealt out over n machines, and which of its n parts a set holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gramian.errors import GramianError
from gramian.moments.fields import Fields

MOST = 10**6
"""Shards of one collection; far more than there will be machines."""
_SHARD = re.compile(r"([0-9]{1,7})/([0-9]{1,7})")


@dataclass(frozen=True)
class Shard:
    """Part ``number`` (from 1) of ``count`` of one collection.

    The batches of the whole collection are dealt out in turn, so every shard has the same
    number of them, to one, and together they have each exactly once.

    Raises:
        GramianError: a number that is not from 1 to ``count``, or a count above :data:`MOST`.
    """

    number: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count <= MOST:
            raise GramianError(
                f"shard {self} does not exist; expected i/n with i from 1 to n, such as 2/4, and n "
                f"of at most {MOST:,}"
            )

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read ``"2/4"``.

        Raises:
            GramianError: another form, or a number that is not from 1 to n.
        """
        match = _SHARD.fullmatch(text.strip())
        if not match:
            raise GramianError(f"shard {text!r}: expected i/n with i from 1 to n, such as 2/4")
        return cls(int(match[1]), int(match[2]))

    def has(self, batch: int) -> bool:
        """Whether a batch of the whole collection, counted from 0, is one of this shard's."""
        return batch % self.count == self.number - 1


@dataclass(frozen=True)
class HeldShards:
    """Which shards of one collection are in a set that does not hold them all.

    Raises:
        GramianError: no shard, all of them, one twice, one that does not exist, or a count
            above :data:`MOST`.
    """

    run: str
    """A digest of all documents of the collection and of how they are cut into batches."""
    count: int
    """Shards in all."""
    held: tuple[int, ...]
    """Those that are there, counted from 1, in rising order."""

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip(self.held, self.held[1:], strict=False))
        inside = self.held and self.held[0] >= 1 and self.held[-1] <= self.count
        if not rising or not inside or len(self.held) == self.count or self.count > MOST:
            raise GramianError(
                f"shards held are {list(self.held)}, expected some but not all of 1 to "
                f"{self.count}, rising, and at most {MOST:,} in all"
            )

    def __str__(self) -> str:
        return f"{named(self.held)} of {self.count}"

    @property
    def missing(self) -> tuple[int, ...]:
        """The other shards, in rising order."""
        return tuple(sorted(set(range(1, self.count + 1)) - set(self.held)))

    def to_json(self) -> dict[str, object]:
        """Every field, as JSON values."""
        return {"run": self.run, "count": self.count, "held": list(self.held)}

    @classmethod
    def read(cls, entry: Fields) -> HeldShards:
        """Read what :meth:`to_json` wrote."""
        shards = cls(entry.text("run"), entry.integer("count", low=1), entry.sizes("held"))
        entry.close()
        return shards


def named(numbers: Sequence[int]) -> str:
    """``"shard 2"``, ``"shards 1, 3"``; long lists are cut."""
    shown = ", ".join(map(str, numbers[:12]))
    more = f" and {len(numbers) - 12} more" if len(numbers) > 12 else ""
    return f"shard{'s' * (len(numbers) != 1)} {shown}{more}"


def united(sets: Sequence[tuple[str, HeldShards | None]]) -> HeldShards | None:
    """The shards of a sum; None when the sum holds all of them, or sets that are whole.

    Args:
        sets: the name of each set, for messages, and what it holds.

    Raises:
        GramianError: a shard given twice, shards of two collections or of one that was dealt
            out in two ways, or shards together with a set that is whole.
    """
    first, known = next(((name, held) for name, held in sets if held is not None), ("", None))
    if known is None:
        return None
    given: dict[int, str] = {}
    for name, shards in sets:
        if shards is None:
            raise GramianError(
                f"{first} holds {known} and {name} is not one of them; add up all shards first "
                f"(missing there: {named(known.missing)}), then add other sets to the sum"
            )
        if shards.count != known.count:
            raise GramianError(
                f"{first} holds {known} and {name} {shards}: the collection was dealt out in two "
                "ways; collect every shard with the same n of --shard i/n"
            )
        if shards.run != known.run:
            raise GramianError(
                f"{first} and {name} are shards of different collections: their documents differ, "
                "or tokens, seed, length or batch_rows do; collect every shard of the same data "
                "with the same command"
            )
        for number in shards.held:
            if number in given:
                raise GramianError(
                    f"shard {number}/{known.count} is in both {given[number]} and {name}; its rows "
                    "would count twice: give every shard once"
                )
            given[number] = name
    if len(given) == known.count:
        return None
    return HeldShards(known.run, known.count, tuple(sorted(given)))
