"""Finding a site or a fold in a set by its name, and saying what there is when it is not there."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from gramian.errors import GramianError
from gramian.moments.folds import FOLDS
from gramian.moments.format import Index
from gramian.moments.part import Part

Folds = str | Sequence[str]
"""One fold, or several to be added."""


class Lookup:
    """The sites and pairs of a set by name."""

    def __init__(self, index: Index) -> None:
        self._sites = {part.names[0]: part for part in index.parts if part.kind == "site"}
        self._pairs = [part for part in index.parts if part.kind == "pair"]

    def site(self, name: str) -> Part:
        """The part of a site.

        Raises:
            GramianError: there is none; the closest names are given.
        """
        part = self._sites.get(name)
        if part is None:
            close = difflib.get_close_matches(str(name), self._sites, n=3, cutoff=0.5)
            shown = close or list(self._sites)[:5]
            more = "closest" if close else f"{len(self._sites)} sites, first"
            raise GramianError(f"no site {name!r} in this set; {more}: {', '.join(shown)}")
        return part

    def no_pair(self, x: str, y: str) -> str:
        """Why the pair cannot be given, what there is, and how to collect it."""
        for name in (x, y):
            self.site(name)
        partners = [part.title.removeprefix("pair ") for part in self._pairs if part.names[0] == x]
        have = f"stored with {x!r}: {', '.join(partners)}" if partners else f"none with {x!r}"
        return (
            f"the pair {x} -> {y} is not in this set ({have}); collect it by naming a job that "
            f"needs it with --for, or add the need (site {x!r}, partner {y!r})"
        )


def folds_of(part: Part, fold: Folds) -> tuple[str, ...]:
    """The folds that are asked for, each known, once, and stored.

    Raises:
        GramianError: one that is not.
    """
    names = (fold,) if isinstance(fold, str) else tuple(fold)
    if not names or len(set(names)) != len(names):
        raise GramianError(f"fold is {fold!r}, expected one fold, or several once each")
    for name in names:
        if name not in FOLDS:
            raise GramianError(f"fold is {name!r}, expected one of {', '.join(FOLDS)}")
        if name not in part.counts:
            raise GramianError(
                f"the {part.title} has nothing in the fold {name!r}, only in "
                f"{', '.join(part.counts)}; collect more documents"
            )
    return names
