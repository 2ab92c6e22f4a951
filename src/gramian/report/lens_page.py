"""The lens as one self-contained page: curves over the layers and the table behind them."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

from gramian.errors import GramianError
from gramian.lens.summary import Summary

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

COLOURS = ("#2563eb", "#9ca3af", "#d97706", "#a855f7")


def write_lens_page(summary: Summary, path: str | Path, *, command: str, force: bool) -> None:
    """Write the page; it needs no network to be read.

    Raises
    ------
    GramianError : the file exists and ``force`` is false, or plotly and jinja2 are missing.
    """
    target = Path(path)
    if target.exists() and not force:
        raise GramianError(f"{target} exists; choose another name or pass --force to replace it")
    for package in ("plotly", "jinja2"):
        if importlib.util.find_spec(package) is None:
            raise GramianError(f"a page needs {package}: pip install 'gramian[plot]'")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        temporary.write_text(lens_page(summary, command=command), encoding="utf-8")
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def lens_page(summary: Summary, *, command: str) -> str:
    """The page as text."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("gramian.report"), autoescape=True)
    records = summary.layers()
    figures: list[str] = []
    for title, axis, curves in CURVES:
        shown = [
            (key, name) for key, name in curves if key in records[0] and records[0][key] is not None
        ]
        if shown:
            figures.append(_figure(records, title, axis, shown, first=not figures))
    columns = [key for key, value in records[0].items() if value is not None]
    return environment.get_template("lens.html").render(
        summary=summary, figures=figures, records=records, columns=columns, command=command
    )


def _figure(
    records: list[dict[str, Any]],
    title: str,
    axis: str,
    curves: list[tuple[str, str]],
    *,
    first: bool,
) -> str:
    import plotly.graph_objects as go

    layers = list(range(len(records)))
    figure = go.Figure()
    for (key, name), colour in zip(curves, COLOURS, strict=False):
        figure.add_scatter(
            x=layers,
            y=[record[key] for record in records],
            name=name,
            mode="lines+markers",
            line={"color": colour},
            text=[record["site"] for record in records],
            hovertemplate="%{text}: %{y:.4f}<extra>%{fullData.name}</extra>",
        )
    figure.update_layout(
        title=title,
        xaxis_title="layer whose input is read",
        yaxis_title=axis,
        legend={"orientation": "h", "y": -0.25},
        margin={"l": 60, "r": 20, "t": 50, "b": 60},
        height=380,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": "#6b7280"},
    )
    figure.update_xaxes(gridcolor="rgba(128,128,128,0.25)", zeroline=False)
    if axis == "nats":
        figure.update_yaxes(type="log")
    figure.update_yaxes(gridcolor="rgba(128,128,128,0.25)", zeroline=False)
    html: str = figure.to_html(
        full_html=False,
        include_plotlyjs=first,
        config={"responsive": True, "displayModeBar": False},
    )
    return html
