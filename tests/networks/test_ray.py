"""A real Ray cluster on this machine: workers that are killed, and the same moments."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from gramian.data import documents
from gramian.errors import GramianError
from gramian.moments import FOLDS, MomentSet, Shard
from gramian.networks import Need, Needs, collect, collect_on_ray
from tests import tiny

ray = pytest.importorskip("ray")
psutil = pytest.importorskip("psutil")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
NEEDS = Needs.of([Need("1.resid_pre", "final", increment=True), Need("2.mlp_mid")])
SETTINGS = {"tokens": 40_000, "length": 32, "batch_rows": 64, "precision": "float64"}


@pytest.fixture(scope="module")
def cluster():
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("text") / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in tiny.texts(2500)))
    return path


@pytest.fixture(scope="module")
def whole(checkpoint, corpus) -> MomentSet:
    return collect(checkpoint(), documents(corpus), NEEDS, **SETTINGS)


def same(a: MomentSet, b: MomentSet) -> None:
    assert (a.sites, a.pairs, a.counts, a.documents) == (b.sites, b.pairs, b.counts, b.documents)
    assert (a.recipe, a.shards) == (b.recipe, b.shards)
    for fold in FOLDS:
        for sinks in (False, True):
            for site in a.sites:
                x, y = (s.moments(site, fold, sinks) for s in (a, b))
                assert float((x.scatter - y.scatter).abs().max() / x.scatter.abs().max()) < 1e-12
            for pair in a.pairs:
                x, y = (s.joint(*pair[:2], fold, sinks, pair.increment) for s in (a, b))
                assert float((x.cross - y.cross).abs().max() / x.cross.abs().max()) < 1e-12


def workers() -> list[int]:
    """Process ids of the actors that collect."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if "".join(process.cmdline()).startswith("ray::ShardWorker.collect"):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


class Killer:
    """Kills a worker when a share of the tokens is done; ``times`` times."""

    def __init__(self, share: float, times: int = 1) -> None:
        self.share, self.times = share, times
        self.killed: list[int] = []
        self.seen: list[int] = []

    def __call__(self, done: int, total: int | None) -> None:
        self.seen.append(done)
        left = [pid for pid in workers() if pid not in self.killed]
        if len(self.killed) < self.times and total and done >= self.share * total and left:
            os.kill(left[0], signal.SIGKILL)
            self.killed.append(left[0])


def test_a_worker_killed_half_way_changes_nothing(cluster, checkpoint, corpus, whole, tmp_path):
    killer = Killer(0.4)
    found = collect_on_ray(
        checkpoint(),
        documents(corpus),
        NEEDS,
        out=tmp_path / "m",
        workers=2,
        progress=killer,
        save_every=0.0,
        **SETTINGS,
    )
    assert len(killer.killed) == 1
    at = next(i for i, done in enumerate(killer.seen) if done >= 0.4 * SETTINGS["tokens"])
    assert killer.seen[at] < 0.9 * SETTINGS["tokens"]
    # It went on from its journal: progress, which is the sum of last reports, never fell.
    assert killer.seen == sorted(killer.seen)
    same(whole, found)
    same(whole, MomentSet.open(tmp_path / "m", verify=True))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m"]


def test_a_worker_lost_for_good_names_its_shard(cluster, checkpoint, corpus, whole, tmp_path):
    """The others finish; the shard is then collected by hand, and the same call adds them up."""
    opened, docs = checkpoint(), documents(corpus)
    out = tmp_path / "m"
    how = {"out": out, "workers": 3, "save_every": 0.0, **SETTINGS}
    with pytest.raises(GramianError, match="was lost for good, after 0 restarts") as caught:
        collect_on_ray(opened, docs, NEEDS, restarts=0, progress=Killer(0.2), **how)
    message = str(caught.value)
    folder = tmp_path / "m.shards"
    done = [i for i in (1, 2, 3) if (folder / f"{i}-of-3.moments").is_dir()]
    (lost,) = {1, 2, 3} - set(done)
    path = folder / f"{lost}-of-3.moments"
    assert f"--shard {lost}/3 -o {path}" in message
    assert not out.exists()

    with pytest.raises(GramianError, match="collection with other data, settings or number of"):
        collect_on_ray(opened, docs, NEEDS, **{**how, "workers": 2})
    with pytest.raises(GramianError, match="collection with other data, settings or number of"):
        collect_on_ray(opened, docs, NEEDS, **{**how, "seed": 1})

    found = collect(opened, docs, NEEDS, out=path, shard=Shard(lost, 3), **SETTINGS)
    assert found.shards.held == (lost,)
    seen = []
    added = collect_on_ray(opened, docs, NEEDS, progress=lambda d, t: seen.append(d), **how)
    assert seen == []  # nothing was left to do
    same(whole, added)
    assert not folder.exists()


def test_what_a_worker_refuses_comes_back_with_its_shard(cluster, checkpoint, corpus, tmp_path):
    opened = checkpoint()
    needs = Needs.of([Need("1.resid_pre")])
    how = {"out": tmp_path / "m", "workers": 2, **SETTINGS}
    with pytest.raises(GramianError, match=r"shard \d/2: .*least budget"):
        collect_on_ray(opened, documents(corpus), needs, memory=1000, **how)
    with pytest.raises(GramianError, match="one worker asks for 9 and 0"):
        collect_on_ray(opened, documents(corpus), needs, cpus=9, **how)
    with pytest.raises(GramianError, match="on Ray all shards are collected"):
        collect_on_ray(opened, documents(corpus), needs, shard=Shard(1, 2), **how)
    with pytest.raises(GramianError, match="workers is 0"):
        collect_on_ray(opened, documents(corpus), needs, **{**how, "workers": 0})
    (tmp_path / "m").mkdir()
    with pytest.raises(GramianError, match="exists; choose another name"):
        collect_on_ray(opened, documents(corpus), needs, **how)


def test_the_command_line_collects_on_ray(
    cluster, checkpoint, corpus, whole, tmp_path, monkeypatch
):
    import sys

    from gramian.cli import main

    out = tmp_path / "m.moments"
    model = checkpoint().source.location
    text = f"gramian collect {model} --data {corpus} --for compare --tokens 4k --length 32"
    for command in (f"{text} --ray --workers 2 -o {out}", f"{text} -o {tmp_path / 'one'}"):
        monkeypatch.setattr(sys, "argv", command.split())
        with pytest.raises(SystemExit) as done:
            main()
        assert not done.value.code
    a, b = MomentSet.open(out), MomentSet.open(tmp_path / "one")
    assert (a.counts, a.documents, a.shards) == (b.counts, b.documents, None)
    x, y = (s.moments("1.resid_pre", sinks=True).scatter for s in (a, b))
    assert float((x - y).abs().max() / x.abs().max()) < 1e-6
