"""What the commands print: rich tables of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from gramian.lens.prompt import Guess, PromptReading
from gramian.lens.summary import Summary
from gramian.registry import Method


def lens_tables(summary: Summary) -> list[Table]:
    """One row per layer: how well it is cast, then how linear its step is. Each fits 80 columns."""
    records = summary.layers()
    fitted = f"{summary.model}: {summary.casts.kind} casts to the {summary.casts.target} layer"
    cast = {"R² report": "r2_report"}
    cast |= {f"R² {branch}": f"r2_{branch}" for branch in summary.branches}
    tables = [_layer_table(f"{fitted}, {summary.fit_tokens:,} tokens", records, cast, 3)]
    if summary.judgement is not None:
        judged = {
            "agree": "agreement",
            "identity": "agreement_identity",
            "KL": "kl",
            "identity KL": "kl_identity",
            "surprisal": "surprisal",
        }
        title = f"against the full network on {summary.judgement.tokens:,} unseen tokens"
        tables.append(_layer_table(title, records, judged, 3))
    for branch in summary.replaced:
        columns = {
            "agree": f"{branch}_agreement",
            "dropped": f"{branch}_agreement_dropped",
            "KL": f"{branch}_kl",
            "dropped KL": f"{branch}_kl_dropped",
        }
        title = f"{BRANCHES[branch]} of one layer replaced by its cast, or dropped"
        tables.append(_layer_table(title, records, columns, 3))
    linear = {
        "linearity": "linearity",
        "with sinks": "linearity_with_sinks",
        "no residual": "linearity_no_residual",
        "orthogonal": "linearity_orthogonal",
    }
    tables.append(_layer_table("linearity of each layer's step", records, linear, 4))
    return tables


BRANCHES = {"attn": "the attention", "mlp": "the MLP"}


def _layer_table(
    title: str, records: Sequence[dict[str, Any]], columns: dict[str, str], digits: int
) -> Table:
    table = Table(
        title=title, title_justify="left", header_style="bold", min_width=min(len(title), 79)
    )
    table.add_column("site", no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for record in records:
        table.add_row(record["site"], *(_number(record[key], digits) for key in columns.values()))
    return table


def prompt_grid(reading: PromptReading, *, columns: int = 5) -> list[Table]:
    """Layer by position: the first token of the cast over that of the identity."""
    tables = []
    positions = len(reading.tokens)
    for start in range(0, positions, columns):
        shown = range(start, min(start + columns, positions))
        table = Table(header_style="bold", show_lines=False)
        table.add_column("site", no_wrap=True)
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
    table.add_column("site", no_wrap=True)
    for name in ("cast", "identity"):
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


def methods_markdown(found: Sequence[Method]) -> str:
    """The registered methods as the table of docs/methods.md."""
    lines = ["| job | method | paper | function | what it does |", "|---|---|---|---|---|"]
    for item in found:
        paper = item.paper
        if paper[:4].isdigit() and "." in paper:
            paper = f"[{paper}](https://arxiv.org/abs/{paper})"
        cells = (item.job, item.name, paper, f"`{item.function}`", item.summary.replace("|", r"\|"))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


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
