"""Every site against every other: inside a set of moments, or between two."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import torch

from gramian.compare.alignment import Alignment
from gramian.compare.apart import Apart
from gramian.compare.catalogue import PAIRED, UNPAIRED, Measure, named
from gramian.compare.caveats import caveats, different_documents
from gramian.compare.comparison import Comparison, Matrix
from gramian.compare.pairs import Pairs, Subsets
from gramian.compare.selection import A, check_pairs, choose_apart, choose_sites, widths
from gramian.errors import GramianError
from gramian.measures import jackknife_error
from gramian.moments import MomentSet

Progress = Callable[[int, int], None]
"""Called with (pairs done, pairs in all)."""


def compare(
    moments: MomentSet,
    other: MomentSet | None = None,
    *,
    measures: Sequence[str] | None = None,
    sites: tuple[Sequence[str], Sequence[str]] | Sequence[str] | None = None,
    sinks: bool = False,
    inside: str | None = None,
    errors: bool | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """How alike the sites of a set of moments are, each against each.

    Of one network every site is compared with every other; of two that were collected together
    (``gm.collect_pair``) the sites of the first with those of the second. Of two sets that were
    collected apart only what needs no paired rows can be told: spectra, and Bures or Frechet
    distances between sites of one width. All folds are used; standard errors are those of the
    jackknife over them, so documents are the units, not tokens.

    Parameters
    ----------
    other : a second set, collected apart.
    measures : names out of ``gm.compare.MEASURES``; by default debiased CKA and CKA of
        standardised channels, or spectral and Bures distances for two sets.
    sites : those to compare, or those of the rows and those of the columns; by default all.
    sinks : also give every measure with the sink rows counted.
    inside : ``"a"`` or ``"b"``: compare within one network of a joint collection.
    errors : give standard errors. By default only for measures that cost little (CKA, spectra).
    progress : called after every pair.

    Raises
    ------
    GramianError : an unknown measure or site, pairs that were not collected, a measure that
        needs paired rows for two sets, or (of measures that are invariant to invertible maps)
        fewer rows than dimensions, where every pair would be equal by counting alone.

    Examples
    --------
    >>> found = gm.compare.compare(m)                                # doctest: +SKIP
    >>> found.matrix("cka")["3.resid_pre", "12.resid_pre"]           # doctest: +SKIP
    """
    if other is None:
        chosen = named(measures or PAIRED, paired=True)
        x, y = choose_sites(moments, sites, inside)
        if any(measure.paired for measure in chosen):
            check_pairs(moments, x, y)
    else:
        if inside is not None:
            raise GramianError("inside is about one joint collection; leave out the other set")
        x, y = choose_apart(moments, other, sites)
        chosen = named(measures or _unpaired(moments, other, x, y), paired=False)
    matrices: list[Matrix] = []
    variants = (False, True) if sinks else (False,)
    work = _Work(len(x) * len(y) * len(variants) * len(_families(chosen)), progress)
    for with_sinks in variants:
        for family in _families(chosen):
            group = [measure for measure in chosen if measure.family == family]
            matrices += _matrices(moments, other, group, (x, y), with_sinks, errors, work)
    order = [measure.name for measure in chosen]
    matrices.sort(key=lambda found: (found.sinks, order.index(found.measure)))
    warnings = caveats(moments, other, matrices, x, y)
    if other is not None:
        warnings = [*different_documents(moments, other), *warnings]
    return Comparison(
        models=_models(moments, other, x, y),
        paired=other is None,
        align=_align(moments, x, y),
        rows=_rows(moments) | ({} if other is None else _rows(other, "other_")),
        documents=moments.documents.count,
        folds=moments.folds,
        matrices=tuple(matrices),
        warnings=tuple(warnings),
    )


class _Work:
    """Counts the pairs that are done."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self.done, self.total, self.progress = 0, total, progress

    def step(self) -> None:
        self.done += 1
        if self.progress:
            self.progress(self.done, self.total)


def _families(measures: Iterable[Measure]) -> list[str]:
    return list(dict.fromkeys(measure.family for measure in measures))


