"""The judgement as a section of a page and as a table."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from gramian.bridge.judging import judge
from gramian.report import page
from gramian.report.bridge_tables import judgement_table, size
from gramian.report.sections.bridge import bridge_section
from tests.bridge.judging.worlds import world


@pytest.fixture(scope="module")
def judgement():
    return judge(**world(queries=30, items=200, old=16, old_query_noise=0.5).judged(csls=3))


def test_section(judgement):
    section = bridge_section(judgement, command="gramian bridge judge b")
    assert section.title == f"Verdict: {judgement.verdict}"
    assert judgement.reason in section.intro[0]
    assert [figure.title for figure in section.figures] == [
        "recall@10",
        "nDCG@10",
        "MRR",
        "overlap@10",
    ]
    bars = section.figures[1].series[0]
    place = bars.x.index("old model")
    assert bars.y[place] == judgement.systems["old"].ndcg.value
    assert bars.errors[place] > 0
    assert "do nothing (swap)" not in bars.x
    assert json.dumps(section.to_json(), allow_nan=False)
    assert "Verdict" in page([section], title="t")


def test_without_judgements_there_is_one_figure():
    found = judge(**world(queries=30, items=100).unjudged(old_queries=None))
    section = bridge_section(found, command="c")
    assert [figure.title for figure in section.figures] == ["overlap@10"]
    assert len(section.tables) == 1
    assert "nothing is known" in section.intro[2]


def test_table_fits_80_columns(judgement):
    console = Console(width=80, record=True, file=None)
    with console.capture() as captured:
        console.print(judgement_table(judgement))
    text = captured.get()
    assert "…" not in text
    for name in ("old", "swap", "bridge", "csls", "two_stage", "reindex"):
        assert name in text
    interval = judgement.systems["old"].ndcg
    assert f"{interval.low:.3f}–{interval.high:.3f}" in text


@pytest.mark.parametrize(
    "count, text",
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (3.07e9, "3.07 GB"), (2e15, "2,000 TB")],
)
def test_size(count, text):
    assert size(count) == text
