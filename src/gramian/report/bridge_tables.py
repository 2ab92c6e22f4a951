"""What ``gramian bridge judge`` and ``gramian bridge plan`` print."""

from __future__ import annotations

from rich.table import Table

from gramian.bridge.costs import CostPlan, Option
from gramian.bridge.judging import Interval, Judgement
from gramian.report.sections.bridge import NAMES, measure_names, measured


def judgement_table(judgement: Judgement) -> Table:
    """One row per system, its 95 % intervals below; dashes where nothing was measured."""
    systems = measured(judgement)
    headings = {
        name: heading
        for name, heading in measure_names(judgement.k).items()
        if any(getattr(figures, name) is not None for figures in systems.values())
    }
    table = Table(
        title=f"{judgement.queries:,} queries, {judgement.items:,} of {judgement.corpus:,} items",
        title_justify="left",
        header_style="bold",
    )
    table.add_column("system", no_wrap=True)
    for heading in headings.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for name in NAMES:
        if name in systems:
            cells = [_cell(getattr(systems[name], measure)) for measure in headings]
            table.add_row(name, *cells)
        elif name != "csls":
            table.add_row(name, *("–" for _ in headings))
    return table


def costs_tables(plan: CostPlan) -> list[Table]:
    """What is done once, and what serving takes."""
    store = f"{plan.count:,} vectors of {plan.dim} in {plan.dtype}, {size(plan.stored)}"
    once = _costs(f"once: {store}", plan.once, plan.currency)
    return [once, _costs(f"per {plan.queries:,} queries", plan.served, plan.currency)]


def size(count: float) -> str:
    """Bytes as people read them, in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:,.3g} {unit}"
        count /= 1000
    return f"{count:,.4g} TB"


def _costs(title: str, options: tuple[Option, ...], currency: str) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("option", no_wrap=True)
    for name in ("texts", "tokens", f"cost {currency}".strip(), "hours", "disk"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("what")
    for option in options:
        table.add_row(
            option.name,
            f"{option.texts:,}",
            f"{option.tokens:,}",
            "–" if option.cost is None else f"{option.cost:,.2f}",
            "–" if option.hours is None else f"{option.hours:,.2f}",
            size(option.disk) if option.disk else "–",
            option.what,
        )
    return table


def _cell(interval: Interval | None) -> str:
    if interval is None:
        return "–"
    if interval.low is None or interval.high is None:
        return f"{interval.value:.3f}"
    return f"{interval.value:.3f}\n{interval.low:.3f}–{interval.high:.3f}"
