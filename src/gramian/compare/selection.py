"""Which sites are compared with which."""

from __future__ import annotations

from collections.abc import Sequence

from gramian.compare.pairs import comparable, full_sites, stored_pairs
from gramian.errors import GramianError
from gramian.moments import MomentSet, Pair

A, B = "a:", "b:"
"""What the names of the sites of two networks start with in a joint collection."""
Sites = tuple[Sequence[str], Sequence[str]] | Sequence[str]
"""Those to compare, or those of the rows and those of the columns."""


def choose_sites(
    moments: MomentSet,
    sites: Sites | None,
    inside: str | None,
) -> tuple[list[str], list[str]]:
    """The sites of the rows and of the columns, of one set.

    Raises
    ------
    GramianError : nothing to compare, or ``inside`` a network that is not there.
    """
    joint = moments.recipe.partner is not None
    if inside not in (None, "a", "b"):
        raise GramianError(f"inside is {inside!r}, expected 'a' or 'b'")
    if inside is not None and not joint:
        raise GramianError(
            "inside chooses a network of a joint collection; these moments are of one network, "
            "leave it out"
        )
    if sites is not None:
        return _given(sites)
    if inside is not None:
        found = list(comparable(moments, f"{inside}:"))
        return found, found
    if not joint:
        found = list(comparable(moments))
        return found, found
    every = full_sites(moments)
    return [s for s in every if s.startswith(A)], [s for s in every if s.startswith(B)]


def _given(sites: Sites) -> tuple[list[str], list[str]]:
    if len(sites) == 2 and not any(isinstance(part, str) for part in sites):
        rows, columns = (list(dict.fromkeys(part)) for part in sites)
    else:
        rows = columns = list(dict.fromkeys(str(site) for site in sites))
    if not rows or not columns:
        raise GramianError("no site to compare is named; name some, or leave out sites for all")
    return rows, columns


def choose_apart(
    a: MomentSet,
    b: MomentSet,
    sites: Sites | None,
) -> tuple[list[str], list[str]]:
    """The sites of the rows and of the columns, of two sets.

    Raises
    ------
    GramianError : a site that is not kept in full.
    """
    rows, columns = (full_sites(a), full_sites(b)) if sites is None else _given(sites)
    for found, moments in ((rows, a), (columns, b)):
        known = full_sites(moments)
        missing = [site for site in found if site not in known]
        if missing or not found:
            raise GramianError(
                f"{missing[0] if missing else 'no site'} is kept in full in {moments!r}; "
                f"there is {', '.join(known) or 'none'}"
            )
    return rows, columns


def widths(moments: MomentSet, names: Sequence[str]) -> set[int]:
    """The widths of these sites."""
    return {
        part.dims[0]
        for part in moments.index.parts
        if part.kind == "site" and part.names[0] in names
    }


def check_pairs(moments: MomentSet, x: Sequence[str], y: Sequence[str]) -> None:
    """Refuse pairs that were not collected, before anything is worked out."""
    stored, full = stored_pairs(moments), full_sites(moments)
    for row in x:
        for column in y:
            if row == column or {Pair(row, column), Pair(column, row)} & stored.keys():
                continue
            lacking = [site for site in (row, column) if site not in full]
            if lacking:
                raise GramianError(
                    f"no site {lacking[0]!r} is kept in full in {moments!r}; there is "
                    f"{', '.join(full) or 'none'}"
                )
            raise GramianError(
                f"the pair of {row} and {column} was not collected; collect with --for compare "
                "(within the networks of a joint collection: with --inside)"
            )
