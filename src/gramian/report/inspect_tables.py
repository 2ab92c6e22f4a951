"""What ``gramian inspect`` prints: one table per kind of site, then the linear layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table

from gramian.inspect import Inspection, LinearInspection, SiteInspection, by_name
from gramian.networks.sites import CROSS, GLOBAL, KINDS


def inspect_tables(inspection: Inspection) -> list[Table]:
    """Spread, channels and sinks of every kind of site, then utilised ranks; 80 columns each."""
    tables = []
    kinds = dict.fromkeys(sorted((site.kind for site in inspection.sites), key=_order))
    if "resid_pre" in kinds and "final" in kinds:
        # One place at many depths: the last is the input of the final norm.
        kinds.pop("final")
    for kind in kinds:
        group = ("resid_pre", "final") if kind == "resid_pre" else (kind,)
        sites = [site for site in inspection.sites if site.kind in group]
        sites.sort(key=lambda site: site.kind == "final")
        if any(site.spread for site in sites):
            tables.append(_spread(kind, sites))
        tables.append(_channels(kind, sites))
    if inspection.linears:
        tables.append(_linears(inspection))
        tables.append(_layers(inspection.linears))
    return tables


def cautions_table(sites: Iterable[SiteInspection]) -> Table | None:
    """Each kind of caution once, with the sites that it is about; None without any."""
    found: dict[str, list[tuple[str, str]]] = {}
    for site in sites:
        for caution in site.cautions:
            found.setdefault(caution.kind, []).append((site.site, caution.message))
    if not found:
        return None
    table = Table(title="cautions", title_justify="left", header_style="bold")
    table.add_column("sites", justify="right", no_wrap=True)
    table.add_column("such as", no_wrap=True)
    table.add_column("what to know")
    for cautions in found.values():
        place, message = cautions[len(cautions) // 2]
        table.add_row(str(len(cautions)), place, message)
    return table


def _order(kind: str) -> int:
    """Where a kind of site stands among the others: in the order of a forward pass."""
    known = (*GLOBAL[:1], *KINDS, *CROSS, *GLOBAL[1:])
    return known.index(kind) if kind in known else len(known)


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(
        title=title, title_justify="left", header_style="bold", min_width=min(len(title), 79)
    )
    for i, name in enumerate(columns):
        table.add_column(name, justify="right" if i else "left", no_wrap=True)
    return table


def _spread(kind: str, sites: Sequence[SiteInspection]) -> Table:
    width = "/".join(str(d) for d in dict.fromkeys(site.width for site in sites))
    title = f"{kind}: how {width} dimensions are used"
    columns = ("site", "rows/dim", "eff. rank", "PR", "stable", "EEE", "IsoScore")
    table = _table(title, columns)
    for site in sites:
        s = site.spread
        if s is None:
            table.add_row(site.site, f"{site.rows_per_dimension:.1f}", *["·"] * 5)
            continue
        table.add_row(
            site.site,
            f"{site.rows_per_dimension:.1f}",
            f"{s.effective_rank:.1f}",
            f"{s.participation_ratio:.1f}",
            f"{s.stable_rank:.1f}",
            f"{s.eee:.3f}",
            f"{s.iso_score:.3f}",
        )
    return table


def _channels(kind: str, sites: Sequence[SiteInspection]) -> Table:
    title = f"{kind}: loud channels and sink rows"
    columns = ("site", "loud", "loudest", "variance", "mean", "sinks", "own", "longer")
    table = _table(title, columns)
    for site in sites:
        loud, sinks = site.channels.outliers, site.sinks
        table.add_row(
            site.site,
            str(len(loud)),
            f"{loud[0].channel} ×{loud[0].times:.0f}" if loud else "",
            f"{site.channels.outlier_share:.0%}" if loud else "",
            f"{site.mean_share:.0%}",
            f"{sinks.count:g}",
            f"{sinks.share:.1%}" if sinks.count else "",
            f"×{sinks.times:.1f}" if sinks.count else "",
        )
    return table


def _linears(inspection: Inspection) -> Table:
    title = f"directions that hold {inspection.energy:.4g} of the variance, mean over layers"
    columns = ("weight", "layers", "in", "k_S", "with sinks", "out", "k_T", "utilised")
    raw = any(linear.input_rank_unit_rows is not None for linear in inspection.linears)
    table = _table(title, (*columns, "k_S unit") if raw else columns)
    for name, linears in by_name(inspection.linears).items():
        unit = [v for linear in linears if (v := linear.input_rank_unit_rows) is not None]
        cells = [
            name,
            str(len(linears)),
            "/".join(str(d) for d in dict.fromkeys(linear.inputs for linear in linears)),
            f"{_mean([linear.input_rank for linear in linears]):.0f}",
            f"{_mean([linear.input_rank_with_sinks for linear in linears]):.0f}",
            "/".join(str(d) for d in dict.fromkeys(linear.outputs for linear in linears)),
            f"{_mean([linear.output_rank for linear in linears]):.0f}",
            f"{_mean([linear.utilisation for linear in linears]):.0%}",
        ]
        if raw:
            cells.append(f"{_mean(unit):.0f}" if unit else "·")
        table.add_row(*cells)
    return table


def _layers(linears: Sequence[LinearInspection]) -> Table:
    names = list(by_name(linears))
    table = _table("utilised rank over full rank, per layer", ("layer", *names))
    places = dict.fromkeys((linear.site.rpartition(".")[0], linear.layer) for linear in linears)
    cells = {(linear.site.rpartition(".")[0], linear.name): linear for linear in linears}
    for place, _ in places:
        row = [cells.get((place, name)) for name in names]
        table.add_row(place, *(f"{cell.utilisation:.0%}" if cell else "" for cell in row))
    return table


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
