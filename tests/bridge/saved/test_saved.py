"""Bridges in folders: the round trip, what is refused, and rows of the wrong side."""

from __future__ import annotations

import json

import numpy as np
import pytest
import safetensors.torch
import torch

from gramian.bridge.saved import SavedBridge, Space, open_bridge
from gramian.bridge.saved.folder import _digest
from gramian.errors import GramianError
from gramian.maps import Affine, Dense
from gramian.moments import JointMoments, Moments

RNG = np.random.default_rng(0)
DX, DY = 6, 5


def bridge(**changes):
    x, y = RNG.standard_normal((40, DX)), RNG.standard_normal((40, DY))
    folds = {
        "train": JointMoments.from_rows(x, y, target="diagonal"),
        "report": JointMoments.from_rows(x[:9], y[:9]),
    }
    fields = {
        "map": Affine(Dense(torch.randn(DY, DX).double()), torch.randn(DY).double()),
        "source": Space("new", DX, model="org/new", prefix="query: "),
        "target": Space("old", DY, unit_norm=True, dtype="float16"),
        "direction": "query_to_old",
        "method": "ridge",
        "pairs": 40,
        "report": {"r2_report": 0.5, "bound": None},
        "folds": folds,
    }
    return SavedBridge(**fields | changes)


def test_the_round_trip_is_exact(tmp_path):
    saved = bridge(normalise=True, paired=False)
    path = saved.save(tmp_path / "bridge")
    assert {file.name for file in path.iterdir()} == {
        "bridge.json",
        "map.safetensors",
        "moments.safetensors",
    }
    again = open_bridge(path)
    for name in ("source", "target", "direction", "method", "pairs", "normalise", "paired"):
        assert getattr(again, name) == getattr(saved, name)
    assert again.report == saved.report
    rows = RNG.standard_normal((3, DX))
    assert torch.equal(again(rows), saved(rows))
    for fold, joint in saved.folds.items():
        read = again.folds[fold]
        assert torch.equal(read.cross, joint.cross)
        for a, b in ((read.x, joint.x), (read.y, joint.y)):
            assert (a.count, a.count2) == (b.count, b.count2)
            assert torch.equal(a.mean, b.mean)
            assert torch.equal(a.scatter, b.scatter)


def test_a_bridge_without_moments(tmp_path):
    again = open_bridge(bridge(folds={}).save(tmp_path / "bridge"))
    assert not again.folds
    assert again.check_source(np.ones((2, DX))).verdict == "unknown"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_rows_keep_their_precision(dtype):
    saved = bridge(normalise=True)
    rows = RNG.standard_normal((7, DX)).astype(dtype)
    out = saved(rows)
    assert out.dtype == (torch.float64 if dtype == np.float64 else torch.float32)
    expected = saved.map(torch.from_numpy(rows.astype(np.float64)))
    expected = expected / expected.norm(dim=1, keepdim=True)
    assert torch.allclose(out.double(), expected, atol=1e-6)


def test_zero_rows_stay_zero():
    saved = bridge(map=Dense(torch.randn(DY, DX)), normalise=True)
    assert not saved(np.zeros((2, DX))).any()


def test_what_does_not_fit_is_refused():
    with pytest.raises(GramianError, match="rows of new are 5 wide, expected 6"):
        bridge()(np.ones((2, DY)))
    with pytest.raises(GramianError, match="does not lead from new"):
        bridge(source=Space("new", 9))
    with pytest.raises(GramianError, match="direction is 'up'"):
        bridge(direction="up")
    with pytest.raises(GramianError, match="fold 'train' holds moments of 2 -> 2"):
        bridge(folds={"train": JointMoments.from_rows(np.eye(2), np.eye(2))})
    with pytest.raises(GramianError, match="row 1 holds NaN"):
        bridge()([[0.0] * DX, [np.nan] * DX])


