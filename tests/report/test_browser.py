"""The page in a real browser: figures read back from it, in light and dark, wide and narrow.

Run with ``make browser``. Without a Chromium these tests fail; they are never skipped.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from gramian.report import write_report
from tests.report.conftest import HOSTILE, every_kind

pytestmark = pytest.mark.browser

SCREENS = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str:
    """Where the browser is: ``GRAMIAN_CHROMIUM``, or on the path."""
    names = (os.environ.get("GRAMIAN_CHROMIUM"), "chromium", "chromium-browser", "google-chrome")
    for name in names:
        found = name and shutil.which(name)
        if found:
            return found
    pytest.fail(
        "no Chromium: install one (apt-get install chromium) or set GRAMIAN_CHROMIUM to it",
        pytrace=False,
    )


@dataclass
class Visit:
    """An open page and everything that went wrong or went out while it was."""

    page: object
    faults: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def evaluate(self, script: str, argument: object = None) -> object:
        return self.page.evaluate(script, argument)


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        yield found
        found.close()


@pytest.fixture
def visit(browser) -> Iterator[Callable[..., Visit]]:
    opened = []

    def go(path: Path, width: int, scheme: str) -> Visit:
        phone = width < 600
        context = browser.new_context(
            viewport={"width": width, "height": 844},
            color_scheme=scheme,
            is_mobile=phone,
            has_touch=phone,
        )
        opened.append(context)
        seen = Visit(context.new_page())
        seen.page.on(
            "console",
            lambda m: seen.faults.append(m.text) if m.type in ("error", "warning") else None,
        )
        seen.page.on("pageerror", lambda error: seen.faults.append(str(error)))
        seen.page.on("dialog", lambda dialog: (seen.faults.append("dialog"), dialog.dismiss()))
        seen.page.on("requestfailed", lambda request: seen.faults.append(request.url))
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        seen.page.goto(path.as_uri())
        seen.page.wait_for_selector("html[data-drawn]", timeout=60_000)
        return seen

    yield go
    for context in opened:
        context.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("report")
    write_report(every_kind(), path, title=HOSTILE)
    return path


def figures(folder: Path) -> dict[str, dict]:
    """Name of a figure's element -> the figure, from data.json."""
    document = json.loads((folder / "data.json").read_text())
    return {
        f"{section['anchor']}-figure-{number}": figure
        for section in document["sections"]
        for number, figure in enumerate(section["figures"], start=1)
    }


READ = """() => Object.fromEntries([...document.querySelectorAll('.plot')].map((gd) =>
  [gd.dataset.figure, gd.data.map((t) => ({x: t.x, y: t.y, z: t.z, errors: t.error_y?.array}))]))"""
DRAWN = """(name) => [...document.querySelectorAll(`#${name} .scatterlayer .trace`)]
  .map((trace) => trace.querySelectorAll('.points path').length)"""


@pytest.mark.parametrize("width,scheme", SCREENS)
def test_figures_hold_the_numbers_of_the_data(visit, folder, width, scheme):
    seen = visit(folder / "index.html", width, scheme)
    wanted = figures(folder)
    found = seen.evaluate(READ)
    assert list(found) == list(wanted)
    for name, figure in wanted.items():
        traces = found[name]
        series = figure["series"]
        if figure["kind"] == "heat map":
            assert traces[0]["z"] == [one["y"] for one in series]
            assert traces[0]["y"] == [one["name"] for one in series]
            assert traces[0]["x"] == series[0]["x"]
            continue
        assert [trace["y"] for trace in traces] == [one["y"] for one in series]
        assert [trace["x"] for trace in traces] == [one["x"] for one in series]
        assert [trace.get("errors") for trace in traces] == [one.get("errors") for one in series]
    curves = wanted["curves-figure-1"]["series"]
    points = [sum(y is not None for y in one["y"]) for one in curves]
    assert seen.evaluate(DRAWN, "curves-figure-1") == points == [30, 26, 30]
    assert seen.faults == []
    assert seen.requests == [(folder / "index.html").as_uri()]


@pytest.mark.parametrize("width,scheme", SCREENS)
def test_nothing_is_wider_than_the_screen(visit, folder, width, scheme):
    seen = visit(folder / "index.html", width, scheme)
    assert seen.evaluate("document.documentElement.scrollWidth") <= width
    inside = seen.evaluate(
        """() => [...document.querySelectorAll('.plot, .scroll, p, h1, h2, h3, code span')]
             .filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5)
             .map((e) => e.outerHTML.slice(0, 80))"""
    )
    assert inside == []
    boxes = seen.evaluate(
        """() => [...document.querySelectorAll('.table .scroll')].map((e) =>
             [e.scrollWidth > e.clientWidth, e.scrollHeight > e.clientHeight])"""
    )
    assert boxes[1] == [True, True]


