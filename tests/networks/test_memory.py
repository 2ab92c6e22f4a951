"""Any budget gives the same moments: every mode against one pass, resumed and refused."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch

from gramian.data import documents
from gramian.errors import GramianError
from gramian.lens import needs as lens_needs
from gramian.moments import FOLDS, RowRule
from gramian.networks import Need, Needs, collect, linears
from gramian.networks import open as open_checkpoint
from gramian.networks.passes import plan_passes
from tests import tiny

SETTINGS = {"tokens": 600, "length": 16, "batch_rows": 96}
CARRIES = ("rows", "inputs")


@pytest.fixture(scope="module")
def docs():
    return documents(tiny.texts(60))


def needs_of(opened) -> Needs:
    """Residual casts, branches, a pair between two layers, a diagonal, inner sites."""
    return (
        lens_needs(opened)
        + linears(opened)
        + Needs.of([Need("0.mlp_mid", "2.z"), Need("1.q", order="diagonal"), Need("embed")])
    )


def numbers(moments):
    """Every number of a set, by name."""
    found = {}
    for fold in FOLDS:
        for site in moments.sites:
            one = moments.moments(site, fold, sinks=True)
            found[f"{fold} {site}"] = one.scatter
            found[f"{fold} {site} mean"] = one.mean
            if one.quartic is not None:
                found[f"{fold} {site} quartic"] = one.quartic.vector
        for pair in moments.pairs:
            joint = moments.joint(pair.x, pair.y, fold, sinks=True, increment=pair.increment)
            found[f"{fold} {pair}"] = joint.cross
            found[f"{fold} {pair} y"] = joint.y.variances
    return found


def same(a, b, *, exactly=True):
    assert a.sites == b.sites
    assert a.pairs == b.pairs
    assert a.counts == b.counts
    left, right = numbers(a), numbers(b)
    assert left.keys() == right.keys()
    for name, value in left.items():
        if exactly and "quartic" not in name:
            assert torch.equal(value, right[name]), name
        else:
            scale = value.abs().max().clamp_min(1e-30)
            assert float((value - right[name]).abs().max() / scale) < 1e-6, name


@pytest.fixture
def forced(monkeypatch):
    """Make the planner keep only inputs of layers, as on a small disk."""
    import importlib

    module = importlib.import_module("gramian.networks.collect")

    def only(carry):
        plan = module.plan_passes
        monkeypatch.setattr(
            module, "plan_passes", lambda *a, **k: plan(*a, **{**k, "carry": carry})
        )

    return only


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3_text", "mixtral"])
def test_blockwise_gives_the_bits_of_one_pass(checkpoint, docs, family):
    opened = checkpoint(family)
    needs = lens_needs(opened) + linears(opened)
    whole = collect(opened, docs, needs, **SETTINGS)
    same(whole, collect(opened, docs, needs, mode="blockwise", **SETTINGS))


@pytest.mark.parametrize("carry", CARRIES)
@pytest.mark.parametrize("mode", ["blockwise", "spill", "windows"])
def test_every_mode_gives_the_bits_of_one_pass(checkpoint, docs, forced, mode, carry, monkeypatch):
    monkeypatch.setattr("gramian.moments.place.LEAST", 1024)
    opened = checkpoint()
    needs = needs_of(opened)
    whole = collect(opened, docs, needs, reservoir=5, **SETTINGS)
    forced(carry)
    budget = 150_000 if mode == "spill" else 250_000
    assert budget < plan_passes(opened, needs, None).bytes // 2
    found = collect(opened, docs, needs, reservoir=5, mode=mode, memory=budget, **SETTINGS)
    same(whole, found)
    for site in whole.sites:
        assert found.reservoir(site, "train")[0] == whole.reservoir(site, "train")[0]
        assert torch.equal(found.reservoir(site, "train")[1], whole.reservoir(site, "train")[1])


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_rows_lie_on_disk_in_the_dtype_of_the_model(checkpoint, docs, dtype):
    opened = open_checkpoint(checkpoint().source.location, dtype=dtype)
    needs = lens_needs(opened)
    settings = {**SETTINGS, "precision": "float64", "sink_rows": 3}
    whole = collect(opened, docs, needs, **settings)
    same(whole, collect(opened, docs, needs, mode="blockwise", **settings))


def test_sinks_that_only_the_last_layer_shows_are_sinks_in_the_first(checkpoint, docs):
    opened = checkpoint()
    rule = {"rule": RowRule(factor=1.05)}
    needs = Needs.of([Need("0.attn_in"), Need("0.mlp_mid")])
    whole = collect(opened, docs, needs, **rule, **SETTINGS)
    assert whole.counts["train"]["sinks"] > 40
    same(whole, collect(opened, docs, needs, mode="blockwise", **rule, **SETTINGS))


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


class Stop(Exception):
    pass


@pytest.mark.parametrize("mode", ["blockwise", "spill"])
@pytest.mark.parametrize("error", [Stop, KeyboardInterrupt])
def test_an_interrupted_run_goes_on_to_the_same_bits(checkpoint, docs, tmp_path, mode, error):
    opened = checkpoint()
    needs = Needs.of([Need("1.resid_pre", "final", increment=True), Need("2.mlp_mid")])
    how = {**SETTINGS, "tokens": 300, "mode": mode, "memory": 300_000}
    collect(opened, docs, needs, out=tmp_path / "whole", **how)
    save_every = 0.0 if error is Stop else 300.0
    stops = 0
    while True:
        left = 5

        def stop(_done, _total):
            nonlocal left
            left -= 1
            if left == 0:
                raise error

        try:
            collect(
                opened, docs, needs, out=tmp_path / "m", save_every=save_every, progress=stop, **how
            )
            break
        except error:
            stops += 1
            assert not (tmp_path / "m").exists()
    assert stops >= 3
    assert files(tmp_path / "m") == files(tmp_path / "whole")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["m", "whole"]


def test_rows_of_a_machine_that_was_started_anew_are_not_trusted(
    checkpoint, docs, tmp_path, monkeypatch
):
    opened = checkpoint()
    needs = Needs.of([Need("1.resid_pre"), Need("2.mlp_mid")])
    how = {**SETTINGS, "tokens": 300, "mode": "blockwise"}
    collect(opened, docs, needs, out=tmp_path / "whole", **how)
    calls = 0

    def stop(_done, _total):
        nonlocal calls
        calls += 1
        if calls == 17:  # while the statistics are taken
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect(opened, docs, needs, out=tmp_path / "m", progress=stop, **how)
    for file in (tmp_path / "m.partial" / "rows").iterdir():
        file.write_bytes(bytes(file.stat().st_size))  # what a lost machine may leave
    monkeypatch.setattr("gramian.networks.journal.boot", lambda: "another")
    collect(opened, docs, needs, out=tmp_path / "m", **how)
    assert files(tmp_path / "m") == files(tmp_path / "whole")


def test_a_full_disk_is_known_beforehand(checkpoint, docs, monkeypatch, tmp_path):
    opened = checkpoint()
    needs = linears(opened)
    plan = plan_passes(opened, needs, None, mode="blockwise", tokens=600)
    monkeypatch.setattr("gramian.networks.spool.SPARE", 1 << 60)
    with pytest.raises(GramianError, match="free on disk"):
        collect(opened, docs, needs, out=tmp_path / "m", mode="blockwise", **SETTINGS)
    assert not list(tmp_path.iterdir())
    small = plan_passes(
        opened, needs, None, mode="blockwise", tokens=600, disk=plan.carry.bytes - 1
    )
    assert (plan.carry.what, small.carry.what) == ("rows", "inputs")
    assert small.carry.bytes < plan.carry.bytes
    assert small.forwards == 2


def test_the_plan_takes_the_first_mode_that_fits(checkpoint):
    opened = checkpoint()
    needs = lens_needs(opened) + linears(opened)
    whole = plan_passes(opened, needs, None)
    budgets = [whole.bytes, whole.bytes * 3 // 4, whole.bytes // 4, 40_000]
    plans = [plan_passes(opened, needs, budget, tokens=600) for budget in budgets]
    assert [plan.mode for plan in plans] == ["stream", "windows", "blockwise", "spill"]
    assert all(plan.bytes <= budget for plan, budget in zip(plans, budgets, strict=True))
    assert [plan.forwards for plan in plans] == [1, 2, 1, 1]
    for plan, word in zip(plans, ("fits", "one pass would take", "windows", "alone"), strict=True):
        assert word in str(plan)
    no_disk = plan_passes(opened, needs, whole.bytes // 4, tokens=600, disk=1000)
    assert no_disk.mode == "windows"
    assert "not possible" in no_disk.why


def test_a_refused_budget_names_the_least_that_works(checkpoint):
    opened = checkpoint()
    needs = lens_needs(opened)
    for mode in ("stream", "windows", "blockwise", "auto"):
        with pytest.raises(GramianError, match="least budget") as caught:
            plan_passes(opened, needs, 1000, mode=mode, tokens=100)
        least = int(str(caught.value).rsplit("is ", 1)[1].split()[0].replace(",", ""))
        assert plan_passes(opened, needs, least, mode=mode, tokens=100).bytes <= least
        with pytest.raises(GramianError, match="least budget"):
            plan_passes(opened, needs, least - 1, mode=mode, tokens=100)


def test_an_unknown_mode_and_a_wide_site(checkpoint):
    opened = checkpoint()
    with pytest.raises(GramianError, match="expected one of auto, stream"):
        plan_passes(opened, linears(opened), None, mode="fast")
    with pytest.raises(GramianError, match=r"0\.mlp_mid is 48 wide.*order='diagonal'"):
        plan_passes(opened, linears(opened), None, widest=40)
    plan_passes(opened, Needs.of([Need("0.mlp_mid", order="diagonal")]), None, widest=40)


def test_more_memory_never_costs_more_passes(checkpoint):
    opened = checkpoint()
    needs = lens_needs(opened)
    plans = [plan_passes(opened, needs, b, mode="windows") for b in range(120_000, 900_000, 60_000)]
    for small, large in pairwise(plans):
        assert len(large.groups) <= len(small.groups)


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["windows", "blockwise"])
def test_modes_agree_on_an_accelerator(checkpoint, docs, mode):
    opened = open_checkpoint(checkpoint().source.location, device="cuda")
    needs = needs_of(opened)
    settings = {**SETTINGS, "precision": "float64"}
    whole = numbers(collect(opened, docs, needs, **settings))
    found = numbers(collect(opened, docs, needs, mode=mode, memory=300_000, **settings))
    on_cpu = numbers(collect(checkpoint(), docs, needs, **settings))
    for name, value in whole.items():
        scale = value.abs().max().clamp_min(1e-30)
        assert float((value - found[name]).abs().max() / scale) < 1e-12, name
        assert float((value - on_cpu[name]).abs().max() / scale) < 1e-3, name


@pytest.mark.gpu
def test_a_budget_in_float32_on_an_accelerator_is_kept(checkpoint, docs):
    opened = open_checkpoint(checkpoint().source.location, device="cuda", dtype="bfloat16")
    needs = lens_needs(opened)
    whole = numbers(collect(opened, docs, needs, **SETTINGS))
    found = numbers(collect(opened, docs, needs, mode="blockwise", **SETTINGS))
    for name, value in whole.items():
        scale = value.abs().max().clamp_min(1e-30)
        assert float((value - found[name]).abs().max() / scale) < 1e-5, name
