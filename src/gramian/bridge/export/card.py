"""The README of an exported bridge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gramian.bridge.saved import SavedBridge, Space

_MEANING = {
    "query_to_old": (
        "It takes vectors of the **new** model to the space of the **old** one: embed queries with "
        "the new model, map them, and search the old index as it is. Do not map the index."
    ),
    "old_to_new": (
        "It takes vectors of the **old** model to the space of the **new** one: map the stored "
        "vectors once, and search them with plain queries of the new model. Do not map queries."
    ),
}


def card(bridge: SavedBridge, to: str, usage: str, model: str | None) -> str:
    """A model card: what leads where, how it was fitted, how well it does, how to use it.

    usage : Markdown of the library. model : the encoder in front, if there is one.
    """
    head = ["---", "tags:", f"- {to}", "- embeddings"]
    if model is not None:
        head += ["- sentence-similarity", "library_name: sentence-transformers"]
    lines = [
        *head,
        "---",
        "",
        f"# {bridge.source.name} → {bridge.target.name}",
        "",
        f"A linear map from vectors of {bridge.source} to those of {bridge.target}, written by "
        f"`gramian bridge export --to {to}`.",
        "",
        f"Direction `{bridge.direction}`. {_MEANING[bridge.direction]}",
        "",
        "| | source | target |",
        "|---|---|---|",
        *_sides(bridge.source, bridge.target),
        "",
        f"Method `{bridge.method}`, fitted on {bridge.pairs:,} "
        f"{'pairs' if bridge.paired else 'rows that were not paired'}. Results "
        f"{'are scaled to length 1' if bridge.normalise else 'are not scaled to length 1'}.",
        "",
        *_figures(bridge.report),
        "## Use",
        "",
        usage.strip(),
        "",
        "Rows must come from the source model with its prompt, in the same normalisation. Nothing "
        "in this folder notices vectors of another model of the same width.",
        "",
    ]
    return "\n".join(lines)


def _sides(source: Space, target: Space) -> list[str]:
    rows = []
    for name in ("model", "revision", "fingerprint", "prefix", "dim", "unit_norm"):
        cells = [getattr(side, name) for side in (source, target)]
        if any(cell not in (None, "", False) for cell in cells):
            shown = (
                "" if cell in (None, "") else f"`{cell}`".replace("|", "\\|").replace("\n", " ")
                for cell in cells
            )
            rows.append(f"| {name} | {' | '.join(shown)} |")
    return rows


def _figures(report: Mapping[str, Any]) -> list[str]:
    known = {"r2_report": "R²", "r2_spread": "its spread", "cosine_report": "cosine"}
    found = [
        f"| {label} | {report[key]:.4f} |"
        for key, label in known.items()
        if isinstance(report.get(key), float)
    ]
    retrieval = report.get("retrieval_report")
    if isinstance(retrieval, Mapping):
        found += [
            f"| {key} | {value:.4f} |"
            for key, value in retrieval.items()
            if isinstance(value, float)
        ]
    return ["| on pairs set aside | |", "|---|---|", *found, ""] if found else []
