"""The fit of a bridge: how it does on what was set aside, what was tried, how many are enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gramian.report.section import Figure, Section, Series, Table

MEASURES = ("recall@1", "recall@10", "mrr", "overlap@10")


def bridge_fit_section(
    document: Mapping[str, Any], *, command: str, anchor: str = "bridge-fit"
) -> Section:
    """Figures and tables of the document of ``gramian bridge fit``."""
    between = f"{document['dim_from']} to {document['dim_to']} dimensions, {document['direction']}"
    if document["method"] == "unpaired":
        return _unpaired(document, between, command=command, anchor=anchor)
    figures, tables = [], [_figures(document)]
    tried = document["candidates"]
    if len(tried) > 1 and all("mrr" in candidate for candidate in tried):
        figures.append(_tried(tried))
    if "curve" in document:
        records = document["curve"]["records"]
        figures += _curves(records, document["curve"]["note"])
        columns = ("pairs", "method", "r2_report", "r2_spread")
        tables.append(Table.of("On fewer pairs", records, columns))
    intro = (f"{between}, {document['pairs']:,} pairs.",)
    return Section(
        f"Bridge: {document['method']}",
        anchor,
        intro,
        tuple(figures),
        tuple(tables),
        command,
        document["warnings"],
    )


def _unpaired(document: Mapping[str, Any], between: str, *, command: str, anchor: str) -> Section:
    rows, evidence = document["rows"], document["evidence"]
    intro = (
        f"{between}, from {rows['source']:,} and {rows['target']:,} rows of different texts.",
        f"Confidence {document['confidence']:.2f} of 1.",
    )
    figures = tuple((name, value) for name, value in evidence.items() if name != "rival")
    table = Table("Evidence", ("figure", "value"), figures)
    title = "Bridge without pairs"
    return Section(title, anchor, intro, (), (table,), command, document["warnings"])


def _figures(document: Mapping[str, Any]) -> Table:
    rows: list[tuple[str, float | None, float | None]] = [
        ("R²", document["r2_report"], document["r2_spread"]),
        ("cosine with the partner", document["cosine_report"], None),
    ]
    rows += [(name, value, None) for name, value in document["retrieval_report"].items()]
    title = f"On {document['judged_on']} set aside"
    return Table(title, ("figure", "value", "standard error"), tuple(rows))


def _tried(candidates: list[dict[str, Any]]) -> Figure:
    names = [_named(candidate) for candidate in candidates]
    series = tuple(
        Series(measure, names, [candidate[measure] for candidate in candidates])
        for measure in ("recall@1", "overlap@10")
    )
    return Figure(
        "What was tried, on the fold that chooses",
        "bars",
        "family and ridge",
        "share",
        series,
        caption="recall@1: a mapped row finds its own partner first. overlap@10: it finds its "
        "partner's neighbours.",
    )


def _named(candidate: Mapping[str, Any]) -> str:
    parts = [candidate["method"]]
    parts += [f"{value:g}" for key in ("lam", "rank", "delta") if (value := candidate.get(key))]
    prior = candidate.get("prior")
    return " ".join([*parts, *([f"({prior})"] if prior else [])])


def _curves(records: list[dict[str, Any]], note: str) -> list[Figure]:
    sizes = [record["pairs"] for record in records]
    series = [
        Series(measure, sizes, [record[measure] for record in records])
        for measure in MEASURES
        if all(measure in record for record in records)
    ]
    r2 = [record["r2_report"] for record in records]
    series.append(Series("R²", sizes, r2, errors=[record["r2_spread"] for record in records]))
    title = "How many pairs are enough"
    return [Figure(title, "curves", "pairs", "value", tuple(series), caption=f"{note}.")]
