"""A collection dealt out over machines adds up to the one that a single machine makes."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from importlib import import_module

import pytest
import torch

from gramian.data import Packing, documents
from gramian.errors import GramianError
from gramian.moments import FOLDS, MomentSet, Shard, add_moments
from gramian.networks import Need, Needs, collect, collect_pair, ray_cluster
from gramian.networks.collect import batches
from gramian.networks.shard_folder import Shards
from gramian.networks.shard_worker import ShardWorker, Task
from tests import tiny

SETTINGS = {"tokens": 3000, "length": 32, "batch_rows": 128, "precision": "float64"}


@pytest.fixture(scope="module")
def docs():
    return documents(tiny.texts(200))


def same(a: MomentSet, b: MomentSet, tolerance: float = 1e-12) -> None:
    """Counts and documents are equal, sums are to rounding: of rows alone and with sinks."""
    assert (a.sites, a.pairs, a.counts, a.documents) == (b.sites, b.pairs, b.counts, b.documents)
    assert (a.recipe, a.shards) == (b.recipe, b.shards)
    for fold in FOLDS:
        for sinks in (False, True):
            for site in a.sites:
                x, y = (s.moments(site, fold, sinks) for s in (a, b))
                assert x.count == y.count
                assert close(x.mean, y.mean, x.mean.abs().max(), tolerance)
                assert close(x.scatter, y.scatter, x.scatter.abs().max(), tolerance)
            for pair in a.pairs:
                x, y = (s.joint(*pair[:2], fold, sinks, pair.increment) for s in (a, b))
                assert close(x.cross, y.cross, x.cross.abs().max(), tolerance)


def close(a, b, scale, tolerance) -> bool:
    return float((a - b).abs().max()) <= tolerance * float(scale)


@pytest.mark.parametrize("count", [1, 3])
def test_all_shards_add_up_to_the_whole(checkpoint, docs, tmp_path, count):
    opened = checkpoint()
    needs = Needs.of([Need("1.resid_pre", "final", increment=True), Need("0.mlp_in", "0.mlp_out")])
    settings = {**SETTINGS, "tokens": 1500}
    whole = collect(opened, docs, needs, **settings)
    paths = []
    for number in random.Random(count).sample(range(1, count + 1), count):
        paths.append(tmp_path / f"{number}")
        shard = Shard(number, count)
        part = collect(opened, docs, needs, out=paths[-1], shard=shard, **settings)
        assert (part.shards is None) == (count == 1)
    tokens = [sum(c["tokens"] for c in MomentSet.open(p).counts.values()) for p in paths]
    assert sum(tokens) == 1500
    assert max(tokens) - min(tokens) <= 3 * 128
    same(whole, add_moments(paths, tmp_path / "sum"))


def test_products_in_float32_are_the_same_but_for_their_shift(checkpoint, docs):
    """Batches keep their rows, so only the shifts that products are taken about differ."""
    opened = checkpoint()
    needs = Needs.of([Need("1.resid_pre", "final", increment=True)])
    settings = {**SETTINGS, "precision": "float32"}
    parts = [collect(opened, docs, needs, shard=Shard(i, 2), **settings) for i in (1, 2)]
    same(collect(opened, docs, needs, **settings), add_moments(parts, None), 1e-6)


def test_shards_deal_out_the_batches_of_the_whole_whatever_the_order(checkpoint):
    opened = checkpoint()
    texts = tiny.texts(120)
    whole = list(batches(opened, documents(texts), **SETTINGS))
    random.Random(1).shuffle(texts)
    shuffled = documents(texts)
    parts = [list(batches(opened, shuffled, shard=Shard(i, 3), **SETTINGS)) for i in (1, 2, 3)]
    assert sum(map(len, parts)) == len(whole)
    for index, batch in enumerate(whole):
        dealt = parts[index % 3][index // 3]
        assert batch.fold == dealt.fold
        assert batch.digests == dealt.digests
        assert bool((batch.ids == dealt.ids).all())


def test_a_shard_goes_on_from_any_batch(checkpoint, docs):
    opened = checkpoint()
    packing = Packing(docs, opened.tokenizer, length=16, rows=64, tokens=900, shard=Shard(2, 3))
    every = list(packing)
    totals = packing.totals()
    assert sum(total.tokens for total in totals.values()) == sum(b.tokens for b in every)
    for start in range(len(every) + 1):
        tail = list(packing.batches(start))
        assert len(tail) == len(every) - start
        assert all(bool((a.ids == b.ids).all()) for a, b in zip(every[start:], tail, strict=True))
        assert packing.totals() == totals


@pytest.mark.parametrize("mode", ["windows", "blockwise", "spill"])
def test_every_mode_of_collection_deals_out_the_same(checkpoint, docs, tmp_path, mode):
    opened = checkpoint()
    needs = Needs.of([Need("1.resid_pre", "2.resid_pre"), Need("1.mlp_mid")])
    settings = {**SETTINGS, "tokens": 1000}
    budget = {"memory": 170_000} if mode == "windows" else {}
    parts = [
        collect(opened, docs, needs, shard=Shard(i, 2), mode=mode, **budget, **settings)
        for i in (1, 2)
    ]
    same(collect(opened, docs, needs, **settings), add_moments(parts, None))


def test_raw_rows_of_shards_are_those_of_the_whole(checkpoint, docs):
    opened = checkpoint()
    needs = Needs.of([Need("1.resid_pre")])
    settings = {**SETTINGS, "reservoir": 20, "sink_rows": 3}
    whole = collect(opened, docs, needs, **settings)
    parts = [collect(opened, docs, needs, shard=Shard(i, 4), **settings) for i in (1, 2, 3, 4)]
    added = add_moments(parts, None)
    same(whole, added)
    for fold in FOLDS:
        (keys, rows), (found, theirs) = (s.reservoir("1.resid_pre", fold) for s in (whole, added))
        assert keys == found
        assert close(rows, theirs, rows.abs().max(), 1e-6)


@pytest.mark.parametrize("align", ["tokens", "characters", "documents"])
def test_joint_collections_deal_out_too(checkpoint, docs, align):
    a, b = checkpoint("llama"), checkpoint("gpt2")
    settings = {**SETTINGS, "tokens": 1500, "align": align}
    whole = collect_pair(a, b, docs, **settings)
    parts = [collect_pair(a, b, docs, shard=Shard(i, 3), **settings) for i in (1, 2, 3)]
    same(whole, add_moments(parts, None))


def test_what_cannot_be_added(checkpoint, docs):
    opened = checkpoint()
    needs = Needs.of([Need("1.resid_pre", order="diagonal")])

    def part(number: int, count: int = 3, texts=docs, **changes) -> MomentSet:
        how = {**SETTINGS, **changes}
        return collect(opened, texts, needs, shard=Shard(number, count), **how)

    first = part(1)
    some = add_moments([first, part(3)], None)
    assert some.shards is not None
    assert (some.shards.held, some.shards.missing) == ((1, 3), (2,))
    with pytest.raises(GramianError, match="shard 1/3 is in both"):
        add_moments([some, first], None)
    for changes in ({"seed": 1}, {"tokens": 2000}, {"batch_rows": 64}, {"texts": other(docs)}):
        with pytest.raises(GramianError, match="shards of different collections"):
            add_moments([first, part(2, **changes)], None)
    with pytest.raises(GramianError, match="dealt out in two ways"):
        add_moments([first, part(2, 4)], None)
    with pytest.raises(GramianError, match="recipes differ in length"):
        add_moments([first, part(2, length=16)], None)


def other(docs):
    """The same documents and one more: a stale copy of the data on one of the machines."""
    return documents([*(document.text for document in docs), "w1 w2 w3 w4 w5 w6"])


def test_more_shards_than_batches(checkpoint, docs):
    opened = checkpoint()
    needs = Needs.of([Need("1.resid_pre", order="diagonal")])
    settings = {"tokens": 300, "length": 32, "batch_rows": 128}
    with pytest.raises(GramianError, match=r"shard 9/9 gets no batch: .* at most 4 shards"):
        collect(opened, docs, needs, shard=Shard(9, 9), **settings)
    parts = [collect(opened, docs, needs, shard=Shard(i, 4), **settings) for i in (1, 2, 3, 4)]
    assert [part.folds for part in parts] == [("train",), ("train",), ("select",), ("report",)]
    same(collect(opened, docs, needs, **settings), add_moments(parts, None), 1e-6)


def test_progress_is_of_the_shard(checkpoint, docs):
    opened = checkpoint()
    seen = []
    collect(
        opened,
        docs,
        Needs.of([Need("1.resid_pre", order="diagonal")]),
        shard=Shard(1, 2),
        progress=lambda done, total: seen.append((done, total)),
        **SETTINGS,
    )
    assert {total for _, total in seen} == {1500}
    assert abs(seen[-1][0] - 1500) <= 2 * 128


def test_a_partial_shard_is_not_taken_up_as_another(checkpoint, docs, tmp_path):
    opened = checkpoint()
    needs = Needs.of([Need("1.resid_pre")])

    def stop(_done, _total):
        raise KeyboardInterrupt

    out = {"out": tmp_path / "m", **SETTINGS}
    with pytest.raises(KeyboardInterrupt):
        collect(opened, docs, needs, shard=Shard(1, 2), progress=stop, **out)
    with pytest.raises(GramianError, match="other data or settings"):
        collect(opened, docs, needs, shard=Shard(2, 2), **out)
    found = collect(opened, docs, needs, shard=Shard(1, 2), **out)
    assert found.shards.held == (1,)


def test_without_ray_it_says_how_to_go_on(checkpoint, docs, tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    ray_shards = import_module("gramian.networks.ray_shards")
    needs = Needs.of([Need("1.resid_pre")])
    with pytest.raises(GramianError, match=r'pip install "gramian\[ray\]"'):
        ray_shards.collect_on_ray(checkpoint(), docs, needs, out=tmp_path / "m")


def test_what_the_driver_refuses_before_ray_is_started(checkpoint, docs, tmp_path, monkeypatch):
    import sys
    from types import ModuleType

    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    needs = Needs.of([Need("1.resid_pre")])
    ray_shards = import_module("gramian.networks.ray_shards")
    spread = replace(checkpoint(), device_map="auto")
    with pytest.raises(GramianError, match="device_map spreads a model"):
        ray_shards.collect_on_ray(spread, docs, needs, out=tmp_path / "m")
    with pytest.raises(GramianError, match="no document falls into the fold"):
        ray_shards.collect_on_ray(
            checkpoint(), documents(["w1 w2"]), needs, out=tmp_path / "m", length=32
        )
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999"):
        with (
            pytest.raises(GramianError, match=f"no Ray cluster at {address}: .*ray start"),
            ray_cluster.cluster(Unconnected, address),
        ):
            pass
    assert not list(tmp_path.iterdir())


class Unconnected:
    """What is asked of Ray before a connection is tried."""

    @staticmethod
    def is_initialized() -> bool:
        return False


def test_a_task_travels_and_finds_its_files_from_anywhere(checkpoint, tmp_path, monkeypatch):
    """Paths are absolute, and nothing held open goes along."""
    pytest.importorskip("pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as parquet

    parquet.write_table(pa.table({"text": tiny.texts(40)}), tmp_path / "a.parquet")
    monkeypatch.chdir(tmp_path)
    docs = documents("a.parquet")
    digests = [document.digest for document in docs]  # opens the file
    rest = {"run": "", "needs": Needs.of([]), "how": {}, "settings": {"length": 32}}
    opened = checkpoint()
    task = Task.of(opened, docs, threads=torch.get_num_threads(), **rest)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    found = pickle.loads(pickle.dumps(task))
    assert [document.digest for document in found.docs] == digests
    assert found.checkpoint().digest == opened.digest
    with pytest.raises(GramianError, match="not those of the machine that started"):
        replace(found, weights="00").checkpoint()
    changed = [*(document.text for document in docs), "w1 w2"]
    with pytest.raises(GramianError, match="this worker reads other documents"):
        ShardWorker().collect(replace(found, docs=documents(changed)), Shard(1, 2), "m", None)


def test_a_working_folder_of_something_else(tmp_path):
    shards = Shards(tmp_path / "m", 2)
    shards.folder.mkdir()
    (shards.folder / "notes.txt").write_text("mine")
    for force in (False, True):
        with pytest.raises(GramianError, match="holds no shards; choose another name"):
            shards.prepare("job", force=force)
    (shards.folder / "notes.txt").unlink()
    shards.prepare("job", force=True)
    shards.prepare("job", force=False)
    with pytest.raises(GramianError, match="other data, settings or number of workers"):
        shards.prepare("other", force=False)
    shards.prepare("other", force=True)


def test_a_finished_shard_of_another_collection(checkpoint, docs, tmp_path):
    shards = Shards(tmp_path / "m", 2)
    shards.prepare("job", force=False)
    needs = Needs.of([Need("1.resid_pre", order="diagonal")])
    made = collect(
        checkpoint(), docs, needs, shard=Shard(1, 2), out=shards.path(Shard(1, 2)), **SETTINGS
    )
    assert shards.is_done(Shard(1, 2), made.shards.run)
    assert not shards.is_done(Shard(2, 2), made.shards.run)
    with pytest.raises(GramianError, match="delete it, and repeat"):
        shards.is_done(Shard(1, 2), "another run")
