"""A set of moments: read from a folder or from memory, lazily, one site or pair at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from torch import Tensor

from gramian.errors import GramianError
from gramian.moments.accumulator import Pair
from gramian.moments.blocks import Blocks
from gramian.moments.description import description
from gramian.moments.digests import Digests, from_tensor
from gramian.moments.format import Index, read_index
from gramian.moments.joint import JointMoments
from gramian.moments.lookup import Folds, Lookup, folds_of
from gramian.moments.moments import Moments
from gramian.moments.parts import FolderParts, Parts
from gramian.moments.recipe import Recipe
from gramian.moments.shards import HeldShards

_Sum = TypeVar("_Sum", Moments, JointMoments)


@dataclass(frozen=True)
class DocumentSummary:
    """The documents behind a set."""

    count: int
    digest: str
    """SHA-256 over all document digests, whatever order they came in."""


class MomentSet:
    """Moments of many sites and pairs, from one collection.

    Made by :meth:`open`, by a writer's ``finish()`` or by :func:`add_moments`.
    """

    def __init__(self, index: Index, parts: Parts) -> None:
        self._index = index
        self._parts = parts
        self._by_key = {part.key: part for part in index.parts}
        self._lookup = Lookup(index)
        self.blocks = Blocks(index, parts)
        """The stored blocks, for those who add sets or copy them."""

    @classmethod
    def open(cls, path: str | Path, verify: bool | str = "lazy") -> MomentSet:
        """Open a moments folder; only its index is read.

        Args:
            path: the folder ``x.moments``.
            verify: ``"lazy"`` checks the SHA-256 of a part when it is first read, True checks
                all parts now, False none. The index, every size, and the header of every part
                that is read are always checked.

        Raises:
            GramianError: not a moments folder, another version, or a file that is missing,
                truncated, changed or outside the rules of the format; the message names it.
        """
        if verify not in (True, False, "lazy"):
            raise GramianError(f"verify is {verify!r}, expected True, False or 'lazy'")
        folder = Path(path)
        index = read_index(folder)
        parts = FolderParts(folder, lazy_hash=verify is not False)
        for part in index.parts:
            parts.locate(part)
        result = cls(index, parts)
        if verify is True:
            result.verify()
        return result

    @property
    def path(self) -> Path | None:
        """The folder, or None for a set in memory."""
        return self._parts.path

    @property
    def recipe(self) -> Recipe:
        """What the statistics are of."""
        return self._index.recipe

    @property
    def index(self) -> Index:
        """All that index.json says."""
        return self._index

    @property
    def documents(self) -> DocumentSummary:
        """How many documents, and a digest over all of them."""
        return DocumentSummary(*self._index.documents)

    @property
    def shards(self) -> HeldShards | None:
        """Which shards of one collection are there; None for a set that is whole."""
        return self._index.shards

    @property
    def folds(self) -> tuple[str, ...]:
        """The folds that are there."""
        return self._index.folds

    @property
    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Fold -> ``tokens``, ``rows``, ``sinks`` and ``documents``."""
        return self._index.counts

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of all sites."""
        return tuple(part.names[0] for part in self._index.parts if part.kind == "site")

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs that are stored."""
        return tuple(
            Pair(part.names[0], part.names[1], part.increment)
            for part in self._index.parts
            if part.kind == "pair"
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all parts as stored."""
        return sum(part.bytes for part in self._index.parts)

    def verify(self) -> None:
        """Check the SHA-256 of every part.

        Raises:
            GramianError: a part has changed; the message names the file.
        """
        for part in self._index.parts:
            self._parts.verify(part)

    def moments(self, site: str, fold: Folds = "train", sinks: bool = False) -> Moments:
        """The moments of a site.

        Args:
            site: its name.
            fold: one fold, or several to be added.
            sinks: whether the sink rows are added to the others.

        Returns:
            Moments of width d; diagonal ones where only the diagonal was collected.

        Raises:
            GramianError: no such site (the closest names are given) or fold, or a damaged file.
        """
        part = self._lookup.site(site)
        folds = folds_of(part, fold)
        return _total(m for name in folds for m in self.blocks.moments(part, name, sinks))

    def joint(
        self,
        x: str,
        y: str,
        fold: Folds = "train",
        sinks: bool = False,
        increment: bool = False,
    ) -> JointMoments:
        """The joint moments of two sites over the same rows.

        The pair, the pair of its increment, and (where both sites are full) the reverse pair
        follow from each other, so any of them being stored is enough.

        Args:
            x: the source site, (n, dx).
            y: the target site, (n, dy).
            fold: one fold, or several to be added.
            sinks: whether the sink rows are added to the others.
            increment: give the joint moments of ``(x, y - x)``.

        Raises:
            GramianError: no such site, fold or pair (the partners of x are given), or a
                damaged file.
        """
        stored = [p for p in (Pair(x, y, increment), Pair(x, y, not increment)) if self.has(p)]
        if stored:
            joint = self._joint(stored[0], fold, sinks)
            if stored[0].increment != increment:
                joint = joint.increment() if increment else joint.with_source()
            return joint if increment else self._with_full_target(joint, y, fold, sinks)
        if self.has(Pair(y, x)):
            joint = self._joint(Pair(y, x), fold, sinks)
            joint = self._with_full_target(joint, x, fold, sinks)
            if not joint.y.is_diagonal:
                return joint.swap().increment() if increment else joint.swap()
        raise GramianError(self._lookup.no_pair(x, y))

    def _joint(self, pair: Pair, fold: Folds, sinks: bool) -> JointMoments:
        part = self._by_key["pair", (pair.x, pair.y), pair.increment]
        folds = folds_of(part, fold)
        return _total(j for name in folds for j in self.blocks.joint(part, name, sinks))

    def _with_full_target(
        self, joint: JointMoments, y: str, fold: Folds, sinks: bool
    ) -> JointMoments:
        part = self._by_key.get(("site", (y,), False))
        if part is None or part.order == "diagonal" or not joint.y.is_diagonal:
            return joint
        return replace(joint, y=self.moments(y, fold, sinks))

    def has(self, pair: Pair) -> bool:
        """Whether this very pair is stored."""
        return ("pair", (pair.x, pair.y), pair.increment) in self._by_key

    def reservoir(self, site: str, fold: str = "train") -> tuple[list[tuple[str, int]], Tensor]:
        """The raw rows kept of a site.

        Returns:
            Keys (document digest, character offset) and rows (k, d) in the same order.

        Raises:
            GramianError: none were kept.
        """
        part = self._by_key.get(("reservoir", (site,), False))
        if part is None:
            self._lookup.site(site)
            raise GramianError(
                f"no raw rows of {site!r} were kept; collect with a reservoir to have them"
            )
        (name,) = folds_of(part, (fold,))
        reservoir = self.blocks.reservoir(part, name)
        return reservoir.keys, reservoir.rows

    def document_digests(self, fold: str) -> Digests:
        """The first 16 bytes of the SHA-256 of each document of a fold, sorted."""
        part = self._by_key.get(("documents", (), False))
        return from_tensor(None if part is None else self.blocks.reader(part, fold)("digests"))

    def describe(self) -> dict[str, object]:
        """What is in the set, as JSON values: the recipe, and a row for each site and pair."""
        return description(self._index, self._parts)

    def __repr__(self) -> str:
        rows = ", ".join(f"{fold} {self.counts[fold]['rows']}" for fold in self.folds)
        where = "in memory" if self.path is None else repr(str(self.path))
        return f"MomentSet({where}: {len(self.sites)} sites, {len(self.pairs)} pairs; rows: {rows})"


def _total(blocks: Iterable[_Sum]) -> _Sum:
    """Their sum, one at a time; a fold always has the block of its rows."""
    iterator = iter(blocks)
    total = next(iterator)
    for block in iterator:
        total = total + block
    return total
