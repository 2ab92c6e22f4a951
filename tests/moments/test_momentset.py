"""Reading a moments set: what comes back is what the rows themselves give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from gramian.errors import GramianError
from gramian.moments.accumulator import Accumulator, Pair
from gramian.moments.folds import FOLDS
from gramian.moments.joint import JointMoments
from gramian.moments.moments import Moments
from gramian.moments.momentset import MomentSet
from gramian.moments.reservoir import Reservoir
from gramian.moments.sinks import SinkRows
from gramian.moments.writer import MomentSetWriter
from tests.moments.sets import INCREMENT, PLAIN, RECIPE, WIDTHS, assert_same, make_data, write_set

DATA = make_data(0)


@pytest.fixture(params=["folder", "memory"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> MomentSet:
    if request.param == "memory":
        return write_set(None, DATA)
    write_set(tmp_path / "x.moments", DATA)
    return MomentSet.open(tmp_path / "x.moments")


def test_index(stored: MomentSet) -> None:
    assert stored.recipe == RECIPE
    assert stored.sites == ("0.resid_pre", "1.mlp_out", "1.resid_pre")
    assert set(stored.pairs) == {PLAIN, INCREMENT}
    assert stored.folds == FOLDS
    assert stored.counts["train"] == {"tokens": 48, "rows": 40, "sinks": 8, "documents": 2}
    assert stored.documents.count == 6
    assert stored.nbytes > 0


@pytest.mark.parametrize("folds", ["train", ("select",), ("train", "select"), FOLDS])
@pytest.mark.parametrize("sinks", [False, True])
def test_moments_of_folds_and_sinks(
    stored: MomentSet, folds: str | tuple[str, ...], sinks: bool
) -> None:
    names = (folds,) if isinstance(folds, str) else folds
    for site, order in (("1.mlp_out", "full"), ("1.resid_pre", "diagonal")):
        rows = DATA.all_rows(site, *names, sinks=sinks)
        assert_same(stored.moments(site, folds, sinks), Moments.from_rows(rows, order=order))


@pytest.mark.parametrize("folds", ["report", FOLDS])
@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("increment", [False, True])
def test_joint_plain_and_increment(
    stored: MomentSet, folds: str | tuple[str, ...], sinks: bool, increment: bool
) -> None:
    names = (folds,) if isinstance(folds, str) else folds
    x = DATA.all_rows("0.resid_pre", *names, sinks=sinks)
    plain = DATA.all_rows("1.mlp_out", *names, sinks=sinks)
    stream = DATA.all_rows("1.resid_pre", *names, sinks=sinks)
    # A stored full target comes with its whole scatter.
    joint = stored.joint("0.resid_pre", "1.mlp_out", folds, sinks)
    assert_same(joint, JointMoments.from_rows(x, plain))
    # Only the increment is stored, either form can be asked for.
    joint = stored.joint("0.resid_pre", "1.resid_pre", folds, sinks, increment)
    target = stream - x if increment else stream
    wanted = JointMoments.from_rows(x, target, target="diagonal")
    if not increment:
        wanted = JointMoments(wanted.x, wanted.y, wanted.cross)
    assert_same(joint, wanted, rtol=1e-11)


def test_increment_from_a_plain_pair_and_reverse_pair(tmp_path: Path) -> None:
    x, y = DATA.rows["train"]["0.resid_pre"], DATA.rows["train"]["1.resid_pre"]
    with MomentSetWriter(tmp_path / "x.moments", RECIPE) as writer:
        writer.put_site("a", "train", Moments.from_rows(x))
        writer.put_site("b", "train", Moments.from_rows(y))
        writer.put_pair(Pair("a", "b"), "train", JointMoments.from_rows(x, y))
        stored = writer.finish()
    wanted = JointMoments.from_rows(x, y - x, quartic=False)
    assert_same(stored.joint("a", "b", increment=True).y.diagonal(), wanted.y.diagonal(), 1e-11)
    assert_same(stored.joint("b", "a"), JointMoments.from_rows(y, x))


def test_float32_storage_keeps_each_entry_to_its_diagonal(tmp_path: Path) -> None:
    exact, rounded = (
        write_set(None, DATA),
        write_set(tmp_path / "x.moments", DATA, storage="float32"),
    )
    for site in ("0.resid_pre", "1.mlp_out"):
        a, b = exact.moments(site), rounded.moments(site)
        root = a.variances.sqrt()
        assert float(((a.scatter - b.scatter) / torch.outer(root, root)).abs().max()) < 1e-7
        assert torch.allclose(a.variances, b.variances, rtol=1e-15, atol=0)
        assert torch.equal(a.mean, b.mean)
    a, b = (s.joint("0.resid_pre", "1.mlp_out") for s in (exact, rounded))
    root = torch.outer(a.x.variances.sqrt(), a.y.variances.sqrt())
    assert float(((a.cross - b.cross) / root).abs().max()) < 1e-7


def test_sinks_without_a_thin_part(tmp_path: Path) -> None:
    rows = DATA.rows["train"]["0.resid_pre"]
    with MomentSetWriter(None, RECIPE) as writer:
        writer.put_site("a", "train", Moments.from_rows(rows))
        stored = writer.finish()
    assert_same(stored.moments("a", sinks=True), Moments.from_rows(rows))


def test_thin_rows_must_be_the_same_rows() -> None:
    rows, thin = DATA.rows["train"], DATA.thin["train"]["0.resid_pre"]
    with MomentSetWriter(None, RECIPE) as writer:
        writer.put_site("a", "train", Moments.from_rows(rows["0.resid_pre"]), (None, thin))
        writer.put_site("b", "train", Moments.from_rows(rows["1.resid_pre"]), (None, thin[:2]))
        both = JointMoments.from_rows(rows["0.resid_pre"], rows["1.resid_pre"])
        writer.put_pair(Pair("a", "b"), "train", both)
        stored = writer.finish()
    assert stored.joint("a", "b").count == 40
    with pytest.raises(GramianError, match="3 sink rows of 'a' and 2 of 'b'"):
        stored.joint("a", "b", sinks=True)


def test_unknown_names(stored: MomentSet) -> None:
    with pytest.raises(GramianError, match=r"no site '0\.resid_prre'.*0\.resid_pre"):
        stored.moments("0.resid_prre")
    with pytest.raises(GramianError, match=r"3 sites, first: 0\.resid_pre"):
        stored.moments("zzz")
    with pytest.raises(GramianError, match="fold is 'test', expected one of train"):
        stored.moments("0.resid_pre", "test")
    with pytest.raises(GramianError, match="several once each"):
        stored.moments("0.resid_pre", ("train", "train"))
    with pytest.raises(GramianError, match=r"1\.mlp_out -> 1\.resid_pre is not.*none with.*--for"):
        stored.joint("1.mlp_out", "1.resid_pre")
    with pytest.raises(GramianError, match=r"stored with '0\.resid_pre': 0\.resid_pre -> 1\.mlp"):
        stored.joint("0.resid_pre", "0.resid_pre")


def test_a_fold_that_is_not_there() -> None:
    with MomentSetWriter(None, RECIPE) as writer:
        writer.put_site("a", "train", Moments.from_rows(DATA.rows["train"]["0.resid_pre"]))
        stored = writer.finish()
    with pytest.raises(
        GramianError, match="site a has nothing in the fold 'report', only in train"
    ):
        stored.moments("a", "report")


def test_reservoir(tmp_path: Path) -> None:
    rows = DATA.rows["train"]["0.resid_pre"]
    keys = [(DATA.documents["train"][i % 2], 10 * i) for i in range(5)]
    with MomentSetWriter(tmp_path / "x.moments", RECIPE) as writer:
        writer.put_site("a", "train", Moments.from_rows(rows))
        writer.put_site("b", "train", Moments.from_rows(rows))
        kept = Reservoir(4, 6)
        kept.update(keys, rows[:5])
        writer.put_reservoir("a", "train", kept)
        writer.finish()
    stored = MomentSet.open(tmp_path / "x.moments")
    found, values = stored.reservoir("a", "train")
    assert found == kept.keys
    assert len(found) == 4
    assert torch.equal(values, kept.rows)
    with pytest.raises(GramianError, match="no raw rows of 'b'"):
        stored.reservoir("b", "train")


def test_a_reader_cannot_change_a_set(stored: MomentSet) -> None:
    stored.moments("1.resid_pre").mean.zero_()
    stored.joint("0.resid_pre", "1.mlp_out").cross.zero_()
    assert float(stored.moments("1.resid_pre").mean.abs().sum()) > 0
    assert float(stored.joint("0.resid_pre", "1.mlp_out").cross.abs().sum()) > 0


def test_describe(tmp_path: Path) -> None:
    write_set(tmp_path / "x.moments", DATA)
    stored = MomentSet.open(tmp_path / "x.moments")
    shown = stored.describe()
    json.dumps(shown, allow_nan=False)
    assert shown["verified"] is False
    site = shown["sites"][0]  # type: ignore[index]
    assert site["site"] == "0.resid_pre"
    assert (site["d"], site["order"], site["verified"]) == (6, "full", False)
    assert site["rows"] == {"train": 40.0, "select": 41.0, "report": 42.0}
    assert site["sinks"] == {"train": 8.0, "select": 8.0, "report": 8.0}
    stored.verify()
    assert stored.describe()["verified"] is True
    assert "3 sites, 2 pairs" in repr(stored)


@pytest.mark.parametrize("capacity", [512, 4])
def test_what_an_accumulator_and_sink_rows_hand_over(tmp_path: Path, capacity: int) -> None:
    orders = {"1.resid_pre": "diagonal"}
    kept = Accumulator(WIDTHS, (PLAIN, INCREMENT), orders=orders, precision="float64")
    apart = SinkRows(
        WIDTHS, (PLAIN, INCREMENT), orders=orders, precision="float64", capacity=capacity
    )
    kept.update(DATA.rows["train"])
    apart.update(DATA.dense["train"])
    with MomentSetWriter(tmp_path / "x.moments", RECIPE) as writer:
        for site in WIDTHS:
            writer.put_site(site, "train", kept.moments(site), sinks=apart.block(site))
        for pair in (PLAIN, INCREMENT):
            writer.put_pair(pair, "train", kept.joint(pair), sinks=apart.dense_joint(pair))
        stored = writer.finish()
    for site in WIDTHS:
        assert_same(stored.moments(site), kept.moments(site))
        total = kept.moments(site) + apart.moments(site)
        assert_same(stored.moments(site, sinks=True), total)
    for pair in (PLAIN, INCREMENT):
        total_joint = kept.joint(pair) + apart.joint(pair)
        both = stored.joint(pair.x, pair.y, sinks=True, increment=pair.increment)
        assert_same(both, total_joint)
