"""gramian bridge sample and fit: documented keys, mixtures of sides, refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gramian.bridge import open_bridge
from gramian.bridge.vectors import VectorBatch, open_sink

KEYS = {
    *("method", "direction", "pairs", "dim_from", "dim_to", "r2_report", "r2_spread"),
    *("cosine_report", "bound", "seconds", "retrieval_report", "lam", "candidates", "dropped"),
    *("drift", "suspects", "warnings", "path"),
}
SENTENCES = [
    f"{who} {does} {what}."
    for who in ("A file", "The server", "This function", "An iterator", "The parser", "A thread")
    for does in ("returns", "opens", "reads", "closes", "raises", "waits for")
    for what in ("a byte string", "the socket", "an error", "its argument", "the lock", "a list")
]


@pytest.fixture
def vectors(tmp_path):
    draw = np.random.default_rng(0)
    old = draw.standard_normal((600, 12)).astype(np.float32)
    turn = np.linalg.qr(draw.standard_normal((12, 12)))[0]
    new = (old @ turn + 0.05 * draw.standard_normal((600, 12))).astype(np.float32)
    np.save(tmp_path / "old.npy", old / np.linalg.norm(old, axis=1, keepdims=True))
    np.save(tmp_path / "new.npy", new / np.linalg.norm(new, axis=1, keepdims=True))
    return tmp_path


def test_fit_on_two_files(gramian, vectors):
    old, new, out = (vectors / name for name in ("old.npy", "new.npy", "bridge"))
    done = gramian("bridge", "fit", old, new, "-o", out, "--index", old, "--json")
    assert done.code == 0, done.err
    assert set(done.json) == KEYS
    assert done.json["direction"] == "query_to_old"
    assert done.json["pairs"] == 600
    assert done.json["r2_report"] > 0.9
    assert not done.json["drift"]["drifted"]
    bridge = open_bridge(out)
    mapped = bridge(np.load(new)).numpy()
    np.testing.assert_allclose(np.linalg.norm(mapped, axis=1), 1.0, rtol=1e-5)
    assert (mapped * np.load(old)).sum(1).mean() > 0.95
    assert gramian("bridge", "fit", old, new, "-o", out).code == 2
    done = gramian(
        "bridge",
        "fit",
        old,
        new,
        "-o",
        out,
        "--force",
        "--direction",
        "old_to_new",
        "--method",
        "rotation",
    )
    assert done.code == 0, done.err
    assert "rotation, 12 -> 12, old_to_new, 600 pairs" in done.out
    assert open_bridge(out).source.name == str(old)


def test_sample_a_store_and_embed_it_anew(gramian, tmp_path):
    from gramian.bridge.embedders import open_embedder

    ids = [f"s{i}" for i in range(len(SENTENCES))]
    store = f"lancedb:{tmp_path}/store/docs"
    sink = open_sink(store, dim=256)
    sink.write(VectorBatch(ids, open_embedder("bundled:wordllama")(SENTENCES), SENTENCES))
    sink.finish({"model": "bundled:wordllama"})
    pairs = tmp_path / "pairs.jsonl"
    done = gramian("bridge", "sample", store, "-n", 150, "-o", pairs, "--json")
    assert done.code == 0, done.err
    assert done.json == {"path": str(pairs), "rows": 150, "dim": 256, "of": len(SENTENCES)}
    record = json.loads(pairs.read_text().splitlines()[0])
    assert set(record) == {"id", "text", "vector"}
    done = gramian(
        "bridge", "fit", pairs, "bundled:minilm", "-o", tmp_path / "b", "--index", store, "--json"
    )
    assert done.code == 0, done.err
    assert (done.json["dim_from"], done.json["dim_to"], done.json["pairs"]) == (384, 256, 150)
    assert any("at least 768 are better" in warning for warning in done.json["warnings"])
    bridge = open_bridge(tmp_path / "b")
    assert (bridge.source.model, bridge.target.model) == ("bundled:minilm", "bundled:wordllama")
    assert bridge.source.unit_norm
    assert not bridge.target.unit_norm


def test_curve(gramian, vectors):
    old, new, out = (vectors / name for name in ("old.npy", "new.npy", "bridge"))
    done = gramian(
        "bridge", "fit", old, new, "-o", out, "--method", "procrustes", "--curve", "--json"
    )
    assert done.code == 0, done.err
    sizes = [record["pairs"] for record in done.json["curve"]["records"]]
    assert len(sizes) > 2
    assert sizes == sorted(sizes)


def test_refusals(gramian, vectors, tmp_path):
    old, new, out = vectors / "old.npy", vectors / "new.npy", tmp_path / "bridge"
    for arguments, message in (
        ((old, "bundled:minilm"), "give the texts to embed with --texts"),
        ((old, tmp_path / "away.npy"), "no file"),
        ((old, new, "--direction", "up"), "direction is 'up'"),
        ((old, new, "--method", "magic"), "magic"),
        ((old, new, "--trim", "--curve"), "give one"),
    ):
        done = gramian("bridge", "fit", *arguments, "-o", out)
        assert done.code == 2, arguments
        assert message in done.err, done.err
        assert not out.exists()
