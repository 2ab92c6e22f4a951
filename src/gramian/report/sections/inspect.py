"""The inspection: how every site spreads, its loud channels and sinks, what the weights use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gramian.report.section import Figure, Section, Series, Table
from gramian.report.sections.places import depths, family_of, network_order

if TYPE_CHECKING:
    from gramian.inspect import Inspection, SiteInspection

LOUDEST = 3
"""Loud channels of a site that are listed."""

SPREADS: tuple[tuple[str, str, str, str], ...] = (
    (
        "effective_rank",
        "Effective rank",
        "dimensions",
        "The exponential of the entropy of the spectrum; sink rows left out.",
    ),
    (
        "participation_ratio",
        "Participation ratio",
        "dimensions",
        "(tr S)² / tr S²: one loud direction brings it to 1 whatever the others do.",
    ),
    (
        "eee",
        "Eigenvalue early enrichment",
        "EEE",
        "0 when all directions are used alike, near 1 when one holds everything.",
    ),
)
"""Figure of the spread, title, y axis and caption of its curves."""

SITE_COLUMNS = {
    "site": "site",
    "rows": "rows",
    "width": "width",
    "rows_per_dimension": "rows / width",
    "effective_rank": "effective rank",
    "participation_ratio": "participation ratio",
    "stable_rank": "stable rank",
    "eee": "EEE",
    "iso_score": "IsoScore",
    "matrix_entropy": "matrix entropy",
    "outlier_share": "share of loud channels",
    "silent_channels": "silent channels",
    "sinks": "sink rows",
    "sink_share": "share of sinks",
}
LINEAR_COLUMNS = {
    "weight": "weight",
    "site": "reads",
    "inputs": "inputs",
    "outputs": "outputs",
    "input_rank": "input rank",
    "output_rank": "output rank",
    "utilisation": "utilisation",
    "input_rank_with_sinks": "input rank with sinks",
    "input_rank_unit_rows": "input rank of unit rows",
}


def inspect_section(inspection: Inspection, *, command: str, anchor: str = "inspect") -> Section:
    """Curves over the layers, one per place in a layer, and the tables behind them."""
    sites = sorted(inspection.sites, key=lambda item: network_order(item.site))
    intro = [
        f"{len(sites):,} sites, all rows of the folds {', '.join(inspection.folds)}. A loud "
        f"channel is {inspection.threshold:g} times the median channel or more."
    ]
    if inspection.mean_utilisation is not None:
        intro.append(
            f"Mean layer utilisation: {inspection.mean_utilisation:.1%} of the full rank of "
            f"{len(inspection.linears)} linear layers at {inspection.energy:.4g} of the variance."
        )
    figures = [_spread(sites, *wanted) for wanted in SPREADS]
    figures += [_loudest(sites), _sinks(sites), _utilisation(inspection)]
    tables = [
        Table.of("Every site", [site.record() for site in sites], SITE_COLUMNS),
        _channels(sites),
    ]
    if inspection.linears:
        records = [linear.record() for linear in inspection.linears]
        tables.append(Table.of("Linear layers", records, LINEAR_COLUMNS))
    return Section(
        title=f"Spread, loud channels and sinks of {inspection.model}",
        anchor=anchor,
        intro=tuple(intro),
        figures=tuple(figure for figure in figures if figure is not None),
        tables=tuple(table for table in tables if table.rows),
        command=command,
        warnings=(*_cautions(sites), *inspection.notes),
    )


def _curves(
    sites: Sequence[SiteInspection], value: Callable[[SiteInspection], float | None]
) -> tuple[Series, ...]:
    """One curve per place in a layer; those without any value are left out."""
    places = depths(site.site for site in sites)
    families: dict[str, list[SiteInspection]] = {}
    for site in sites:
        families.setdefault(family_of(site.site), []).append(site)
    found = []
    for name, group in families.items():
        values = [value(site) for site in group]
        if any(number is not None for number in values):
            names = [site.site for site in group]
            found.append(Series(name, [places[site] for site in names], values, names))
    return tuple(found)


def _spread(
    sites: Sequence[SiteInspection], name: str, title: str, axis: str, caption: str
) -> Figure | None:
    def value(site: SiteInspection) -> float | None:
        return None if site.spread is None else getattr(site.spread, name)

    series = _curves(sites, value)
    if not series:
        return None
    return Figure(title, "curves", "layer", axis, series, caption=caption)


def _loudest(sites: Sequence[SiteInspection]) -> Figure | None:
    def value(site: SiteInspection) -> float | None:
        outliers = site.channels.outliers
        return max(outlier.times for outlier in outliers) if outliers else None

    series = _curves(sites, value)
    if not series:
        return None
    caption = "By its standard deviation or its mean, whichever is further; a gap: none is loud."
    return Figure(
        "The loudest channel",
        "curves",
        "layer",
        "times the median channel",
        series,
        caption=caption,
        log=True,
    )


def _sinks(sites: Sequence[SiteInspection]) -> Figure | None:
    if not any(site.sinks.count for site in sites):
        return None
    return Figure(
        "Share of the second moment that sink rows own",
        "curves",
        "layer",
        "share",
        _curves(sites, lambda site: site.sinks.share),
        caption="Every other figure leaves sink rows out.",
    )


def _utilisation(inspection: Inspection) -> Figure | None:
    linears = inspection.linears
    if not linears:
        return None
    layers = sorted({linear.layer for linear in linears})
    values = {(linear.name, linear.layer): linear.utilisation for linear in linears}
    names = list(dict.fromkeys(linear.name for linear in linears))
    series = tuple(
        Series(
            name,
            [str(layer) for layer in layers],
            [values.get((name, layer)) for layer in layers],
            [f"{name} of layer {layer}" for layer in layers],
        )
        for name in reversed(names)
    )
    return Figure(
        "Share of each weight's rank that the data uses",
        "heat map",
        "layer",
        "weight",
        series,
        value_title="utilisation",
        limits=(0.0, 1.0),
        caption=f"min(input rank, output rank) / min(inputs, outputs) at {inspection.energy:.4g} "
        "of the variance.",
    )


def _channels(sites: Sequence[SiteInspection]) -> Table:
    rows = tuple(
        (site.site, outlier.channel, outlier.std_times, outlier.mean_times)
        for site in sites
        for outlier in site.channels.outliers[:LOUDEST]
    )
    columns = ("site", "channel", "deviation, times the median", "mean, times the median")
    caption = f"At most {LOUDEST} of each site, the furthest first."
    return Table("Loud channels", columns, rows, caption)


def _cautions(sites: Sequence[SiteInspection]) -> list[str]:
    """Each kind of caution once, with how many sites it is about."""
    found: dict[str, list[tuple[str, str]]] = {}
    for site in sites:
        for caution in site.cautions:
            found.setdefault(caution.kind, []).append((site.site, caution.message))
    messages = []
    for cautions in found.values():
        place, message = cautions[len(cautions) // 2]
        count = "one site" if len(cautions) == 1 else f"{len(cautions)} sites, such as"
        messages.append(f"{count} {place}: {message}")
    return messages
