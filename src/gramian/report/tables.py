"""What the commands print: rich tables of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from gramian.lens.prompt import Guess, PromptReading
from gramian.lens.summary import Summary
from gramian.registry import Method


def lens_table(summary: Summary) -> Table:
    """One row per layer: how well it is cast, and how linear its step is."""
    judged = summary.judgement is not None
    title = f"{summary.model}: casts to the {summary.casts.target} layer ({summary.casts.kind})"
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("site")
    table.add_column("R² report", justify="right")
    if judged:
        for name in ("agree cast", "agree identity", "KL cast", "KL identity", "surprisal"):
            table.add_column(name, justify="right")
    for name in ("linearity", "with sinks", "no residual"):
        table.add_column(name, justify="right")
    for branch in summary.branches:
        table.add_column(f"R² {branch}", justify="right")
    for record in summary.layers():
        cells = [record["site"], _number(record["r2_report"])]
        if judged:
            keys = ("agreement", "agreement_identity", "kl", "kl_identity", "surprisal")
            cells += [_number(record[key]) for key in keys]
        keys = ("linearity", "linearity_with_sinks", "linearity_no_residual")
        cells += [_number(record[key], 4) for key in keys]
        cells += [_number(record[f"r2_{branch}"]) for branch in summary.branches]
        table.add_row(*cells)
    return table


def prompt_grid(reading: PromptReading, *, columns: int = 6) -> list[Table]:
    """Layer by position: the first token of the cast over that of the identity."""
    tables = []
    positions = len(reading.tokens)
    for start in range(0, positions, columns):
        shown = range(start, min(start + columns, positions))
        table = Table(header_style="bold", show_lines=False)
        table.add_column("site")
        for position in shown:
            table.add_column(f"{position}: {_visible(reading.tokens[position])}")
        sites = list(dict.fromkeys(guess.site for guess in reading.cast))
        by_place = {(g.site, g.position): g for g in reading.cast}
        identity = {(g.site, g.position): g for g in reading.identity}
        for site in sites:
            cells = [_pair(by_place[site, p], identity[site, p]) for p in shown]
            table.add_row(site, *cells)
        tables.append(table)
    return tables


def prompt_top(reading: PromptReading, position: int) -> Table:
    """The best guesses of every layer at one position, cast beside identity."""
    table = Table(
        title=f"after {_visible(reading.tokens[position])!s} (position {position})",
        title_justify="left",
        header_style="bold",
    )
    for name in ("site", "cast", "identity"):
        table.add_column(name)
    pairs = zip(reading.cast, reading.identity, strict=True)
    for cast, identity in pairs:
        if cast.position == position:
            table.add_row(cast.site, _listed(cast), _listed(identity))
    return table


def record_table(title: str, records: Sequence[dict[str, Any]], columns: Sequence[str]) -> Table:
    """A plain table of records."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for column in columns:
        numeric = all(isinstance(record[column], int | float) for record in records)
        table.add_column(column, justify="right" if numeric else "left")
    for record in records:
        table.add_row(*(_cell(record[column]) for column in columns))
    return table


def methods_table(found: Sequence[Method]) -> Table:
    """The registered methods."""
    table = Table(header_style="bold")
    for name in ("job", "method", "paper", "what it does"):
        table.add_column(name)
    for item in found:
        table.add_row(item.job, item.name, item.paper, item.summary)
    return table


def _number(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}"


def _cell(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _visible(token: str) -> str:
    return token.replace("\n", "⏎").replace("\t", "⇥") or "∅"


def _pair(cast: Guess, identity: Guess) -> Text:
    style = "bold green" if cast.tokens[0] == identity.tokens[0] else "bold"
    return Text.assemble(
        (_visible(cast.tokens[0]), style), (" / ", "dim"), (_visible(identity.tokens[0]), "dim")
    )


def _listed(guess: Guess) -> str:
    shown = zip(guess.tokens, guess.probabilities, strict=True)
    return "  ".join(f"{_visible(token)} {p:.0%}" for token, p in shown)
