"""Sections as one self-contained page: figures, tables, and what draws them; no network."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gramian.errors import GramianError, refuse_existing
from gramian.report.plot import plot
from gramian.report.section import Figure, Section, Value

FORMAT = 1
"""Of the document that :func:`document` gives."""


def document(sections: Sequence[Section], title: str) -> dict[str, Any]:
    """The page as JSON values: every figure and table as numbers.

    Raises
    ------
    GramianError : no section, or two with one anchor.
    """
    if not sections:
        raise GramianError("a page needs at least one section")
    anchors = [section.anchor for section in sections]
    twice = {anchor for anchor in anchors if anchors.count(anchor) > 1}
    if twice:
        raise GramianError(f"sections share the anchor {sorted(twice)[0]!r}; each needs its own")
    return {
        "format": FORMAT,
        "title": title,
        "sections": [section.to_json() for section in sections],
    }


def page(sections: Sequence[Section], title: str) -> str:
    """The page as HTML text. It loads nothing: Plotly, the style and the numbers are inside.

    Raises
    ------
    GramianError : no section, two with one anchor, or plotly or jinja2 is not installed.
    """
    document(sections, title)
    for package in ("plotly", "jinja2"):
        if importlib.util.find_spec(package) is None:
            raise GramianError(f"a page needs {package}: pip install 'gramian[plot]'")
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    loader = PackageLoader("gramian.report")
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = cell
    environment.filters["described"] = described

    def verbatim(name: str) -> Markup:
        return Markup(loader.get_source(environment, name)[0])

    plots = {
        f"{section.anchor}-figure-{number}": plot(figure)
        for section in sections
        for number, figure in enumerate(section.figures, start=1)
    }
    return environment.get_template("page.html").render(
        title=title,
        sections=sections,
        style=verbatim("page.css"),
        script=verbatim("page.js"),
        # An element's text ends at "</": no "<" of a name may reach the parser.
        plots=Markup(json.dumps(plots, allow_nan=False).replace("<", "\\u003c")),
        plotly=Markup(get_plotlyjs()) if plots else None,
    )


def write_page(
    sections: Sequence[Section], path: str | Path, *, title: str, force: bool = False
) -> None:
    """Write the page to a file.

    Raises
    ------
    GramianError : the file exists and ``force`` is false, it cannot be written, or what
        :func:`page` raises.
    """
    target = Path(path)
    _refuse((target,), force)
    _write({target: page(sections, title)})


def write_report(
    sections: Sequence[Section], folder: str | Path, *, title: str, force: bool = False
) -> None:
    """Write ``index.html``, the page, and ``data.json``, its :func:`document`, into a folder.

    Other files of the folder stay as they are.

    Raises
    ------
    GramianError : one of the two exists and ``force`` is false, one cannot be written, or what
        :func:`page` raises.
    """
    index, data = Path(folder) / "index.html", Path(folder) / "data.json"
    _refuse((index, data), force)
    numbers = json.dumps(document(sections, title), indent=1, allow_nan=False)
    _write({index: page(sections, title), data: numbers + "\n"})


def _refuse(targets: Sequence[Path], force: bool) -> None:
    for target in targets:
        refuse_existing(target, force=force)


def _write(texts: Mapping[Path, str]) -> None:
    """All under temporary names, then all renamed: no reader meets half a file."""
    temporary = {target: target.with_name(f".{target.name}.{os.getpid()}") for target in texts}
    try:
        for target, text in texts.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary[target].write_text(text, encoding="utf-8")
        for target, written in temporary.items():
            written.replace(target)
    except OSError as error:
        names = " and ".join(map(str, texts))
        raise GramianError(f"cannot write {names}: {error.strerror or error}") from error
    finally:
        for written in temporary.values():
            if written.parent.is_dir():
                written.unlink(missing_ok=True)


def cell(value: Value) -> str:
    """A value as a table shows it."""
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            whole = value.is_integer() or abs(value) >= 1e4
            return f"{value:,.0f}" if whole and abs(value) < 1e12 else f"{value:#.4g}"
        case str():
            return value


def described(figure: Figure) -> str:
    """What a reader who cannot see the figure is told."""
    values = [y for series in figure.series for y in series.y if y is not None]
    if not values:
        return f"{figure.title}: no values"
    between = f"from {cell(min(values))} to {cell(max(values))}"
    if figure.kind == "heat map":
        rows, columns = len(figure.series), len(figure.series[0].x)
        return f"Heat map of {rows} rows and {columns} columns, {figure.value_title} {between}"
    names = ", ".join(series.name for series in figure.series)
    kind = figure.kind.capitalize()
    return f"{kind} over {figure.x_title}: {names}; {figure.y_title} {between}"
