"""What ``gramian bridge fit`` prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from gramian.cli.options import console


def print_fit(document: dict[str, Any], output: Path) -> None:
    """The figures of a fit and the tables of what was tried."""
    if document["method"] == "unpaired":
        _print_unpaired(document, output)
        return
    console.print(
        f"[bold]{output}[/]: {document['method']}, {document['dim_from']} -> "
        f"{document['dim_to']}, {document['direction']}, {document['pairs']:,} pairs",
        soft_wrap=True,
    )
    table = Table()
    for column in (f"on {document['judged_on']} set aside", "value"):
        table.add_column(column, justify="right" if column == "value" else "left")
    spread = document["r2_spread"]
    if document["r2_report"] is not None:
        beside = "" if spread is None else f" ± {spread:.3f}"
        table.add_row("R²", f"{document['r2_report']:.3f}{beside}")
    if document["cosine_report"] is not None:
        table.add_row("cosine with the partner", f"{document['cosine_report']:.3f}")
    for name, value in document["retrieval_report"].items():
        table.add_row(name, f"{value:.3f}")
    bound = document["bound"]
    if bound is not None and not bound["vacuous"] and bound["cosine"] is not None:
        table.add_row("cosine that a rotation reaches at least", f"{bound['cosine']:.3f}")
    console.print(table)
    best = best_of_family(document["candidates"])
    if len(best) > 1:
        console.print(_table("the best of each family on select", best))
    if "curve" in document:
        console.print(_table("on fewer pairs", document["curve"]["records"]))
        console.print(document["curve"]["note"], soft_wrap=True)


def best_of_family(candidates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of every family what did best on select."""
    best: dict[str, dict[str, Any]] = {}
    for candidate in candidates:
        held = best.setdefault(candidate["method"], candidate)
        if (candidate.get("score") or 0) > (held.get("score") or 0):
            best[candidate["method"]] = candidate
    return list(best.values())


def _print_unpaired(document: dict[str, Any], output: Path) -> None:
    rows = document["rows"]
    console.print(
        f"[bold]{output}[/]: unpaired, {document['dim_from']} -> {document['dim_to']}, "
        f"{document['direction']}, {rows['source']:,} and {rows['target']:,} rows; confidence "
        f"{document['confidence']:.2f} of 1",
        soft_wrap=True,
    )


def _table(title: str, records: list[dict[str, Any]]) -> Table:
    known = ("method", "pairs", "lam", "score", "recall@1", "mrr", "overlap@10", "r2_report")
    table = Table(title=title)
    shown = [name for name in known if any(record.get(name) is not None for record in records)]
    for name in shown:
        table.add_column(name, justify="left" if name == "method" else "right")
    for record in records:
        table.add_row(*(_cell(record.get(name)) for name in shown))
    return table


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
