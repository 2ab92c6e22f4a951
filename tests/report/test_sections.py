"""Sections of the jobs: sites in their order, the numbers of the results, nothing that is not."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from gramian.compare import Comparison, Matrix
from gramian.inspect import inspect
from gramian.report import page
from gramian.report.sections.collected import collected_section
from gramian.report.sections.compare import compare_section
from gramian.report.sections.inspect import inspect_section
from gramian.report.sections.places import depths, family_of, layer_of, network_order, short
from tests.moments.sets import PARTNER, RECIPE, make_data, write_set


@pytest.fixture
def moments(tmp_path):
    return write_set(tmp_path / "small.moments", make_data(0))


def test_sites_in_the_order_of_the_network():
    sites = ["final", "10.resid_pre", "2.mlp_in", "2.resid_pre", "b:0.z", "a:1.z", "embed"]
    assert sorted(sites, key=network_order) == [
        "embed",
        "2.resid_pre",
        "2.mlp_in",
        "10.resid_pre",
        "final",
        "a:1.z",
        "b:0.z",
    ]
    assert [layer_of(site) for site in ("3.z", "a:12.resid_pre", "final")] == [3, 12, None]
    assert [family_of(site) for site in ("3.z", "a:3.z", "final", "b:final")] == [
        "z",
        "a: z",
        "resid_pre",
        "b: resid_pre",
    ]
    assert depths(["0.z", "4.z", "final", "embed"]) == {"0.z": 0, "4.z": 4, "final": 5, "embed": -1}


def test_short_names_only_where_they_are_clear():
    assert short(["0.resid_pre", "1.resid_pre", "final"]) == ["0", "1", "final"]
    assert short(["a:0.z", "a:1.z"]) == ["0", "1"]
    assert short(["0.z", "0.mlp_in"]) == ["0.z", "0.mlp_in"]
    assert short(["0.resid_pre", "0.resid_pre"]) == ["0.resid_pre", "0.resid_pre"]


def test_what_was_collected(moments):
    section = collected_section(moments, command="gramian info small.moments")
    assert section.title == "What was collected: small.moments"
    tables = {table.title: table for table in section.tables}
    folds = {row[0]: row[1:] for row in tables["Folds"].rows}
    for fold, counts in moments.counts.items():
        assert folds[fold][1:] == tuple(
            counts[name] for name in ("documents", "tokens", "rows", "sinks")
        )
    sites = tables["Sites (3)"]
    assert [row[0] for row in sites.rows] == ["0.resid_pre", "1.resid_pre", "1.mlp_out"]
    widths = {row[0]: (row[1], row[2]) for row in sites.rows}
    assert widths["1.resid_pre"] == (6, "diagonal")
    assert widths["1.mlp_out"] == (4, "full")
    pairs = tables["Pairs (2)"]
    assert ("0.resid_pre", "1.resid_pre", "y - x") in [row[:3] for row in pairs.rows]
    (thresholds,) = section.figures
    assert thresholds.series[0].y == (12.5,)
    settings = dict(tables["Settings"].rows)
    assert settings["sink rows"].startswith("the first of each window and rows longer than 10")


def test_two_networks_are_both_described(tmp_path):
    recipe = dataclasses.replace(RECIPE, partner=PARTNER)
    moments = write_set(tmp_path / "two.moments", make_data(1), recipe)
    section = collected_section(moments, command="")
    assert "bundled:small and bundled:other, rows aligned by characters" in section.intro[0]
    settings = dict(section.tables[1].rows)
    assert settings["a: model"] == "bundled:small"
    assert settings["b: model"] == "bundled:other"
    assert [series.y for series in section.figures[0].series] == [(12.5,), (3.5,)]


def test_a_set_without_rule_or_pairs_has_neither_figure_nor_table(tmp_path):
    rows = dataclasses.replace(RECIPE.rows, first=False, factor=None, thresholds={})
    recipe = dataclasses.replace(RECIPE, rows=rows)
    moments = write_set(tmp_path / "m.moments", make_data(2), recipe)
    section = collected_section(moments, command="")
    assert section.figures == ()
    assert dict(section.tables[1].rows)["sink rows"] == "not kept apart"
    page([section], "t")


def test_what_was_inspected(moments):
    found = inspect(moments)
    section = inspect_section(found, command="gramian inspect small.moments")
    curves = {figure.title: figure for figure in section.figures}
    assert "Share of each weight's rank that the data uses" not in curves
    full = {site.site: site.spread for site in found.sites if site.spread}
    for series in curves["Effective rank"].series:
        for site, value in zip(series.labels, series.y, strict=True):
            assert value == (full[site].effective_rank if site in full else None)
    shares = curves["Share of the second moment that sink rows own"].series
    known = {site.site: site.sinks.share for site in found.sites}
    assert {s: y for one in shares for s, y in zip(one.labels, one.y, strict=True)} == known
    kinds = {caution.kind for site in found.sites for caution in site.cautions}
    assert len(section.warnings) == len(kinds) + len(found.notes)
    page([section], "t")


def comparison(**changes) -> Comparison:
    sites = ("0.resid_pre", "1.resid_pre", "final")
    rows = [[1.0, 0.9, 0.2], [0.9, 1.0, math.nan], [0.2, math.nan, 1.0]]
    values = torch.tensor(rows, dtype=torch.float64)
    errors = torch.full((3, 3), 0.05, dtype=torch.float64)
    matrix = Matrix("cka", "debiased linear CKA", True, False, sites, sites, values, errors)
    fields = {
        "models": ("m", "m"),
        "paired": True,
        "align": None,
        "rows": {"kept": 900, "sinks": 9},
        "documents": 40,
        "folds": ("train", "select", "report"),
        "matrices": (matrix,),
        "warnings": ("mind the gap",),
    }
    return Comparison(**{**fields, **changes})


def test_what_was_compared():
    section = compare_section(comparison(), command="gramian compare m.moments")
    (figure,) = section.figures
    assert figure.limits == (0.0, 1.0)
    assert [series.name for series in figure.series] == ["0", "1", "final"]
    assert figure.series[1].x == ("0", "1", "final")
    assert figure.series[1].y == (0.9, 1.0, None)
    assert figure.series[0].errors == (0.05, 0.05, 0.05)
    assert figure.series[0].labels[2] == "0.resid_pre, final (standard error 0.05)"
    (table,) = section.tables
    assert table.rows[0] == ("0.resid_pre", "1.resid_pre", 0.9, 0.05)
    assert section.warnings == ("mind the gap",)
    assert section.title == "Layers of m, compared"
    page([section], "t")


def test_distances_between_sets_made_apart():
    sites = ("0.resid_pre", "1.resid_pre")
    values = torch.tensor([[0.0, 3.5], [2.5, 0.5]], dtype=torch.float64)
    matrix = Matrix("bures", "distance", False, False, sites, sites, values, None)
    rows = {"kept": 900, "sinks": 9, "other_kept": 700, "other_sinks": 7}
    found = comparison(models=("m", "n"), paired=False, rows=rows, matrices=(matrix,))
    section = compare_section(found, command="")
    assert section.title == "m against n, compared"
    assert "700 rows collected apart" in section.intro[1]
    (figure,) = section.figures
    assert figure.limits is None
    assert figure.series[0].labels[1] == "0.resid_pre, 1.resid_pre"
    assert (figure.x_title, figure.y_title) == ("layer of n", "layer of m")
    assert "Smaller is closer" in figure.caption
