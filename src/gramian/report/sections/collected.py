"""What was collected: the model, the text, the rows, and every site and pair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gramian.moments import FOLDS, MomentSet, Recipe
from gramian.report.section import Figure, Section, Series, Table
from gramian.report.sections.places import network_order


def collected_section(moments: MomentSet, *, command: str, anchor: str = "collected") -> Section:
    """The recipe, the folds, the rule for sink rows, and tables of all sites and pairs."""
    found: Mapping[str, Any] = moments.describe()
    recipe = moments.recipe
    name = f": {moments.path.name}" if moments.path else ""
    models = recipe.model
    if recipe.partner is not None:
        models += f" and {recipe.partner.model}, rows aligned by {recipe.partner.align}"
    tokens = sum(count["tokens"] for count in moments.counts.values())
    return Section(
        title=f"What was collected{name}",
        anchor=anchor,
        intro=(
            f"{models}: {tokens:,} tokens of {moments.documents.count:,} documents, seen once; "
            f"{len(moments.sites):,} sites and {len(moments.pairs):,} pairs, "
            f"{moments.nbytes / 1e6:,.1f} MB.",
            "Maps are fitted on the folds train and select and judged on report; a document is in "
            "one fold only.",
        ),
        figures=_thresholds(recipe),
        tables=(
            _folds(moments),
            _settings(found, recipe),
            _sites(found),
            *([_pairs(found)] if found["pairs"] else []),
        ),
        command=command,
    )


def _folds(moments: MomentSet) -> Table:
    shares = moments.recipe.shares.to_json()
    records = [
        {"fold": fold, "share asked": shares[fold], **moments.counts[fold]}
        for fold in moments.folds
    ]
    columns = ("fold", "share asked", "documents", "tokens", "rows", "sinks")
    caption = "Sink rows are kept apart from the others; rows does not count them."
    return Table.of("Folds", records, columns, caption=caption)


def _settings(found: Mapping[str, Any], recipe: Recipe) -> Table:
    def network(part: Any) -> list[tuple[str, str]]:
        return [
            ("model", part.model),
            ("weights", part.weights[:16]),
            ("tokenizer", part.tokenizer[:16]),
            ("chat template", part.template[:16]),
            ("starts with BOS", "yes" if part.bos else "no"),
            ("sink rows", _rule(part.rows)),
        ]

    rows = network(recipe)
    if recipe.partner is not None:
        rows = [(f"a: {key}", value) for key, value in rows]
        rows += [(f"b: {key}", value) for key, value in network(recipe.partner)]
        rows.append(("rows aligned by", recipe.partner.align))
    rows += [
        ("tokens in a window", f"{recipe.length:,}"),
        ("products formed in", recipe.precision),
        ("stored in", str(found["storage"])),
        ("documents", f"{found['documents']['digest'][:16]}"),
        ("written by gramian", str(found["gramian"])),
    ]
    return Table("Settings", ("setting", "value"), tuple(rows))


def _rule(rows: Any) -> str:
    parts = ["the first of each window"] if rows.first else []
    if rows.factor is not None:
        parts.append(f"rows longer than {rows.factor:g} pilot medians at any residual site")
    return " and ".join(parts) or "not kept apart"


def _thresholds(recipe: Recipe) -> tuple[Figure, ...]:
    """The lengths above which a row is a sink, by layer; none where the rule has no limit."""
    prefixed = recipe.partner is not None
    rules = {("a: " if prefixed else "") + recipe.model: recipe.rows}
    if recipe.partner is not None:
        rules[f"b: {recipe.partner.model}"] = recipe.partner.rows
    series = []
    for model, rule in rules.items():
        if rule.thresholds:
            sites = sorted(rule.thresholds, key=network_order)
            values = [rule.thresholds[site] for site in sites]
            series.append(Series(model, tuple(range(len(sites))), tuple(values), tuple(sites)))
    if not series:
        return ()
    return (
        Figure(
            "Length above which a row is a sink",
            "curves",
            "residual site, in network order",
            "norm of a row",
            tuple(series),
            log=True,
            caption="Fixed by a pilot before the first row was counted, so they are the model's "
            "own and do not depend on the text.",
        ),
    )


def _sites(found: Mapping[str, Any]) -> Table:
    entries = sorted(found["sites"], key=lambda entry: network_order(entry["site"]))
    records = [
        {
            "site": entry["site"],
            "width": entry["d"],
            "scatter": entry["order"],
            **{f"rows {fold}": entry["rows"].get(fold) for fold in FOLDS},
            "sinks": sum(entry["sinks"].values()),
            "train rows / width": entry["rows"].get("train", 0) / entry["d"],
            "MB": entry["bytes"] / 1e6,
        }
        for entry in entries
    ]
    caption = "Diagonal: only the variance of each channel was kept."
    return Table.of(f"Sites ({len(records):,})", records, caption=caption)


def _pairs(found: Mapping[str, Any]) -> Table:
    def order(entry: Mapping[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return network_order(entry["x"]), network_order(entry["y"])

    records = [
        {
            "from": entry["x"],
            "to": entry["y"],
            "target": "y - x" if entry["increment"] else "y",
            "widths": " × ".join(f"{d:,}" for d in entry["d"]),
            "rows": sum(entry["rows"].values()),
            "MB": entry["bytes"] / 1e6,
        }
        for entry in sorted(found["pairs"], key=order)
    ]
    return Table.of(f"Pairs ({len(records):,})", records)