@pytest.mark.parametrize("width", [1280, 390])
def test_light_and_dark_follow_the_reader(visit, folder, width):
    seen = visit(folder / "index.html", width, "light")
    read = """() => [getComputedStyle(document.body).backgroundColor,
      getComputedStyle(document.querySelector('#curves-figure-1 .xtitle')).fill,
      document.querySelector('#curves-figure-1 .plot').data[0].line.color]"""
    light = seen.evaluate(read)
    seen.page.emulate_media(color_scheme="dark")
    seen.page.wait_for_function(
        """(before) =>
             document.querySelector('#curves-figure-1 .plot').data[0].line.color !== before""",
        arg=light[2],
    )
    dark = seen.evaluate(read)
    assert light == ["rgb(255, 255, 255)", "rgb(27, 31, 36)", "#0072b2"]
    assert dark == ["rgb(20, 23, 28)", "rgb(231, 233, 236)", "#56b4e9"]
    assert seen.faults == []


def test_heat_maps_are_legible_and_keep_their_shape_when_turned(visit, folder):
    """31 x 31 cells of at least 7 pixels on a phone, square, after any change of width."""
    cells = """() => { const a = document.querySelector('#maps-figure-1 .plot')._fullLayout;
      return [a.xaxis._length / 31, a.yaxis._length / 31]; }"""
    seen = visit(folder / "index.html", 390, "light")
    before = seen.evaluate(cells)
    assert before[0] == pytest.approx(before[1], rel=0.02)
    assert before[0] >= 7
    for width in (1280, 390):
        seen.page.set_viewport_size({"width": width, "height": 800})
        seen.page.wait_for_function(
            """() => [...document.querySelectorAll('.plot')].every((e) =>
                 Math.abs(e.layout.width - e.clientWidth) < 1)"""
        )
    assert seen.evaluate(cells) == pytest.approx(before, rel=0.02)
    assert seen.evaluate("document.querySelectorAll('#maps-figure-1 .cbaxis').length") <= 1
    assert seen.faults == []


def test_hovering_tells_the_number(visit, folder):
    seen = visit(folder / "index.html", 1280, "light")
    box = seen.page.locator("#maps-figure-1 .plot .nsewdrag").bounding_box()
    seen.page.locator("#maps-figure-1").scroll_into_view_if_needed()
    box = seen.page.locator("#maps-figure-1 .plot .nsewdrag").bounding_box()
    seen.page.mouse.move(box["x"] + box["width"] * 3.5 / 31, box["y"] + box["height"] * 27.5 / 31)
    label = seen.page.locator("#maps-figure-1 .hoverlayer text").first
    label.wait_for(timeout=10_000)
    assert "3 against 3: 1.0000" in label.text_content()


def test_the_numbers_of_a_figure_open_as_a_table(visit, folder):
    seen = visit(folder / "index.html", 390, "dark")
    for name, size in (("curves-figure-1", [31, 4]), ("maps-figure-1", [32, 32])):
        seen.page.locator(f"#{name} summary").click()
        table = seen.page.locator(f"#{name} details table")
        table.wait_for()
        shape = table.evaluate("(t) => [t.rows.length, t.rows[0].cells.length]")
        assert shape == size
    head = seen.evaluate(
        """() => [...document.querySelectorAll('#curves-figure-1 thead th')]
             .map((e) => e.textContent)"""
    )
    assert head == ["layer", "cast", "gaps", HOSTILE]
    assert seen.evaluate("document.documentElement.scrollWidth") <= 390
    assert seen.faults == []


def test_names_run_nothing(visit, folder):
    seen = visit(folder / "index.html", 1280, "light")
    assert seen.evaluate("document.title") == HOSTILE
    assert seen.evaluate("document.querySelectorAll('img, b').length") == 0
    legend = seen.page.locator("#curves-figure-1 .legendtext").nth(2)
    assert legend.text_content().startswith("</script><img")
    assert seen.faults == []


def test_headings_go_down_one_step_at_a_time(visit, folder):
    seen = visit(folder / "index.html", 1280, "light")
    levels = seen.evaluate(
        "() => [...document.querySelectorAll('h1,h2,h3,h4')].map((e) => Number(e.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    unnamed = seen.evaluate(
        """() => [...document.querySelectorAll('[role=img], [role=region]')].filter((e) => {
             const by = document.getElementById(e.getAttribute('aria-labelledby'));
             return !(e.ariaLabel || by?.textContent);
           }).length"""
    )
    assert unnamed == 0
