"""Vectors carried over a bridge: what is written, taken up, and refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gramian.bridge import Bridge, SavedBridge, Space, open_bridge
from gramian.bridge.carrying import carry, digest, purpose
from gramian.bridge.vectors import open_sink, open_vectors
from gramian.errors import GramianError

D = 12


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


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
    with pytest.raises(GramianError, match=r"vectors of model-c, .* model-b"):
        carry(bridge, again, open_sink(str(tmp_path / "x.npy"), dim=D))


@pytest.mark.parametrize("value, message", [(np.nan, "NaN"), (0.0, "all zeros")])
def test_the_bad_row_is_named(bridge, spaces, tmp_path, value, message):
    rows = spaces[0].copy()
    rows[2500] = value
    np.save(tmp_path / "in.npy", rows)
    (tmp_path / "in.ids.txt").write_text("".join(f"doc{i}\n" for i in range(3000)))
    source = open_vectors(str(tmp_path / "in.npy"))
    sink = open_sink(str(tmp_path / "x.npy"), dim=D)
    with pytest.raises(GramianError, match=rf"'doc2500' \(row 2500\) .*{message}"):
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


class TestCommand:
    def test_apply(self, bridge, source, spaces, tmp_path, command):
        bridge.save(tmp_path / "bridge")
        out = tmp_path / "out.parquet"
        arguments = ("bridge", "apply", tmp_path / "bridge", source.address, "-o", out)
        planned = command(*arguments, "--dry-run", "--json")
        assert planned.json["rows"] == 3000
        assert planned.json["bytes"] == 3000 * D * 4
        assert not out.exists()
        done = command(*arguments, "--json")
        assert done.code == 0, done.err
        assert set(done.json) == {"path", "rows", "resumed_from", "stamp", "seconds"}
        found = next(open_vectors(str(out)).batches(3000)).vectors
        np.testing.assert_allclose(found, bridge(spaces[0]).numpy(), atol=1e-6)
        again = command(*arguments)
        assert again.code == 2
        assert "exists" in again.err
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