def test_nothing_is_overwritten_by_accident(tmp_path):
    path = bridge().save(tmp_path / "bridge")
    with pytest.raises(GramianError, match="exists"):
        bridge().save(path)
    bridge(method="procrustes").save(path, force=True)
    assert open_bridge(path).method == "procrustes"
    other = tmp_path / "photographs"
    other.mkdir()
    (other / "a.txt").write_text("mine")
    with pytest.raises(GramianError, match="is no bridge; it is not replaced"):
        bridge().save(other, force=True)
    assert (other / "a.txt").read_text() == "mine"
    with pytest.raises(GramianError, match="must be JSON"):
        bridge(report={"r2": float("nan")}).save(tmp_path / "new")
    assert {p.name for p in tmp_path.iterdir()} == {"bridge", "photographs"}


def edit(path, change, *, sign=True):
    document = json.loads((path / "bridge.json").read_text())
    document.pop("sha256")
    change(document)
    if sign:
        document["sha256"] = _digest(document)
    (path / "bridge.json").write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(magic="other"), "not written by gramian bridge"),
        (lambda d: d.update(format=2), "format 2, this release reads 1"),
        (lambda d: d.update(format=True), "expected an integer"),
        (lambda d: d.update(extra=1), "unknown key 'extra'"),
        (lambda d: d["source"].update(extra=1), "unknown key 'extra'"),
        (lambda d: d["source"].update(dim=7), r"moments|does not lead"),
        (lambda d: d["target"].update(dim=10**12), "expected 1 to"),
        (lambda d: d.update(direction="../up"), "expected one of"),
        (lambda d: d.update(folds=["train", "train"]), "folds"),
        (lambda d: d.update(folds=["train"]), "belongs to no fold"),
        (lambda d: d.update(folds=[]), "unknown key 'moments.safetensors'"),
        (lambda d: d.update(report=[1]), "report is list"),
        (lambda d: d["files"].pop("map.safetensors"), "'map.safetensors' is missing"),
        (lambda d: d["files"]["map.safetensors"].update(bytes=3), "was changed"),
        (lambda d: d["files"].update({"../x": {}}), "unknown key"),
    ],
)
def test_hostile_indexes(tmp_path, change, message):
    path = bridge().save(tmp_path / "bridge")
    edit(path, change)
    with pytest.raises(GramianError, match=message):
        open_bridge(path)


def test_every_changed_byte_is_found(tmp_path):
    path = bridge().save(tmp_path / "bridge")
    for name in ("map.safetensors", "moments.safetensors"):
        data = bytearray((path / name).read_bytes())
        data[-1] ^= 1
        (path / name).write_bytes(bytes(data))
        with pytest.raises(GramianError, match=rf"{name} was changed"):
            open_bridge(path)
        data[-1] ^= 1
        (path / name).write_bytes(bytes(data))
    edit(path, lambda d: d.update(pairs=41), sign=False)
    with pytest.raises(GramianError, match="'sha256' is missing"):
        open_bridge(path)
    path = bridge().save(path, force=True)
    text = (path / "bridge.json").read_text().replace('"pairs":40', '"pairs":41')
    (path / "bridge.json").write_text(text)
    with pytest.raises(GramianError, match="was changed after it was written"):
        open_bridge(path)


def resign(path, tensors):
    safetensors.torch.save_file(tensors, path / "moments.safetensors")
    file = path / "moments.safetensors"

    def change(document):
        import hashlib

        entry = document["files"]["moments.safetensors"]
        entry["bytes"] = file.stat().st_size
        entry["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()

    edit(path, change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.update({"train.x.mean": torch.zeros(3).double()}), "train.x.mean is"),
        (lambda t: t.update({"train.x.mean": torch.zeros(DX)}), "expected float64"),
        (lambda t: t["train.x.mean"].fill_(torch.nan), "holds NaN"),
        (lambda t: t.update({"other": torch.zeros(1)}), "'other' belongs to no fold"),
        (lambda t: t["train.x.counts"].fill_(-1.0), "counts -1"),
        (lambda t: t.pop("train.cross"), "train.cross is missing"),
    ],
)
def test_hostile_moments(tmp_path, change, message):
    path = bridge().save(tmp_path / "bridge")
    tensors = safetensors.torch.load_file(path / "moments.safetensors")
    change(tensors)
    resign(path, tensors)
    with pytest.raises(GramianError, match=message):
        open_bridge(path)


