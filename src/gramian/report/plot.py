"""Figures as Plotly has them: traces and a layout, without colours, which the page gives."""

from __future__ import annotations

import math
from typing import Any

from gramian.report.section import Figure, Series

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
MANY_POINTS = 64
"""Curves with more points than this are drawn without markers."""


def plot(figure: Figure) -> dict[str, Any]:
    """The ``data`` and ``layout`` of a Plotly figure; plain JSON values.

    Curves differ in marker and dash as well as in colour. The page sets everything that depends
    on light or dark.
    """
    if figure.kind == "heat map":
        return {"data": [_heat_map(figure)], "layout": _layout(figure)}
    traces = [_trace(figure, series, place) for place, series in enumerate(figure.series)]
    return {"data": traces, "layout": _layout(figure)}


def _trace(figure: Figure, series: Series, place: int) -> dict[str, Any]:
    trace: dict[str, Any] = {
        "name": _text(series.name),
        "x": [_text(x) for x in series.x],
        "y": list(series.y),
        "hovertemplate": "%{text}: %{y:.4g}<extra>%{fullData.name}</extra>",
        "text": [_text(label) for label in series.labels or map(str, series.x)],
    }
    if series.errors:
        trace["error_y"] = {"type": "data", "array": list(series.errors), "thickness": 1}
        trace["hovertemplate"] = (
            "%{text}: %{y:.4g} ± %{error_y.array:.2g}<extra>%{fullData.name}</extra>"
        )
    if figure.kind == "bars":
        return {"type": "bar", "textposition": "none", **trace}
    marks = {"symbol": SYMBOLS[place % len(SYMBOLS)], "size": 6}
    return {
        "type": "scatter",
        "mode": "lines" if len(series.x) > MANY_POINTS else "lines+markers",
        "marker": marks,
        "line": {"dash": DASHES[place % len(DASHES)], "width": 2},
        **trace,
    }


def _heat_map(figure: Figure) -> dict[str, Any]:
    names = [_text(series.name) for series in figure.series]
    columns = [_text(x) for x in figure.series[0].x]
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": columns,
        "y": names,
        "z": [list(series.y) for series in figure.series],
        "hoverongaps": False,
        "colorbar": {"title": {"text": _text(figure.value_title), "side": "right"}},
        "hovertemplate": "%{y}, %{x}: %{z:.4f}<extra></extra>",
    }
    if all(series.labels for series in figure.series):
        trace["text"] = [[_text(label) for label in series.labels] for series in figure.series]
        trace["hovertemplate"] = "%{text}: %{z:.4f}<extra></extra>"
    if figure.limits is not None:
        trace |= {"zmin": figure.limits[0], "zmax": figure.limits[1]}
    return trace


def _layout(figure: Figure) -> dict[str, Any]:
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": _text(figure.x_title)}, "automargin": True},
        "yaxis": {"title": {"text": _text(figure.y_title)}, "automargin": True},
        "meta": {"kind": figure.kind},
    }
    if figure.kind == "heat map":
        # Names are categories, even names that look like numbers: cells are evenly spaced.
        layout["xaxis"] |= {"type": "category", "constrain": "domain"}
        layout["yaxis"] |= {"type": "category", "scaleanchor": "x", "constrain": "domain"}
        return layout
    if any(isinstance(x, str) for series in figure.series for x in series.x):
        layout["xaxis"]["type"] = "category"
    if figure.kind == "bars":
        layout["barmode"] = "group"
    if figure.log:
        layout["yaxis"]["type"] = "log"
        layout["yaxis"]["dtick"] = 1 if _decades(figure) > 1.5 else "D2"
    layout["showlegend"] = len(figure.series) > 1
    return layout


def _decades(figure: Figure) -> float:
    """Powers of ten between the smallest and the largest value above zero."""
    values = [y for series in figure.series for y in series.y if y is not None and y > 0]
    return math.log10(max(values) / min(values)) if values else 0.0


def _text(value: Any) -> Any:
    """Plotly reads tags in any text; names come from files, so theirs are shown as they are."""
    if not isinstance(value, str):
        return value
    return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
