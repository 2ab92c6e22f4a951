"""Add moments sets: the sum is the set of all their rows, as if collected at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments.accumulator import Pair
from gramian.moments.blocks import joint_of_thin
from gramian.moments.digests import union
from gramian.moments.folds import FOLDS
from gramian.moments.format import COUNTS
from gramian.moments.joint import JointMoments
from gramian.moments.moments import Moments
from gramian.moments.momentset import MomentSet
from gramian.moments.part import Part
from gramian.moments.reservoir import Reservoir
from gramian.moments.shards import united
from gramian.moments.writer import MomentSetWriter

THIN_LIMIT = 512
"""Sink rows kept raw in a sum; beyond, all of them become moments."""
_Sum = TypeVar("_Sum", Moments, JointMoments)
Source = tuple[MomentSet, Part]


def add_moments(
    paths: Sequence[str | Path | MomentSet],
    out: str | Path | None,
    force: bool = False,
    *,
    allow_overlap: bool = False,
) -> MomentSet:
    """The sum of moments sets, written part by part; no more than two parts are in memory.

    The order of the sets, and how they are grouped, changes the sums only by float64 rounding.
    Shards of one collection may share documents, whose rows are dealt out among them; the sum of
    all of them is the set that one machine would have collected. A sum that lacks some is written
    too: its ``shards`` say which.

    Args:
        paths: folders, or open sets.
        out: the folder to write; None keeps the sum in memory.
        force: whether a moments set at ``out`` may be replaced.
        allow_overlap: count documents that several sets hold once for each.

    Raises:
        GramianError: no set, recipes that differ (the fields and both values are named), sites
            or pairs that not all of them have, documents in more than one, a shard given twice or
            together with another collection's, or a damaged file.
    """
    sets = [given if isinstance(given, MomentSet) else MomentSet.open(given) for given in paths]
    if not sets:
        raise GramianError("no moments sets to add, expected at least one folder")
    names = [f"set {i}" if s.path is None else str(s.path) for i, s in enumerate(sets)]
    for other, name in zip(sets[1:], names[1:], strict=True):
        _check_same(sets[0], other, names[0], name)
    held = united([(name, s.shards) for s, name in zip(sets, names, strict=True)])
    dealt = sets[0].shards is not None
    documents = {fold: union(s.document_digests(fold) for s in sets) for fold in FOLDS}
    shared = sum(times for _, times in documents.values())
    if not allow_overlap and not dealt:
        _check_apart(sets, names, shared)
    exact = any(s.index.storage == "float64" for s in sets)
    storage = "float64" if exact else "float32"
    with MomentSetWriter(out, sets[0].recipe, storage=storage, force=force) as writer:
        for part in sets[0].index.parts:
            sources = [(s, mine) for s in sets for mine in s.index.parts if mine.key == part.key]
            for fold in FOLDS:
                present = [(s, mine) for s, mine in sources if fold in mine.counts]
                if present:
                    _ADD.get(part.kind, _nothing)(writer, part, fold, present)
        counts = {
            fold: {
                name: sum(s.counts[fold][name] for s in sets if fold in s.folds) for name in COUNTS
            }
            for fold in FOLDS
            if any(fold in s.folds for s in sets)
        }
        for fold in counts:
            counts[fold]["documents"] -= documents[fold][1]
        hexadecimal = {
            fold: [raw.tobytes().hex() for raw in once.reshape(-1, 1)]
            for fold, (once, _) in documents.items()
        }
        return writer.finish(documents=hexadecimal, counts=counts, shards=held)


def _check_same(first: MomentSet, other: MomentSet, first_name: str, name: str) -> None:
    unequal = first.recipe.difference(other.recipe)
    if unequal:
        raise GramianError(
            f"{first_name} and {name} cannot be added, their recipes differ in "
            f"{'; '.join(unequal)}; collect both in the same way"
        )
    mine = {part.key: part for part in first.index.parts if part.kind != "documents"}
    theirs = {part.key: part for part in other.index.parts if part.kind != "documents"}
    for here, there, lacking in ((mine, theirs, name), (theirs, mine, first_name)):
        missing = [part.title for key, part in here.items() if key not in there]
        if missing:
            more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            raise GramianError(
                f"{first_name} and {name} cannot be added: {lacking} lacks "
                f"{', '.join(missing[:5])}{more}; collect both for the same jobs"
            )
    for key, part in mine.items():
        if (part.dims, part.order) != (theirs[key].dims, theirs[key].order):
            raise GramianError(
                f"{first_name} and {name} cannot be added: {part.title} is {part.order} of "
                f"{part.dims} and {theirs[key].order} of {theirs[key].dims}"
            )


def _check_apart(sets: Sequence[MomentSet], names: Sequence[str], shared: int) -> None:
    advice = "their rows would count twice; add sets of different documents, or allow the overlap"
    if shared:
        total = sum(s.documents.count for s in sets)
        raise GramianError(
            f"{shared} of {total} documents are in more than one of {', '.join(names)}; {advice}"
        )
    contents: dict[tuple[str, ...], str] = {}
    for s, name in zip(sets, names, strict=True):
        content = tuple(part.sha256 for part in s.index.parts)
        if s.path is not None and content and content in contents:
            raise GramianError(f"{contents[content]} and {name} are the same set; {advice}")
        contents[content] = name


def _sum(blocks: Iterable[_Sum | None]) -> _Sum | None:
    total: _Sum | None = None
    for block in blocks:
        if block is not None:
            total = block if total is None else total + block
    return total


def _thin(sources: Sequence[Source], fold: str) -> Tensor | None:
    rows = [thin for s, part in sources if (thin := s.blocks.thin(part, fold)) is not None]
    if not rows:
        return None
    wide = max((thin.dtype for thin in rows), key=lambda dtype: dtype.itemsize)
    return torch.cat([thin.to(wide) for thin in rows])


def _add_site(writer: MomentSetWriter, part: Part, fold: str, sources: Sequence[Source]) -> None:
    rows = _sum(s.blocks.dense(mine, fold, "rows") for s, mine in sources)
    sinks = _sum(s.blocks.dense(mine, fold, "sinks") for s, mine in sources)
    thin = _thin(sources, fold)
    if thin is not None and len(thin) > THIN_LIMIT:
        dense = Moments.from_rows(thin, order=part.order)
        sinks, thin = dense if sinks is None else sinks + dense, None
    assert rows is not None  # every fold of a part has its rows
    writer.put_site(part.names[0], fold, rows, (sinks, thin))


def _add_pair(writer: MomentSetWriter, part: Part, fold: str, sources: Sequence[Source]) -> None:
    # Only the diagonal of the source is read: its means and trace are all that a sum needs.
    rows = _sum(s.blocks.dense_joint(mine, fold, "rows", diagonal=True) for s, mine in sources)
    sinks = _sum(s.blocks.dense_joint(mine, fold, "sinks", diagonal=True) for s, mine in sources)
    x, y = (_thin(_ends(sources, i, fold), fold) for i in (0, 1))
    if x is not None and y is not None and len(x) == len(y) > THIN_LIMIT:
        joint = joint_of_thin(x, y, part.increment)
        dense = JointMoments(joint.x.diagonal(), joint.y, joint.cross, joint.quartic)
        sinks = dense if sinks is None else sinks + dense
    assert rows is not None  # every fold of a part has its rows
    writer.put_pair(Pair(part.names[0], part.names[1], part.increment), fold, rows, sinks)


def _ends(sources: Sequence[Source], end: int, fold: str) -> list[Source]:
    """The parts of one of a pair's two sites, in the same order."""
    return [
        (s, site)
        for s, part in sources
        for site in s.index.parts
        if site.key == ("site", (part.names[end],), False) and fold in site.counts
    ]


def _add_reservoir(
    writer: MomentSetWriter, part: Part, fold: str, sources: Sequence[Source]
) -> None:
    held = [s.blocks.reservoir(mine, fold) for s, mine in sources]
    total = Reservoir(max(some.k for some in held), held[0].width, dtype=held[0].rows.dtype)
    for some in held:
        total.update(some.keys, some.rows)
    writer.put_reservoir(part.names[0], fold, total)


def _nothing(writer: MomentSetWriter, part: Part, fold: str, sources: Sequence[Source]) -> None:
    """Documents are added as a whole at the end."""


_Add = Callable[[MomentSetWriter, Part, str, Sequence[Source]], None]
_ADD: dict[str, _Add] = {"site": _add_site, "pair": _add_pair, "reservoir": _add_reservoir}
