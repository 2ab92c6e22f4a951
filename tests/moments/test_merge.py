"""Adding moments sets equals collecting all their rows at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gramian.errors import GramianError
from gramian.moments import merge
from gramian.moments.accumulator import Accumulator
from gramian.moments.folds import FOLDS, Shares
from gramian.moments.joint import JointMoments
from gramian.moments.merge import add_moments
from gramian.moments.moments import Moments
from gramian.moments.momentset import MomentSet
from gramian.moments.recipe import RowRule
from gramian.moments.reservoir import Reservoir
from gramian.moments.writer import MomentSetWriter
from tests.moments.sets import INCREMENT, PLAIN, RECIPE, WIDTHS, assert_same, make_data, write_set

PARTS = [make_data(seed, n) for seed, n in ((1, 30), (2, 45), (3, 20))]


def assert_equal_sets(a: MomentSet, b: MomentSet) -> None:
    assert (a.sites, a.pairs, a.counts, a.documents) == (b.sites, b.pairs, b.counts, b.documents)
    for sinks in (False, True):
        for fold in (*FOLDS, FOLDS):
            for site in a.sites:
                assert_same(a.moments(site, fold, sinks), b.moments(site, fold, sinks))
            for pair in a.pairs:
                first, second = (s.joint(*pair[:2], fold, sinks, pair.increment) for s in (a, b))
                assert_same(first, second)


@pytest.fixture
def sets(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{name}.moments" for name in "abc"]
    for path, data in zip(paths, PARTS, strict=True):
        write_set(path, data)
    return paths


@pytest.mark.parametrize("limit", [512, 4])
def test_the_sum_is_the_set_of_all_rows(
    sets: list[Path], tmp_path: Path, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "THIN_LIMIT", limit)
    added = add_moments(sets, tmp_path / "sum.moments")
    assert_equal_sets(added, write_set(None, PARTS[0] + PARTS[1] + PARTS[2]))
    thin = added.blocks.thin(added.index.parts[0], "train")
    assert (thin is None) == (limit == 4)
    assert_equal_sets(MomentSet.open(tmp_path / "sum.moments", verify=True), added)


def test_commutes_and_associates(sets: list[Path]) -> None:
    a, b, c = (MomentSet.open(path) for path in sets)
    left = add_moments([add_moments([a, b], None), c], None)
    right = add_moments([a, add_moments([c, b], None)], None)
    assert_equal_sets(left, right)
    assert_equal_sets(left, add_moments([c, a, b], None))


def test_equals_an_accumulator_over_the_union(sets: list[Path]) -> None:
    added = add_moments(sets, None)
    for fold in FOLDS:
        orders = {"1.resid_pre": "diagonal"}
        whole = Accumulator(WIDTHS, (PLAIN, INCREMENT), orders=orders, precision="float64")
        for data in PARTS:
            whole.update(data.rows[fold])
        for site in WIDTHS:
            assert_same(added.moments(site, fold), whole.moments(site), 1e-12)
        for pair in (PLAIN, INCREMENT):
            mine = added.joint(pair.x, pair.y, fold, increment=pair.increment)
            theirs = whole.joint(pair)
            assert_same(mine, replace(theirs, y=mine.y), 1e-12)
            assert_same(mine.y.diagonal(), theirs.y.diagonal(), 1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "other"}, "model: 'bundled:small' against 'other'"),
        ({"weights": "ef" * 32}, "weights: abababababab…"),
        ({"tokenizer": "ef" * 32}, "tokenizer: cdcdcdcdcdcd…"),
        ({"template": "ef" * 32}, "template: 'none' against efefefefefef…"),
        ({"rows": RowRule(first=False)}, "rows.first: True against False"),
        ({"shares": Shares(0.5, 0.25, 0.25)}, "shares.train: 0.8 against 0.5"),
        ({"length": 64}, "length: 128 against 64"),
        ({"bos": False}, "bos: True against False"),
        ({"precision": "float64"}, "precision: 'float32' against 'float64'"),
    ],
)
def test_refuses_other_recipes(tmp_path: Path, change: dict[str, object], message: str) -> None:
    a = write_set(None, PARTS[0])
    b = write_set(None, PARTS[1], recipe=replace(RECIPE, **change))  # type: ignore[arg-type]
    with pytest.raises(GramianError, match=message):
        add_moments([a, b], tmp_path / "sum.moments")
    assert list(tmp_path.iterdir()) == []


def test_refuses_shared_documents(sets: list[Path], tmp_path: Path) -> None:
    shared = replace(PARTS[2], documents=dict(PARTS[2].documents))
    shared.documents["select"] = PARTS[0].documents["select"]
    c = write_set(None, shared)
    with pytest.raises(GramianError, match="2 of 12 documents are in more than one of"):
        add_moments([sets[0], c], tmp_path / "sum.moments")
    assert not (tmp_path / "sum.moments").exists()
    both = add_moments([sets[0], c], tmp_path / "sum.moments", allow_overlap=True)
    assert both.documents.count == 10
    assert both.counts["select"]["documents"] == 2


def test_refuses_the_same_set_twice(tmp_path: Path) -> None:
    for name in "ab":
        data = replace(PARTS[0], documents={})
        write_set(tmp_path / name, data)
    with pytest.raises(GramianError, match="are the same set"):
        add_moments([tmp_path / "a", tmp_path / "b"], None)


def test_refuses_other_sites(sets: list[Path]) -> None:
    rows = PARTS[1].rows["train"]
    with MomentSetWriter(None, RECIPE) as writer:
        writer.put_site("0.resid_pre", "train", Moments.from_rows(rows["0.resid_pre"]))
        writer.put_site("9.extra", "train", Moments.from_rows(rows["0.resid_pre"]))
        other = writer.finish()
    with pytest.raises(GramianError, match=r"set 1 lacks site 1\.mlp_out, site 1\.resid_pre, pair"):
        add_moments([sets[0], other], None)
    with pytest.raises(GramianError, match=r"lacks site 9\.extra"):
        add_moments([other, sets[0]], None)


def test_a_fold_that_one_set_lacks(tmp_path: Path) -> None:
    a = write_set(None, PARTS[0])
    rows = PARTS[1].rows["train"]
    with MomentSetWriter(None, RECIPE) as writer:
        for site in WIDTHS:
            order = "diagonal" if site == "1.resid_pre" else "full"
            writer.put_site(site, "train", Moments.from_rows(rows[site], order=order))
        for pair in (PLAIN, INCREMENT):
            y = rows[pair.y] - rows[pair.x] if pair.increment else rows[pair.y]
            writer.put_pair(pair, "train", JointMoments.from_rows(rows[pair.x], y))
        b = writer.finish(documents={"train": PARTS[1].documents["train"]})
    for order in ([a, b], [b, a]):
        added = add_moments(order, None)
        assert added.moments("0.resid_pre", "train").count == 75
        assert_same(added.moments("0.resid_pre", "report"), a.moments("0.resid_pre", "report"))


def test_reservoirs_keep_the_lowest_ranks() -> None:
    rows = torch.randn(12, 6, generator=torch.Generator().manual_seed(0))
    keys = [(PARTS[0].documents["train"][i % 2], i) for i in range(12)]

    def part(*chosen: int) -> MomentSet:
        kept = Reservoir(4, 6)
        kept.update([keys[i] for i in chosen], rows[list(chosen)])
        with MomentSetWriter(None, RECIPE) as writer:
            writer.put_site("a", "train", Moments.from_rows(rows[list(chosen)]))
            writer.put_reservoir("a", "train", kept)
            return writer.finish()

    added = add_moments([part(0, 2, 4, 6, 8, 10), part(1, 3, 5, 7, 9, 11)], None)
    found, values = added.reservoir("a")
    whole, wanted = part(*range(12)).reservoir("a")
    assert found == whole
    assert torch.equal(values, wanted)


def test_existing_target_and_no_sets(sets: list[Path]) -> None:
    with pytest.raises(GramianError, match="exists; choose another name, or force"):
        add_moments(sets[:2], sets[2])
    added = add_moments(sets[:2], sets[2], force=True)
    assert added.counts["train"]["rows"] == 75
    with pytest.raises(GramianError, match="no moments sets"):
        add_moments([], None)