def test_what_is_no_bridge(tmp_path):
    with pytest.raises(GramianError, match="is no bridge"):
        open_bridge(tmp_path)
    (tmp_path / "bridge.json").write_text("[1, 2")
    with pytest.raises(GramianError, match="not valid JSON"):
        open_bridge(tmp_path)
    (tmp_path / "bridge.json").write_text('{"magic": 1, "magic": 2}')
    with pytest.raises(GramianError, match="appears twice"):
        open_bridge(tmp_path)


# Which side rows are of.


def spaces(d=48, n=600, seed=1):
    """Two spaces of one width with the same content, and a third that has nothing to do with it."""
    rng = np.random.default_rng(seed)
    scale = np.exp(-np.arange(d) / 12)

    def space(latent):
        turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
        mean = 0.5 * turn[0]
        return lambda z: (z * scale) @ turn + mean

    latent = rng.standard_normal((2 * n, d))
    return [space(latent)(latent) for _ in range(3)]


def sided(x, y, n, target):
    folds = {"train": JointMoments.from_rows(x[:n], y[:n], target=target)}
    d = x.shape[1]
    return bridge(map=Dense(torch.eye(d)), source=Space("A", d), target=Space("B", d), folds=folds)


@pytest.mark.parametrize("target", ["diagonal", "full"])
@pytest.mark.parametrize("n", [40, 600])
def test_wrong_direction_and_other_models_are_found(target, n):
    a, b, other = spaces()
    saved = sided(a, b, n, target)
    assert saved.check_source(a[600:]).verdict == "source"
    assert saved.check_source(a[600:605]).verdict == "source"
    found = saved.check_source(b[600:])
    assert found.verdict == "target"
    with pytest.raises(GramianError, match="the wrong way round"):
        found.require()
    assert saved.check_source(other[600:]).verdict in ("other", "target")
    assert not saved.check_source(other[600:]).good
    assert saved.check_source(Moments.from_rows(a[600:])).require().good


def test_another_model_of_another_width_than_the_target():
    a, _, other = spaces()
    saved = bridge(
        map=Dense(torch.ones(3, 48)),
        source=Space("A", 48),
        target=Space("B", 3),
        folds={"train": JointMoments.from_rows(a[:600], a[:600, :3])},
    )
    found = saved.check_source(other)
    assert found.verdict == "other"
    assert found.surprise > found.threshold > 1
    assert 0.4 < saved.check_source(a[600:]).surprise < 1.1


def test_the_surprise_is_that_of_a_random_rotation():
    a, b, other = spaces(n=4000)
    saved = sided(a, b, 4000, "full")
    found = saved.check_source(other)
    assert found.surprise == pytest.approx(found.threshold**2, rel=0.25)


def test_vectors_that_a_store_normalised():
    a, b, _ = spaces()
    a = 9 * a
    saved = sided(a, b, 600, "full")
    unit = a / np.linalg.norm(a, axis=1, keepdims=True)
    found = saved.check_source(unit[600:])
    assert found.verdict in ("scaled", "target")
    assert not found.good


def test_a_space_without_directions_cannot_tell():
    rows = np.random.default_rng(3).standard_normal((20000, 4))
    saved = bridge(
        map=Dense(torch.ones(2, 4)),
        source=Space("A", 4),
        target=Space("B", 2),
        folds={"train": JointMoments.from_rows(rows, rows[:, :2])},
    )
    assert saved.check_source(rows[:100]).verdict == "unknown"


def test_spaces_say_what_differs():
    a = Space("a", 3, model="m", revision="1")
    assert a.differs(Space("b", 3)) == ()
    assert a.differs(Space("b", 3, model="n")) == ("model 'n' instead of 'm'",)
    with pytest.raises(GramianError, match="dim is 0"):
        Space("a", 0)
