"""Vectors carried over a bridge: what is written, taken up, and refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from gramian.bridge import Bridge, SavedBridge, Space, open_bridge
from gramian.bridge.across import BatchMap
from gramian.bridge.carrying import carry
from gramian.bridge.provenance import digest, place_of, purpose, without_password
from gramian.bridge.vectors import VectorBatch, open_sink, open_vectors
from gramian.errors import GramianError

D = 12


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def across(bridge, rows):
    """Rows as `carry` writes them."""
    ids = [str(i) for i in range(len(rows))]
    return BatchMap(bridge)(VectorBatch(ids, rows.astype(np.float32))).vectors


@pytest.fixture(scope="module")
def spaces():
    draw = np.random.default_rng(0)
    scale = np.linspace(0.3, 2, D)
    new = draw.standard_normal((3000, D)) * scale + 0.5
    turn = np.linalg.qr(draw.standard_normal((D, D)))[0]
    old = new @ turn + 0.05 * draw.standard_normal((3000, D))
    return unit(new), unit(old)


@pytest.fixture(scope="module")
def bridge(spaces):
    new, old = spaces
    found = Bridge("procrustes", target_moments="full", normalise=True).fit(new, old)
    return SavedBridge(
        found.map_,
        Space("new", D, model="model-b", prefix="query: ", unit_norm=True),
        Space("old", D, model="model-a", revision="7", unit_norm=True),
        "query_to_old",
        "procrustes",
        len(new),
        normalise=True,
        folds=found.folds_,
    )


@pytest.fixture
def source(spaces, tmp_path):
    np.save(tmp_path / "in.npy", spaces[0])
    return open_vectors(str(tmp_path / "in.npy"))


def test_rows_stamp_and_bits(bridge, source, spaces, tmp_path):
    out = str(tmp_path / "out.npy")
    sink = open_sink(out, dim=D, purpose=purpose(bridge, source), like=source)
    done = carry(bridge, source, sink, batch=700)
    written = np.load(out)
    assert (done.rows, done.resumed_from) == (3000, 0)
    np.testing.assert_allclose(written, bridge(spaces[0]).numpy(), atol=1e-6)
    assert (written * spaces[1]).sum(1).mean() > 0.98
    stamp = open_vectors(out).stamp
    assert stamp["model"] == "model-a"
    assert stamp["revision"] == "7"
    assert stamp["bridged_from"] == "model-b"
    assert stamp["bridge"] == digest(bridge)


def test_an_interrupted_run_goes_on(bridge, source, tmp_path):
    class Interrupted(Exception):
        pass

    def stop(done, total):
        if done >= 1400:
            raise Interrupted

    whole, out = str(tmp_path / "whole.npy"), str(tmp_path / "out.npy")
    carry(bridge, source, open_sink(whole, dim=D), batch=700)
    with pytest.raises(Interrupted):
        carry(
            bridge,
            source,
            open_sink(out, dim=D, purpose=purpose(bridge, source)),
            batch=700,
            progress=stop,
        )
    assert not (tmp_path / "out.npy").exists()
    sink = open_sink(out, dim=D, purpose=purpose(bridge, source))
    done = carry(bridge, source, sink, batch=500)
    assert (done.rows, done.resumed_from) == (3000, 1400)
    np.testing.assert_allclose(np.load(out), np.load(whole), atol=1e-6)


def test_another_bridge_does_not_go_on(bridge, source, spaces, tmp_path):
    out = str(tmp_path / "out.npy")
    sink = open_sink(out, dim=D, purpose=purpose(bridge, source))
    sink.write(next(source.batches(10)))
    other = SavedBridge(
        Bridge("ridge", lam=1.0).fit(*spaces).map_,
        bridge.source,
        bridge.target,
        "query_to_old",
        "ridge",
        3000,
    )
    with pytest.raises(GramianError, match="part of another result"):
        open_sink(out, dim=D, purpose=purpose(other, source))


def test_wrong_direction_is_detected(bridge, spaces, tmp_path):
    np.save(tmp_path / "old.npy", spaces[1])
    old = open_vectors(str(tmp_path / "old.npy"))
    with pytest.raises(GramianError, match="direction"):
        carry(bridge, old, open_sink(str(tmp_path / "x.npy"), dim=D))
    assert not (tmp_path / "x.npy").exists()
    carry(bridge, old, open_sink(str(tmp_path / "x.npy"), dim=D), anyway=True)


def test_another_model_by_its_stamp(bridge, source, tmp_path):
    (tmp_path / "in.npy.json").write_text(json.dumps({"model": "model-c"}))
    again = open_vectors(source.address)
    with pytest.raises(GramianError, match="model 'model-c' instead of 'model-b'"):
        carry(bridge, again, open_sink(str(tmp_path / "x.npy"), dim=D))
    (tmp_path / "in.npy.json").write_text(json.dumps({"prefix": "passage: "}))
    again = open_vectors(source.address)
    with pytest.raises(GramianError, match="prefix 'passage: ' instead of 'query: '"):
        carry(bridge, again, open_sink(str(tmp_path / "x.npy"), dim=D))
    carry(bridge, again, open_sink(str(tmp_path / "x.npy"), dim=D), anyway=True)


@pytest.mark.parametrize("value, message", [(np.nan, "NaN"), (0.0, "all zeros")])
def test_the_bad_row_is_named(bridge, spaces, tmp_path, value, message):
    rows = spaces[0].copy()
    rows[2500] = value
    np.save(tmp_path / "in.npy", rows)
    (tmp_path / "in.ids.txt").write_text("".join(f"doc{i}\n" for i in range(3000)))
    source = open_vectors(str(tmp_path / "in.npy"))
    sink = open_sink(str(tmp_path / "x.npy"), dim=D)
    with pytest.raises(GramianError, match=rf"row 2500 \(id 'doc2500'\) .*{message}"):
        carry(bridge, source, sink, batch=400, anyway=True)
    assert sink.done == 2400


def test_other_widths(bridge, tmp_path):
    np.save(tmp_path / "in.npy", np.ones((4, D + 1), np.float32))
    with pytest.raises(GramianError, match="vectors of 13, the bridge takes"):
        carry(
            bridge,
            open_vectors(str(tmp_path / "in.npy")),
            open_sink(str(tmp_path / "x.npy"), dim=D),
        )


class Broken:
    """A store that goes away, or ends, after some rows."""

    dtype = "float32"

    def __init__(self, source, rows, error=None):
        self.address, self.dim, self.count = source.address, source.dim, source.count
        self.stamp, self._source, self._rows, self._error = source.stamp, source, rows, error

    def batches(self, size=4096, start=0):
        for batch in self._source.batches(size, start):
            if batch.start >= self._rows:
                if self._error is not None:
                    raise self._error
                return
            yield batch


@pytest.mark.parametrize("error", [None, GramianError("the store is away")])
def test_a_source_that_stops_half_way_completes_nothing(bridge, source, tmp_path, error):
    out = str(tmp_path / "out.npy")
    sink = open_sink(out, dim=D, purpose=purpose(bridge, source))
    with pytest.raises(GramianError, match="away"):
        carry(bridge, Broken(source, 1500, error), sink, batch=500)
    assert not (tmp_path / "out.npy").exists()
    again = open_sink(out, dim=D, purpose=purpose(bridge, source))
    done = carry(bridge, source, again, batch=500)
    assert done.rows == 3000
    assert 0 < done.resumed_from <= 1500
    np.testing.assert_array_equal(np.load(out), across(bridge, np.load(source.address)))


def test_another_source_under_the_same_name_does_not_go_on(bridge, source, spaces, tmp_path):
    out = str(tmp_path / "out.npy")
    sink = open_sink(out, dim=D, purpose=purpose(bridge, source))
    sink.write(next(source.batches(10)))
    np.save(tmp_path / "in.npy", spaces[0][::-1])
    again = open_vectors(source.address)
    with pytest.raises(GramianError, match="part of another result"):
        open_sink(out, dim=D, purpose=purpose(bridge, again))
    np.save(tmp_path / "in.npy", spaces[0])
    (tmp_path / "link.npy").symlink_to(tmp_path / "in.npy")
    linked = open_vectors(str(tmp_path / "link.npy"))
    assert purpose(bridge, linked) == purpose(bridge, source)
    with pytest.raises(GramianError, match="never written to"):
        open_sink(str(tmp_path / "link.npy"), dim=D, like=source, force=True)


def test_more_rows_there_than_in_the_source(bridge, source):
    class Full:
        done = 4000

    with pytest.raises(GramianError, match=r"4,000 rows are written and .* only 3,000"):
        carry(bridge, source, Full())
    with pytest.raises(GramianError, match="batch is 0"):
        carry(bridge, source, Full(), batch=0)


def test_the_map_of_batches_is_the_bridge(bridge, spaces):
    from gramian.maps import Affine, Dense
    from gramian.maps import Identity as Same

    np.testing.assert_allclose(
        across(bridge, spaces[0]), bridge(spaces[0]).numpy(), rtol=0, atol=1e-6
    )
    half = spaces[0].astype(np.float16)
    np.testing.assert_allclose(across(bridge, half), bridge(half).numpy(), rtol=0, atol=1e-6)
    space = Space("a", D)
    draw = torch.Generator().manual_seed(0)
    weight = torch.randn(D, D, generator=draw, dtype=torch.float64)
    shift = torch.randn(D, generator=draw, dtype=torch.float64)
    # a bias before the last map, and mean = 1e4 x std
    inner = Affine(Same(D), shift)
    for map in (Same(D), Dense(weight), Affine(Dense(weight), shift), Dense(weight) @ inner):
        one = SavedBridge(map, space, space, "query_to_old", "ridge", 9)
        x = (spaces[0][:50] * 1e-4 + 1).astype(np.float32)
        expected = map.to(dtype=torch.float64)(torch.from_numpy(x.astype(np.float64))).numpy()
        np.testing.assert_allclose(across(one, x), expected, rtol=1e-4, atol=1e-4)
    assert len({digest(replace(bridge, map=map)) for map in (Dense(weight), inner)}) == 2
    moved = replace(bridge, map=Dense(weight) @ inner), replace(bridge, map=Dense(weight))
    assert digest(moved[0]) != digest(moved[1])


def test_what_leaves_the_range(spaces):
    from gramian.maps import Dense

    space = Space("a", D)
    eye = torch.eye(D, dtype=torch.float64)
    one = SavedBridge(Dense(eye * 1e6), space, space, "query_to_old", "ridge", 9)
    batch = VectorBatch(["a", "b"], np.eye(2, D, dtype=np.float32), None, 40)
    assert BatchMap(one)(batch).vectors[0, 0] == np.float32(1e6)
    with pytest.raises(GramianError, match=r"row 40 \(id 'a'\) leaves the range of float16"):
        BatchMap(one, dtype="float16")(batch)
    huge = VectorBatch(["a", "b"], np.eye(2, D, dtype=np.float32) * 1e38, None, 40)
    with pytest.raises(GramianError, match=r"leaves the range of float32 .* 1e\+38"):
        BatchMap(one)(huge)
    flat = SavedBridge(Dense(eye * 0), space, space, "query_to_old", "ridge", 9, normalise=True)
    with pytest.raises(GramianError, match="mapped to zero"):
        BatchMap(flat)(batch)


def test_places_are_named_without_passwords(source, tmp_path):
    found = without_password("postgresql://me:secret@host:5432/db?password=secret#t.c")
    assert found == "postgresql://me@host:5432/db#t.c"
    assert without_password("qdrant:https://k:s@h/c#v") == "qdrant:https://k@h/c#v"
    assert place_of(source) == f"npy:{(tmp_path / 'in.npy').resolve()}"


class TestCommand:
    def test_apply(self, bridge, source, spaces, tmp_path, command):
        bridge.save(tmp_path / "bridge")
        out = tmp_path / "out.parquet"
        arguments = ("bridge", "apply", tmp_path / "bridge", source.address, "-o", out)
        planned = command(*arguments, "--dry-run", "--json")
        assert planned.json["rows"] == 3000
        assert planned.json["bytes"] == 3000 * D * 4
        assert planned.json["dimensions"] is None
        assert not out.exists()
        assert not list(tmp_path.glob("*.partial"))
        done = command(*arguments, "--json")
        assert done.code == 0, done.err
        assert set(done.json) == {"path", "rows", "resumed_from", "stamp", "seconds"}
        found = next(open_vectors(str(out)).batches(3000)).vectors
        np.testing.assert_allclose(found, bridge(spaces[0]).numpy(), atol=1e-6)
        again = command(*arguments)
        assert again.code == 2
        assert "exists" in again.err
        assert command(*arguments, "--dry-run").code == 2
        onto = command("bridge", "apply", tmp_path / "bridge", source.address, "-o", source.address)
        assert onto.code == 2
        assert "never written to" in onto.err

    def test_no_bridge(self, source, tmp_path, command):
        done = command("bridge", "apply", tmp_path / "none", source.address, "-o", "x.npy")
        assert done.code == 2
        assert open_bridge is not None


@pytest.fixture
def command(monkeypatch, capsys):
    import sys
    from types import SimpleNamespace

    from gramian.cli import main

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gramian", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "200")
        code = 0
        try:
            main()
        except SystemExit as exit:
            code = int(exit.code or 0)
        out, err = capsys.readouterr()
        document = json.loads(out) if out.startswith("{") else None
        return SimpleNamespace(code=code, out=out, err=err, json=document)

    return run
