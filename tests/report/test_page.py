"""The page as text: valid figures, nothing from outside, names that stay names, colours."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pytest

from gramian.errors import GramianError
from gramian.report import Section, document, page, write_page, write_report
from gramian.report.page import cell, described
from gramian.report.plot import plot
from tests.report.conftest import HOSTILE


class Elements(HTMLParser):
    """Start tags with their attributes, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "img", "link", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_figures_are_what_plotly_knows(sections):
    """Plotly's own schema accepts every trace and layout, and holds the same numbers."""
    objects = pytest.importorskip("plotly.graph_objects")
    for section in sections:
        for figure in section.figures:
            spec = plot(figure)
            made = objects.Figure(spec)
            if figure.kind == "heat map":
                assert [list(row) for row in made.data[0].z] == [list(s.y) for s in figure.series]
            else:
                assert [list(trace.y) for trace in made.data] == [list(s.y) for s in figure.series]


def test_nothing_comes_from_outside(sections):
    elements = Elements(page(sections, "A page"))
    assert elements.open == []
    names = [tag for tag, _ in elements.found]
    assert not {"link", "img", "iframe", "object", "embed"} & set(names)
    for _, attributes in elements.found:
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
    (policy,) = [a["content"] for t, a in elements.found if a.get("http-equiv")]
    assert policy.startswith("default-src 'none'")


def test_names_stay_names(sections):
    text = page(sections, HOSTILE)
    assert HOSTILE not in text
    assert 'onerror="alert' not in text.split("<script")[0]
    elements = Elements(text)
    assert [tag for tag, _ in elements.found].count("script") == 3
    assert "b" not in [tag for tag, _ in elements.found]
    spec = plot(sections[0].figures[0])
    assert "<" not in spec["data"][2]["name"]


def test_anchors_are_unique_and_led_to(sections):
    elements = Elements(page(sections, "t"))
    ids = [a["id"] for _, a in elements.found if "id" in a]
    assert len(ids) == len(set(ids))
    linked = {a["href"] for t, a in elements.found if t == "a"}
    assert linked == {"#curves", "#maps", "#empty"}
    labels = [a["aria-labelledby"] for _, a in elements.found if "aria-labelledby" in a]
    assert set(labels) <= set(ids)
    with pytest.raises(GramianError, match="share the anchor 'maps'"):
        page([*sections, Section("again", "maps")], "t")
    with pytest.raises(GramianError, match="at least one section"):
        page([], "t")


def test_one_bundle_and_none_without_figures(sections):
    assert page(sections, "t").count("* plotly.js v") == 1
    assert "plotly" not in page([Section("words", "words", ("Some.",))], "t").lower()


def test_every_figure_has_its_command_and_description(sections):
    text = re.sub(r"</?span>", "", page(sections, "t"))
    assert text.count("gramian compare m.moments</code>") == 2
    assert "gramian lens m.moments --model &#39;a model&#39;</code>" in text
    assert described(sections[1].figures[0]) == (
        "Heat map of 31 rows and 31 columns, CKA from 0.02352 to 1"
    )
    assert "from 0.1000 to 100" in described(sections[0].figures[1])


def test_cells():
    assert [cell(value) for value in (None, True, 12_345, 1594.0, 0.123456, 12_345.6, "a")] == [
        "–",
        "yes",
        "12,345",
        "1,594",
        "0.1235",
        "12,346",
        "a",
    ]
    assert cell(3.2e20) == "3.200e+20"


def test_files_are_whole_and_never_replaced_unasked(sections, tmp_path):
    write_report(sections, tmp_path / "new" / "report", title="t")
    folder = tmp_path / "new" / "report"
    assert sorted(path.name for path in folder.iterdir()) == ["data.json", "index.html"]
    assert json.loads((folder / "data.json").read_text()) == document(sections, "t")
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(GramianError, match=r"index.html exists; .* force=True \(--force\)"):
        write_report(sections, folder, title="t")
    (folder / "index.html").unlink()
    with pytest.raises(GramianError, match=r"data.json exists"):
        write_report(sections, folder, title="t")
    write_report(sections, folder, title="other", force=True)
    assert "<title>other</title>" in (folder / "index.html").read_text()
    assert (folder / "notes.txt").read_text() == "mine"
    with pytest.raises(GramianError, match="exists"):
        write_page(sections, folder / "index.html", title="t")


def test_what_cannot_be_written_says_so_and_leaves_nothing(sections, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(GramianError, match="cannot write"):
        write_page(sections, tmp_path / "file" / "page.html", title="t")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside").write_text("")
    with pytest.raises(GramianError, match="cannot write"):
        write_page(sections, tmp_path / "folder", title="t", force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_the_same_sections_give_the_same_page(sections):
    assert page(sections, "t") == page(sections, "t")


STYLE = (files("gramian.report") / "templates" / "page.css").read_text()


def colours(dark: bool) -> dict[str, tuple[float, float, float]]:
    """Custom properties of the style in light or in dark, as linear RGB."""
    light, night = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    found = {}
    for name, value in re.findall(r"--([\w-]+): #([0-9a-f]{6})", night if dark else light):
        channels = [int(value[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        found[name] = tuple(
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
        )
    return found


def contrast(a, b) -> float:
    """WCAG 2: (L1 + 0.05) / (L2 + 0.05)."""
    dim, bright = sorted(float(np.dot((0.2126, 0.7152, 0.0722), rgb)) for rgb in (a, b))
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_text_and_lines_stand_out(dark):
    found = colours(dark)
    for back in ("back", "raised"):
        for text in ("text", "soft", "link"):
            assert contrast(found[text], found[back]) >= 4.5, (text, back)
    for place in range(1, 7):
        assert contrast(found[f"series-{place}"], found["back"]) >= 3, place


# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
BLINDNESS = {
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deutan": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}


def lab(rgb) -> np.ndarray:
    """CIE 1976 L*a*b* of linear sRGB under D65."""
    matrix = (
        (0.4124, 0.3576, 0.1805),
        (0.2126, 0.7152, 0.0722),
        (0.0193, 0.1192, 0.9505),
    )
    xyz = np.array(matrix) @ rgb / (0.9505, 1.0, 1.089)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("kind", BLINDNESS)
def test_series_differ_for_every_eye(dark, kind):
    found = colours(dark)
    seen = []
    for place in range(1, 7):
        mixed = np.array(BLINDNESS[kind]) @ found[f"series-{place}"]
        seen.append(lab(mixed.clip(0, 1)))
    for i, one in enumerate(seen):
        for other in seen[:i]:
            assert np.linalg.norm(one - other) > 20, (one, other)


def test_what_is_not_installed_is_named(sections, monkeypatch, tmp_path):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "plotly" else real(name)
    )
    with pytest.raises(GramianError, match=r"a page needs plotly: pip install 'gramian\[plot\]'"):
        write_page(sections, tmp_path / "page.html", title="t")
    assert not list(tmp_path.iterdir())
