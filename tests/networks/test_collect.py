"""Collecting gives the moments of the rows, however it is split, interrupted or budgeted."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from gramian.data import documents
from gramian.errors import GramianError
from gramian.lens import needs as lens_needs
from gramian.moments import (
    FOLDS,
    JointMoments,
    Moments,
    MomentSet,
    MomentSetWriter,
    RowRule,
    add_moments,
)
from gramian.networks import Need, Needs, capture, collect, linears
from gramian.networks import open as open_checkpoint
from gramian.networks.collect import batches
from gramian.networks.passes import plan_passes
from gramian.networks.rows import sink_rows
from tests import tiny

SETTINGS = {"tokens": 3000, "length": 32, "batch_rows": 128, "precision": "float64"}


@pytest.fixture(scope="module")
def docs():
    return documents(tiny.texts(200))


@pytest.fixture(scope="module")
def collected(checkpoint, docs):
    opened = checkpoint()
    return collect(opened, docs, lens_needs(opened), **SETTINGS)


def rows_of(opened, docs, sites, rule, fold):
    """The rows of a fold, kept ones and sinks, straight from the network."""
    kept, sinks = ({site: [] for site in sites} for _ in range(2))
    for batch in batches(opened, docs, **SETTINGS):
        if batch.fold != fold:
            continue
        seen = capture(opened.model, opened.blueprint, sites, batch.ids, batch.mask, norms=True)
        sink = sink_rows(batch.mask, seen.norms, rule, opened.blueprint)
        for site in sites:
            kept[site].append(seen.rows[site][batch.mask & ~sink].double())
            sinks[site].append(seen.rows[site][sink].double())
    return tuple({s: torch.cat(x) for s, x in part.items()} for part in (kept, sinks))


def close(a, b, tolerance=1e-9):
    scale = b.abs().max().clamp_min(1e-30)
    return float((a - b).abs().max() / scale) < tolerance


@pytest.mark.parametrize("fold", FOLDS)
def test_moments_are_those_of_the_rows(checkpoint, docs, collected, fold):
    opened = checkpoint()
    sites = ["1.resid_pre", "2.resid_pre", "1.mlp_in", "1.mlp_out", "final"]
    kept, sinks = rows_of(opened, docs, sites, collected.recipe.rows, fold)
    found = collected.moments("1.resid_pre", fold)
    expected = Moments.from_rows(kept["1.resid_pre"])
    assert found.count == expected.count
    assert close(found.mean, expected.mean)
    assert close(found.scatter, expected.scatter)

    both = torch.cat([kept["1.resid_pre"], sinks["1.resid_pre"]])
    with_sinks = collected.moments("1.resid_pre", fold, sinks=True)
    assert with_sinks.count == len(both)
    assert close(with_sinks.scatter, Moments.from_rows(both).scatter)

    for x, y, increment in (("1.resid_pre", "final", True), ("1.mlp_in", "1.mlp_out", False)):
        target = kept[y] - kept[x] if increment else kept[y]
        expected_joint = JointMoments.from_rows(kept[x], target)
        joint = collected.joint(x, y, fold, increment=increment)
        assert close(joint.cross, expected_joint.cross)
        assert abs(joint.y.trace / expected_joint.y.trace - 1) < 1e-9


def test_first_positions_are_sinks_and_padding_never_counts(checkpoint, docs, collected):
    opened = checkpoint()
    tokens = sum(int(b.mask.sum()) for b in batches(opened, docs, **SETTINGS))
    windows = sum(int(b.mask[:, 0].sum()) for b in batches(opened, docs, **SETTINGS))
    counts = collected.counts
    assert sum(c["tokens"] for c in counts.values()) == tokens == 3000
    assert sum(c["rows"] + c["sinks"] for c in counts.values()) == tokens
    assert sum(c["sinks"] for c in counts.values()) >= windows


def test_a_row_with_a_huge_norm_is_a_sink_everywhere(checkpoint, docs):
    opened = checkpoint()
    factor = 1.05  # low enough that ordinary rows of this random network cross it
    found = collect(
        opened, docs, Needs.of([Need("0.resid_pre")]), rule=RowRule(factor=factor), **SETTINGS
    )
    thresholds = found.recipe.rows.thresholds
    assert set(thresholds) == set(opened.blueprint.residual_sites())
    kept, sinks = rows_of(opened, docs, ["2.resid_pre"], found.recipe.rows, "train")
    limit = thresholds["2.resid_pre"]
    assert kept["2.resid_pre"].norm(dim=1).max() <= limit * (1 + 1e-6)
    assert sinks["2.resid_pre"].norm(dim=1).max() > limit
    assert found.counts["train"]["sinks"] == len(sinks["2.resid_pre"])


def test_windows_of_layers_give_the_same_as_one_pass(checkpoint, docs, collected):
    opened = checkpoint()
    needs = lens_needs(opened)
    one = plan_passes(opened, needs, None)
    budget = one.bytes // 3
    many = plan_passes(opened, needs, budget)
    assert one.mode == "stream"
    assert len(many.groups) > 2
    assert many.bytes <= budget
    split = collect(opened, docs, needs, memory=budget, **SETTINGS)
    assert split.sites == collected.sites
    assert split.pairs == collected.pairs
    for pair in collected.pairs:
        a = collected.joint(pair.x, pair.y, FOLDS, sinks=True, increment=pair.increment)
        b = split.joint(pair.x, pair.y, FOLDS, sinks=True, increment=pair.increment)
        assert close(a.cross, b.cross, 1e-12)
        assert close(a.x.scatter, b.x.scatter, 1e-12)


def test_a_budget_that_is_too_small_says_the_least(checkpoint):
    opened = checkpoint()
    needs = lens_needs(opened)
    with pytest.raises(GramianError, match="least budget") as caught:
        plan_passes(opened, needs, 1000)
    least = int(str(caught.value).rsplit("is ", 1)[1].split()[0].replace(",", ""))
    assert plan_passes(opened, needs, least).bytes <= least


def test_cost_is_known_before_anything_runs(checkpoint):
    opened = checkpoint()
    d, depth = 32, 3
    cost = lens_needs(opened).cost(opened)
    # Sources in full: residual streams and both normed inputs of every layer. Targets: the
    # diagonals of final, attn_out and mlp_out. Pairs: to last, to next (the last one is the
    # same), attention, MLP.
    pairs = depth + depth - 1 + 2 * depth
    assert cost.pairs == pairs
    assert cost.bytes_per_fold == 8 * (3 * depth * d * d + (1 + 2 * depth) * d + pairs * d * d)
    assert cost.operations == 3 * depth * d * d + 2 * pairs * d * d + 2 * d * (1 + 2 * depth)
    inputs = linears(opened).cost(opened)
    assert inputs.bytes_per_fold == 8 * depth * (3 * d * d + 48 * 48)


def test_needs_unite_without_duplicates(checkpoint):
    opened = checkpoint()
    needs = lens_needs(opened)
    assert needs + needs == needs
    both = needs + Needs.of([Need("blocks.0.hook_resid_pre", "final", increment=True)])
    assert both.resolved(opened.blueprint) == needs.resolved(opened.blueprint)


def test_missing_tells_what_was_not_collected(checkpoint, docs):
    opened = checkpoint()
    found = collect(opened, docs, Needs.of([Need("0.resid_pre")]), **SETTINGS)
    assert not Needs.of([Need("0.resid_pre")]).missing(found, opened.blueprint).items
    assert lens_needs(opened).missing(found, opened.blueprint).items


def test_moments_of_two_halves_add_up(checkpoint, tmp_path, docs):
    opened = checkpoint()
    texts = tiny.texts(300, seed=3)
    needs = Needs.of([Need("1.resid_pre", "final", increment=True)])
    settings = {**SETTINGS, "tokens": None}
    for name, part in (("a", texts[:150]), ("b", texts[150:])):
        collect(opened, documents(part), needs, out=tmp_path / name, **settings)
    total = add_moments([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    swapped = add_moments([tmp_path / "b", tmp_path / "a"], tmp_path / "d")
    a, b = (MomentSet.open(tmp_path / n) for n in "ab")
    for fold in FOLDS:
        expected = a.joint("1.resid_pre", "final", fold) + b.joint("1.resid_pre", "final", fold)
        found = total.joint("1.resid_pre", "final", fold)
        assert close(found.cross, expected.cross, 1e-12)
        assert close(swapped.joint("1.resid_pre", "final", fold).cross, found.cross, 1e-12)


def test_other_models_and_rules_do_not_add(checkpoint, tmp_path, docs):
    needs = Needs.of([Need("1.resid_pre")])
    opened = checkpoint()
    collect(opened, docs, needs, out=tmp_path / "a", **SETTINGS)
    collect(checkpoint("mistral"), docs, needs, out=tmp_path / "b", **SETTINGS)
    collect(opened, docs, needs, out=tmp_path / "c", **{**SETTINGS, "length": 16})
    rule = RowRule(first=False, factor=None)
    collect(opened, docs, needs, out=tmp_path / "d", rule=rule, **SETTINGS)
    for other, field in (("b", "model|weights"), ("c", "length"), ("d", r"rows\.first")):
        with pytest.raises(GramianError, match=field):
            add_moments([tmp_path / "a", tmp_path / other], tmp_path / "sum")
    with pytest.raises(GramianError, match="document"):
        add_moments([tmp_path / "a", tmp_path / "a"], tmp_path / "sum")


def test_a_reservoir_pairs_the_same_rows_across_sites(checkpoint, docs):
    opened = checkpoint()
    needs = Needs.of([Need("1.resid_pre"), Need("2.resid_pre")])
    found = collect(opened, docs, needs, reservoir=20, **SETTINGS)
    keys_a, rows_a = found.reservoir("1.resid_pre", "train")
    keys_b, _ = found.reservoir("2.resid_pre", "train")
    assert keys_a == keys_b
    assert rows_a.shape == (20, 32)
    kept, _ = rows_of(opened, docs, ["1.resid_pre"], found.recipe.rows, "train")
    distance = torch.cdist(rows_a.double(), kept["1.resid_pre"]).min(dim=1).values
    assert distance.max() < 1e-4


def test_activations_that_are_not_finite_are_located(docs, tmp_path):
    opened = open_checkpoint(tiny.save(tmp_path))
    weight = opened.model.get_parameter("model.layers.1.mlp.down_proj.weight")
    opened.digest  # noqa: B018 - fingerprints of the sound network
    with torch.no_grad():
        weight[0, 0] = float("nan")
    with pytest.raises(GramianError, match=r"not finite .*document [0-9a-f]{12} at offset \d+"):
        collect(opened, docs, Needs.of([Need("2.resid_pre")]), **SETTINGS)


def test_too_few_documents_for_three_folds(checkpoint):
    opened = checkpoint()
    with pytest.raises(GramianError, match="no document falls into the fold"):
        collect(opened, documents(["w1 w2 w3"]), Needs.of([Need("1.resid_pre")]), length=32)


def test_windows_longer_than_the_network_takes(checkpoint, docs):
    with pytest.raises(GramianError, match="64 positions"):
        collect(checkpoint(), docs, Needs.of([Need("1.resid_pre")]), length=128)


def test_unknown_settings_are_named(checkpoint, docs):
    with pytest.raises(GramianError, match="batch_rows"):
        collect(checkpoint(), docs, Needs.of([Need("1.resid_pre")]), batchrows=3)


def test_an_existing_target_is_not_touched(checkpoint, docs, tmp_path):
    (tmp_path / "m.moments").mkdir()
    with pytest.raises(GramianError, match="exists"):
        collect(checkpoint(), docs, Needs.of([Need("1.resid_pre")]), out=tmp_path / "m.moments")


def same_files(a: Path, b: Path) -> bool:
    names = sorted(file.name for file in a.iterdir())
    return names == sorted(file.name for file in b.iterdir()) and all(
        (a / name).read_bytes() == (b / name).read_bytes() for name in names
    )


@pytest.mark.parametrize("memory", [None, 60_000])
def test_an_interrupted_run_ends_with_the_same_bits(checkpoint, docs, tmp_path, memory):
    """Stop after every possible batch in turn, going on each time from what was saved."""
    opened = checkpoint()
    needs = Needs.of([Need("1.resid_pre", "final", increment=True), Need("2.mlp_mid")])
    settings = {**SETTINGS, "tokens": 1500, "memory": memory}
    collect(opened, docs, needs, out=tmp_path / "whole", **settings)

    class Stop(Exception):
        pass

    stops = 0
    while True:
        seen = 0

        def stop_after_two(_done, _total):
            nonlocal seen
            seen += 1
            if seen == 2:
                raise Stop

        try:
            collect(
                opened,
                docs,
                needs,
                out=tmp_path / "broken",
                save_every=0.0,
                progress=stop_after_two,
                **settings,
            )
            break
        except Stop:
            stops += 1
            assert not (tmp_path / "broken").exists()
    assert stops >= 3
    assert same_files(tmp_path / "whole", tmp_path / "broken")


def test_another_job_does_not_take_up_a_partial_one(checkpoint, docs, tmp_path):
    opened = checkpoint()
    needs = Needs.of([Need("1.resid_pre")])

    def stop(_done, _total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect(opened, docs, needs, out=tmp_path / "m", save_every=0.0, progress=stop, **SETTINGS)
    with pytest.raises(GramianError, match="other data or settings"):
        collect(opened, docs, needs, out=tmp_path / "m", **{**SETTINGS, "seed": 1})
    collect(opened, docs, needs, out=tmp_path / "m", force=True, **{**SETTINGS, "seed": 1})
    assert not (tmp_path / "m.partial").exists()


SCRIPT = """
import sys, time
from gramian.data import documents
from gramian.networks import Need, Needs, collect
from gramian.networks import open as open_checkpoint
sys.path.insert(0, {root!r})
from tests import tiny
collect(
    open_checkpoint({folder!r}), documents(tiny.texts(200)),
    Needs.of([Need("1.resid_pre", "final", increment=True)]),
    out={out!r}, save_every=0.0, tokens=3000, length=32, batch_rows=64,
    progress=lambda done, total: time.sleep(0.1),
)
"""


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path):
    """kill -9, again and again, until a run survives: the same bits as an undisturbed run."""
    folder = tiny.save(tmp_path / "model")
    root = str(Path(__file__).parents[2])

    def start(out: Path) -> subprocess.Popen[bytes]:
        text = SCRIPT.format(root=root, folder=str(folder), out=str(out))
        return subprocess.Popen([sys.executable, "-c", text], cwd=root)

    began = time.monotonic()
    assert start(tmp_path / "whole").wait() == 0
    whole = time.monotonic() - began
    generator = torch.Generator().manual_seed(0)
    kills = 0
    while True:
        process = start(tmp_path / "broken")
        try:
            share = 0.5 + 0.5 * float(torch.rand(1, generator=generator))
            process.wait(timeout=share * whole)
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
    assert process.returncode == 0
    shutil.rmtree(tmp_path / "broken.partial", ignore_errors=True)
    assert same_files(tmp_path / "whole", tmp_path / "broken")
    assert kills >= 1


def test_a_run_lost_before_it_finished_is_finished(checkpoint, docs, tmp_path, monkeypatch):
    """All statistics are stored, the index is not: the same call writes it, and streams nothing."""
    opened = checkpoint()
    needs = Needs.of([Need("1.resid_pre")])
    whole = collect(opened, docs, needs, out=tmp_path / "whole.moments", **SETTINGS)
    real = MomentSetWriter.finish

    def lost(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(MomentSetWriter, "finish", lost)
    with pytest.raises(KeyboardInterrupt):
        collect(opened, docs, needs, out=tmp_path / "m.moments", **SETTINGS)
    monkeypatch.setattr(MomentSetWriter, "finish", real)
    done = []
    found = collect(
        opened,
        docs,
        needs,
        out=tmp_path / "m.moments",
        progress=lambda *given: done.append(given),
        **SETTINGS,
    )
    assert done == []
    assert found.counts == whole.counts
    assert [p.sha256 for p in found.index.parts] == [p.sha256 for p in whole.index.parts]
