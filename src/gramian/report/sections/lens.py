"""The lens: how well every layer is cast to the last, and how linear its step is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gramian.report.section import Figure, Section, Series, Table

if TYPE_CHECKING:
    from gramian.lens import Summary

LAYER = "layer whose input is read"

CURVES: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Agreement with the full network on unseen text",
        "share of tokens",
        (("agreement", "cast"), ("agreement_identity", "identity (logit lens)")),
    ),
    (
        "KL divergence from the full network",
        "nats",
        (("kl", "cast"), ("kl_identity", "identity (logit lens)")),
    ),
    (
        "Variance explained on held-out documents",
        "R²",
        (
            ("r2_report", "whole layer stack"),
            ("r2_attn", "attention alone"),
            ("r2_mlp", "MLP alone"),
        ),
    ),
    (
        "Agreement with the attention or the MLP of one layer replaced by its cast",
        "share of tokens",
        (
            ("attn_agreement", "attention replaced"),
            ("attn_agreement_dropped", "attention dropped"),
            ("mlp_agreement", "MLP replaced"),
            ("mlp_agreement_dropped", "MLP dropped"),
        ),
    ),
    (
        "Linearity of each layer's step",
        "score",
        (
            ("linearity", "sink rows left out"),
            ("linearity_with_sinks", "with sink rows"),
            ("linearity_no_residual", "residual removed"),
        ),
    ),
)
"""Title, y axis, and (record key, name) of every curve; a curve without figures is left out."""


def lens_section(summary: Summary, *, command: str, anchor: str = "lens") -> Section:
    """Casting curves, linearity, and the table behind them."""
    records = summary.layers()
    columns = [key for key, value in records[0].items() if value is not None]
    layers = tuple(range(len(records)))
    sites = tuple(record["site"] for record in records)
    figures = []
    for title, axis, curves in CURVES:
        series = tuple(
            Series(name, layers, tuple(record[key] for record in records), sites)
            for key, name in curves
            if key in columns
        )
        if series:
            figures.append(Figure(title, "curves", LAYER, axis, series, log=axis == "nats"))
    return Section(
        title=f"Reading the layers of {summary.model}",
        anchor=anchor,
        intro=_intro(summary),
        figures=tuple(figures),
        tables=(Table.of("Every layer", records, columns),),
        command=command,
    )


def _intro(summary: Summary) -> tuple[str, ...]:
    judged = ""
    if summary.judgement is not None:
        judged = f"; judged on {summary.judgement.tokens:,} tokens of text that was not collected"
    found = [
        f"{summary.casts.kind.capitalize()} casts to the {summary.casts.target} layer, fitted on "
        f"{summary.fit_tokens:,} tokens{judged}. Sink rows are left out unless said otherwise."
    ]
    if summary.exit is not None:
        exit_ = summary.exit
        found.append(
            f"Early exit at {exit_.asked:.0%} agreement: {exit_.layers_saved:.1f} of "
            f"{exit_.depth} layers saved, measured agreement {exit_.agreement:.1%}."
        )
    return tuple(found)