def _matrices(
    moments: MomentSet,
    other: MomentSet | None,
    group: Sequence[Measure],
    sites: tuple[Sequence[str], Sequence[str]],
    sinks: bool,
    errors: bool | None,
    work: _Work,
) -> list[Matrix]:
    """The matrices of measures of one family, filled pair by pair."""
    x, y = sites
    family = group[0].family
    folds = tuple(f for f in moments.folds if other is None or f in other.folds)
    wanted = family in ("alignment", "spectrum") if errors is None else errors
    wanted = wanted and len(folds) > 1
    subsets = Subsets(folds, wanted)
    pairs = Pairs(moments, sinks, subsets)
    values_of: Callable[[str, str], dict[str, list[float]]]
    if family == "alignment":
        values_of = Alignment(pairs, group).values
    elif family == "joint":
        values_of = _joint_values(pairs, group)
    else:
        second = pairs if other is None else Pairs(other, sinks, subsets)
        values_of = Apart(pairs, second, group).values
    counts = _fold_counts(moments, folds, sinks)
    shape = (len(x), len(y))
    values = {m.name: torch.full(shape, math.nan, dtype=torch.float64) for m in group}
    spread = {m.name: torch.full(shape, math.nan, dtype=torch.float64) for m in group}
    mirrored = other is None and list(x) == list(y)
    for i, row in enumerate(x):
        for j, column in enumerate(y):
            twice = mirrored and j < i
            fresh = [m.name for m in group if not (twice and m.symmetric)]
            found = values_of(row, column) if fresh else {}
            for measure in group:
                name = measure.name
                if name not in fresh:
                    values[name][i, j], spread[name][i, j] = values[name][j, i], spread[name][j, i]
                    continue
                values[name][i, j] = found[name][0]
                if wanted:
                    spread[name][i, j] = _error(found[name], counts)
            work.step()
    return [
        Matrix(
            measure=m.name,
            summary=m.summary,
            similarity=m.similarity,
            sinks=sinks,
            x=tuple(x),
            y=tuple(y),
            values=values[m.name],
            errors=spread[m.name] if wanted else None,
        )
        for m in group
    ]


def _joint_values(
    pairs: Pairs, group: Sequence[Measure]
) -> Callable[[str, str], dict[str, list[float]]]:
    """Measures of whole joint moments, one pair at a time."""

    def values(x: str, y: str) -> dict[str, list[float]]:
        if x == y:
            known = {m.name: 1.0 if m.similarity else 0.0 for m in group}
            return {name: [value] * len(pairs.subsets.every) for name, value in known.items()}
        joints = pairs.subsets.sums(pairs.joint(x, y))
        found: dict[str, list[float]] = {}
        for measure in group:
            assert measure.joint is not None
            try:
                found[measure.name] = [measure.joint(joints[0])]
            except GramianError as error:
                raise GramianError(f"{measure.name} of {x} and {y}: {error}") from None
            found[measure.name] += [_without_a_fold(measure.joint, j) for j in joints[1:]]
        return found

    return values


def _without_a_fold(measure: Callable[..., float], joint: object) -> float:
    """The measure of what is left; nan where that is too little for it."""
    try:
        return measure(joint)
    except GramianError:
        return math.nan


def _error(values: Sequence[float], counts: Sequence[float]) -> float:
    """The jackknife's standard error; ``values`` are of all folds, then without each."""
    if not all(math.isfinite(value) for value in values):
        return math.nan
    return jackknife_error(values[0], values[1:], counts)


def _fold_counts(moments: MomentSet, folds: Sequence[str], sinks: bool) -> list[float]:
    return [
        float(moments.counts[fold]["rows"] + (moments.counts[fold]["sinks"] if sinks else 0))
        for fold in folds
    ]


def _unpaired(a: MomentSet, b: MomentSet, x: Sequence[str], y: Sequence[str]) -> tuple[str, ...]:
    """Bures only where every row has the width of every column."""
    return UNPAIRED if len(widths(a, x) | widths(b, y)) == 1 else UNPAIRED[:1]


def _rows(moments: MomentSet, prefix: str = "") -> dict[str, int]:
    counts = moments.counts.values()
    return {
        f"{prefix}kept": sum(count["rows"] for count in counts),
        f"{prefix}sinks": sum(count["sinks"] for count in counts),
    }


def _models(
    moments: MomentSet, other: MomentSet | None, x: Sequence[str], y: Sequence[str]
) -> tuple[str, str]:
    if other is not None:
        return moments.recipe.model, other.recipe.model
    partner = moments.recipe.partner
    if partner is None:
        return moments.recipe.model, moments.recipe.model

    def network(site: str) -> str:
        return moments.recipe.model if site.startswith(A) else partner.model

    return network(x[0]), network(y[0])


def _align(moments: MomentSet, x: Sequence[str], y: Sequence[str]) -> str | None:
    partner = moments.recipe.partner
    return None if partner is None or list(x) == list(y) else partner.align
