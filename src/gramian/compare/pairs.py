"""Reading a set for a comparison: which sites can be compared, and their moments by subsets of
the folds (all of them, and all but one), for the jackknife."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from gramian.errors import GramianError
from gramian.moments import JointMoments, Moments, MomentSet, Pair
from gramian.moments.part import Part

_Sum = TypeVar("_Sum", Moments, JointMoments)


@dataclass(frozen=True)
class Subsets:
    """The folds that a number is worked out on: all, then all but each one in turn."""

    folds: tuple[str, ...]
    left_out: bool
    """Whether the subsets that lack a fold are wanted."""

    @property
    def every(self) -> tuple[tuple[str, ...], ...]:
        """The folds of every subset."""
        return (self.folds, *self._others) if self.left_out else (self.folds,)

    @property
    def _others(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(f for f in self.folds if f != gone) for gone in self.folds)

    def sums(self, parts: Sequence[_Sum]) -> list[_Sum]:
        """The sum of every subset, of one part per fold."""
        by_fold = dict(zip(self.folds, parts, strict=True))
        return [_total([by_fold[fold] for fold in subset]) for subset in self.every]


def _total(parts: Sequence[_Sum]) -> _Sum:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of one set, in either order."""

    moments: MomentSet
    sinks: bool
    subsets: Subsets

    @cached_property
    def _parts(self) -> dict[Pair, Part]:
        return stored_pairs(self.moments)

    def site(self, name: str) -> list[Moments]:
        """Full moments of a site, by subset."""
        folds = self.subsets.folds
        return self.subsets.sums([self.moments.moments(name, fold, self.sinks) for fold in folds])

    def joint(self, x: str, y: str) -> list[JointMoments]:
        """Joint moments with full moments on both sides, by fold."""
        return [self.moments.joint(x, y, fold, self.sinks) for fold in self.subsets.folds]

    def cross(self, x: str, y: str) -> list[JointMoments]:
        """Joint moments by subset, of which the sides are diagonal: neither site is read in
        full, which is what makes a matrix of all pairs cheap."""
        if Pair(x, y) not in self._parts:
            return [
                JointMoments(j.y, j.x, j.cross.T, None if j.quartic is None else j.quartic.swap())
                for j in self.cross(y, x)
            ]
        part = self._parts[Pair(x, y)]
        return self.subsets.sums([self._light(part, fold) for fold in self.subsets.folds])

    def _light(self, part: Part, fold: str) -> JointMoments:
        blocks = self.moments.blocks
        found = [blocks.dense_joint(part, fold, "rows", diagonal=True)]
        if self.sinks:
            found.append(blocks.dense_joint(part, fold, "sinks", diagonal=True))
            thin = blocks.thin_joint(part, fold)
            if thin is not None:
                found.append(JointMoments(thin.x.diagonal(), thin.y, thin.cross, thin.quartic))
        return _total([block for block in found if block is not None])


def stored_pairs(moments: MomentSet) -> dict[Pair, Part]:
    """The pairs, not of increments, between sites that are kept in full."""
    full = set(full_sites(moments))
    return {
        Pair(part.names[0], part.names[1]): part
        for part in moments.index.parts
        if part.kind == "pair" and not part.increment and set(part.names) <= full
    }


def full_sites(moments: MomentSet) -> list[str]:
    """Sites whose scatter is kept in full, in network order."""
    found = [
        part.names[0]
        for part in moments.index.parts
        if part.kind == "site" and part.order == "full"
    ]
    return sorted(found, key=lambda name: not name.endswith("embed"))


def comparable(moments: MomentSet, prefix: str = "") -> tuple[str, ...]:
    """Sites of which every pair is stored: as many as there are.

    ``prefix`` keeps to one network of a joint collection.

    Raises
    ------
    GramianError : fewer than two.
    """
    pairs = stored_pairs(moments)
    sites = [site for site in full_sites(moments) if site.startswith(prefix)]
    partners = {
        site: {other for pair in pairs if site in pair[:2] for other in pair[:2]} - {site}
        for site in sites
    }
    chosen: set[str] = set()
    for site in sorted(sites, key=lambda name: -len(partners[name])):
        if chosen <= partners[site]:
            chosen.add(site)
    if len(chosen) < 2:
        how = "--for compare --inside" if prefix else "--for compare"
        raise GramianError(
            f"no two sites of {moments.path or 'these moments'} were collected together in full, "
            f"so there is nothing to compare; collect with {how}"
        )
    return tuple(site for site in sites if site in chosen)
