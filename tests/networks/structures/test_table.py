"""The table of structures: what it takes, and what it makes of a plan of tensor parallelism."""

from __future__ import annotations

import re

import pytest

from gramian.networks.structures.table import checked, inside, parallel_plan, table_of

FACTORS = {"kind": "factors", "rank": 4}
PLAN = {
    "layers.*.self_attn.q_proj": "colwise",
    "layers.*.self_attn.o_proj": "rowwise",
    "layers.*.mlp.up_proj": "colwise",
}


@pytest.mark.parametrize("path", ["a", "model.layers.11.mlp.up_proj", "h.0.attn.c_attn", "é.b"])
def test_paths(path):
    assert checked({path: FACTORS}) == {path: FACTORS}


@pytest.mark.parametrize(
    "path", ["", ".a", "a.", "a..b", "/a", "a/b", "a b", "../a", "1.a", "a-b", 3]
)
def test_no_paths(path):
    with pytest.raises(ValueError, match="no path of a module"):
        checked({path: FACTORS})


@pytest.mark.parametrize(
    "structure",
    [
        None,
        [],
        {},
        {"rank": 4},
        {"kind": ["factors"], "rank": 4},
        {"kind": "factors", "rank": 0},
        {"kind": "factors", "rank": "4"},
        {"kind": "factors", "rank": 4, "other": 1},
    ],
)
def test_no_structures(structure):
    with pytest.raises(ValueError, match="expected"):
        checked({"a.b": structure})


def test_marks():
    assert table_of({"version": 2, "modules": {"a": FACTORS}}) == {"a": FACTORS}
    for mark in (None, 3, {}, {"version": 1, "modules": {}}, {"version": 2}):
        with pytest.raises(ValueError, match=r"entry|version|expected"):
            table_of(mark)


def test_a_table_is_copied_and_cut():
    given = {"model.a": dict(FACTORS), "head": dict(FACTORS)}
    table = checked(given)
    table["head"]["rank"] = 9
    assert given["head"]["rank"] == 4
    assert inside(table, "model") == {"a": FACTORS}


def style(plan, name):
    """The rule of the programs that read such a plan: the first pattern that a name starts with."""
    return next((s for p, s in plan.items() if re.match(p, name)), None)


def test_factors_are_cut_where_their_linear_was():
    table = {"layers.1.self_attn.q_proj": FACTORS, "layers.10.self_attn.o_proj": FACTORS}
    plan = parallel_plan(PLAN, table, 12)
    for name, expected in {
        "layers.1.self_attn.q_proj.down": "replicate",
        "layers.1.self_attn.q_proj.up": "colwise",
        "layers.0.self_attn.q_proj": "colwise",
        "layers.10.self_attn.q_proj": "colwise",
        "layers.10.self_attn.o_proj.down": "rowwise",
        "layers.10.self_attn.o_proj.up": "replicate",
        "layers.1.self_attn.o_proj": "rowwise",
        "layers.1.mlp.up_proj": "colwise",
        "layers.1.mlp.down_proj": None,
    }.items():
        assert style(plan, name) == expected, name
    assert "layers.1.self_attn.q_proj" not in plan
    assert parallel_plan(PLAN, {}, 12) == PLAN
