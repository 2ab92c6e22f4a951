"""Budgets from the command line: what a dry run says, and that a mode is followed."""

from __future__ import annotations

SMALL = ("--tokens", 600, "--length", 16, "--batch-rows", 96)


def test_a_dry_run_for_rank_says_how_and_why(gramian, model):
    command = ("collect", model, "--data", "none.txt", "--for", "rank", "--dry-run")
    done = gramian(*command, "--memory", "150k")
    assert done.code == 0, done.err
    for word in (
        "blockwise: one pass would take",
        "the budget is",
        "windows would take",
        "minutes",
    ):
        assert word in done.out
    document = gramian(*command, "--memory", "150k", "--json").json
    assert document["mode"] == "blockwise"
    assert document["passes"] == 1
    assert document["groups"] > 2
    assert document["working_bytes"] > 0
    assert document["memory_bytes"] <= 150_000
    assert gramian(*command, "--json").json["mode"] == "stream"


def test_a_budget_that_is_too_small_is_refused_with_the_least(gramian, model):
    command = ("collect", model, "--data", "none.txt", "--dry-run", "--memory", "1k")
    done = gramian(*command, "--mode", "windows")
    assert done.code == 2
    assert "least budget" in done.err
    wrong = gramian(*command, "--mode", "slow")
    assert wrong.code == 2
    assert "expected one of auto" in wrong.err


def test_a_mode_is_followed_and_leaves_nothing_behind(gramian, model, corpus, tmp_path):
    command = ("collect", model, "--data", corpus / "a.jsonl", *SMALL, "--for", "rank")
    for mode in ("stream", "blockwise"):
        done = gramian(*command, "--mode", mode, "-o", tmp_path / mode)
        assert done.code == 0, done.err
    names = [file.name for file in sorted((tmp_path / "stream").iterdir())]
    assert names == [file.name for file in sorted((tmp_path / "blockwise").iterdir())]
    for name in names:
        assert (tmp_path / "stream" / name).read_bytes() == (
            tmp_path / "blockwise" / name
        ).read_bytes()
    assert [path.name for path in sorted(tmp_path.glob("*partial*"))] == []
