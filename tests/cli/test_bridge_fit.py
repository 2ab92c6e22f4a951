"""gramian bridge sample and fit: documented keys, mixtures of sides, refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gramian.bridge import open_bridge
from gramian.bridge.vectors import VectorBatch, open_sink
from tests.bridge.unpaired.clouds import clustered

KEYS = {
    *("method", "direction", "pairs", "dim_from", "dim_to", "r2_report", "r2_spread"),
    *("cosine_report", "bound", "seconds", "retrieval_report", "lam", "candidates", "dropped"),
    *("drift", "suspects", "warnings", "path", "query_pairs", "judged_on", "weighted"),
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
    assert done.json == {
        "path": str(pairs),
        "rows": 150,
        "dim": 256,
        "of": len(SENTENCES),
        "textless": 0,
        "strategy": "random",
    }
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
    page = vectors / "page.html"
    done = gramian("bridge", "fit", old, new, "-o", out, "--curve", "--plot", page, "--json")
    assert done.code == 0, done.err
    assert "How many pairs are enough" in page.read_text()
    assert "What was tried" in page.read_text()
    sizes = [record["pairs"] for record in done.json["curve"]["records"]]
    assert len(sizes) > 2
    assert sizes == sorted(sizes)


def test_part_of_an_index(gramian, vectors):
    """Pairs from one corner of the old vectors are compared with all of them, unasked."""
    old, new = np.load(vectors / "old.npy"), np.load(vectors / "new.npy")
    (vectors / "old.ids.txt").write_text("\n".join(f"d{i}" for i in range(600)) + "\n")
    for name, rows, drifted in (
        ("corner", np.argsort(old[:, 0])[:150], True),
        ("any", np.arange(150), False),
    ):
        np.save(vectors / f"{name}.npy", new[rows])
        (vectors / f"{name}.ids.txt").write_text("\n".join(f"d{i}" for i in rows) + "\n")
        done = gramian(
            *("bridge", "fit", vectors / "old.npy", vectors / f"{name}.npy"),
            *("-o", vectors / f"b-{name}", "--json"),
        )
        assert done.code == 0, done.err
        assert (done.json["pairs"], done.json["dropped"]["target"]) == (150, 450)
        assert done.json["drift"]["drifted"] == drifted
        assert any("sample the pairs from the index" in w for w in done.json["warnings"]) == drifted


def test_what_the_vectors_do_not_say(gramian, vectors):
    old, new, out = (vectors / name for name in ("old.npy", "new.npy", "bridge"))
    (vectors / "new.npy.json").write_text('{"model": "theirs"}')
    done = gramian(
        *("bridge", "fit", old, new, "-o", out, "--json", "--old-model", "bundled:wordllama"),
        *("--new-model", "mine", "--new-prefix", "passage: ", "--pairs", 400, "--no-moments"),
    )
    assert done.code == 0, done.err
    bridge = open_bridge(out)
    assert (bridge.source.model, bridge.target.model) == ("theirs", "bundled:wordllama")
    assert (bridge.source.prefix, bridge.target.prefix) == ("passage: ", "")
    assert (bridge.pairs, dict(bridge.folds)) == (400, {})
    assert any("'theirs', which was kept instead of 'mine'" in w for w in done.json["warnings"])


def test_queries(gramian, vectors, tmp_path):
    """The map of queries is another one than that of documents; the figures are of queries."""
    draw = np.random.default_rng(1)
    turn = np.linalg.qr(draw.standard_normal((12, 12)))[0]
    asked = draw.standard_normal((160, 12))
    asked /= np.linalg.norm(asked, axis=1, keepdims=True)
    records = [
        {"id": f"q{i}", "old": a.tolist(), "new": (a @ turn).tolist()} for i, a in enumerate(asked)
    ]
    path = tmp_path / "queries.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    old, new = vectors / "old.npy", vectors / "new.npy"
    plain = gramian("bridge", "fit", old, new, "-o", tmp_path / "a", "--json").json
    done = gramian("bridge", "fit", old, new, "-o", tmp_path / "b", "--query-pairs", path, "--json")
    assert done.code == 0, done.err
    assert (plain["judged_on"], done.json["judged_on"]) == ("pairs", "queries")
    assert (done.json["pairs"], done.json["query_pairs"]) == (600, 160)
    assert done.json["r2_report"] < plain["r2_report"] - 0.3
    assert any("160 pairs of queries" in warning for warning in done.json["warnings"])
    folds = open_bridge(tmp_path / "b").folds
    assert sum(joint.count for joint in folds.values()) == 760
    assert folds["select"].count + folds["report"].count < 160


def test_queries_as_texts(gramian, tmp_path):
    (tmp_path / "t.txt").write_text("\n".join(SENTENCES))
    (tmp_path / "q.txt").write_text("\n".join(s.lower().rstrip(".") for s in SENTENCES[:90]))
    done = gramian(
        *("bridge", "fit", "bundled:wordllama", "bundled:wordllama", "-o", tmp_path / "b"),
        *("--texts", tmp_path / "t.txt", "--query-pairs", tmp_path / "q.txt"),
        *("--new-query-prefix", "query: ", "--json"),
    )
    assert done.code == 0, done.err
    assert (done.json["pairs"], done.json["query_pairs"]) == (len(SENTENCES), 90)
    np.save(tmp_path / "old.npy", np.ones((len(SENTENCES), 3)))
    done = gramian(
        *("bridge", "fit", tmp_path / "old.npy", "bundled:wordllama", "-o", tmp_path / "c"),
        *("--texts", tmp_path / "t.txt", "--query-pairs", tmp_path / "q.txt"),
    )
    assert done.code == 2
    assert "give --old-model" in done.err


def test_a_telling_sample_is_weighted(gramian, tmp_path):
    """A sample that prefers rare rows does not count as drift, and leads to the map of all."""
    draw = np.random.default_rng(0)
    old = draw.standard_normal((3000, 16)) * np.linspace(0.1, 2, 16)
    old[:60] *= 6
    new = old @ draw.standard_normal((16, 16))
    new += 0.4 * np.square(old) @ draw.standard_normal((16, 16))  # no linear map fits all rows
    np.save(tmp_path / "old.npy", old.astype(np.float32))
    store, pairs = tmp_path / "old.npy", tmp_path / "pairs.jsonl"
    done = gramian(
        *("bridge", "sample", store, "-n", 600, "-o", pairs, "--no-texts", "--json"),
        *("--strategy", "telling"),
    )
    assert done.code == 0, done.err
    ids = [json.loads(line)["id"] for line in pairs.read_text().splitlines()]
    assert {str(i) for i in range(60)} <= set(ids)
    np.save(tmp_path / "new.npy", new[[int(id) for id in ids]].astype(np.float32))
    (tmp_path / "new.ids.txt").write_text("\n".join(ids) + "\n")
    fit = ("bridge", "fit", pairs, tmp_path / "new.npy", "--index", store, "--json")
    options = ("--direction", "old_to_new", "--method", "ridge", "--lam", "1e-9")
    done = gramian(*fit, *options, "-o", tmp_path / "b")
    assert done.code == 0, done.err
    assert done.json["weighted"]
    assert not done.json["drift"]["drifted"]
    (tmp_path / "pairs.jsonl.json").write_text("{}")
    unweighted = gramian(*fit, *options, "-o", tmp_path / "c")
    assert unweighted.json["drift"]["drifted"]
    whole = np.linalg.lstsq(np.c_[old, np.ones(3000)], new, rcond=None)[0][:-1].T
    error = [
        np.linalg.norm(open_bridge(tmp_path / name).map.to_dense().numpy() - whole) for name in "bc"
    ]
    assert error[0] < 0.7 * error[1]


def test_an_endpoint_goes_on_and_leaves_no_folder(gramian, vectors, monkeypatch):
    """Answers are kept beside the bridge until it is there."""
    import gramian.cli.bridge.sides as sides

    seen = []

    class Model:
        name, dim, revision, fingerprint, unit_norm, truncated = "m", 12, None, None, False, 7

        def __init__(self, cache):
            cache.mkdir(exist_ok=True)
            (cache / "answer").touch()
            seen.append(cache)

        def __call__(self, texts, *, prefix="", progress=None):
            return np.load(vectors / "new.npy")[: len(texts)]

    monkeypatch.setattr(sides, "open_embedder", lambda name, cache, **_: Model(cache))
    (vectors / "t.txt").write_text("\n".join(f"text {i}" for i in range(600)))
    fit = ("bridge", "fit", vectors / "old.npy", "openai:m", "--texts", vectors / "t.txt")
    done = gramian(*fit, "-o", vectors / "b", "--method", "magic")
    assert done.code == 2
    assert (vectors / ".b.answers" / "answer").is_file()
    done = gramian(*fit, "-o", vectors / "b", "--json")
    assert done.code == 0, done.err
    assert any("7 texts are longer than m reads" in warning for warning in done.json["warnings"])
    assert seen == 2 * [vectors / ".b.answers"]
    assert not seen[0].exists()
    gramian(*fit, "-o", vectors / "c", "--cache", vectors / "kept")
    assert (vectors / "kept" / "answer").is_file()


def test_refusals(gramian, vectors, tmp_path):
    old, new, out = vectors / "old.npy", vectors / "new.npy", tmp_path / "bridge"
    for arguments, message in (
        ((old, "bundled:minilm"), "give the texts to embed with --texts"),
        ((old, tmp_path / "away.npy"), "no file"),
        ((old, new, "--direction", "up"), "direction is 'up'"),
        ((old, new, "--method", "magic"), "magic"),
        ((old, new, "--trim", "--curve"), "give one"),
        ((old, new, "--unpaired", "--trim", "--lam", "1"), "which --lam, --trim is for"),
        ((old, "bundled:minilm", "--new-model", "x"), "NEW is the model bundled:minilm"),
        ((old, new, "--pairs", "0"), "0 pairs were asked for"),
    ):
        done = gramian("bridge", "fit", *arguments, "-o", out)
        assert done.code == 2, arguments
        assert message in done.err, done.err
        assert not out.exists()


def test_unpaired(gramian, tmp_path):
    """Two halves of one clustered cloud, one of them turned."""
    rows = clustered(4000, 24)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((24, 24)))[0]
    np.save(tmp_path / "old.npy", rows[:2000].astype(np.float32))
    np.save(tmp_path / "new.npy", (rows[2000:] @ turn).astype(np.float32))
    page = tmp_path / "page.html"
    done = gramian(
        *("bridge", "fit", tmp_path / "old.npy", tmp_path / "new.npy", "--unpaired"),
        *("-o", tmp_path / "b", "--json", "--plot", page),
    )
    assert done.code == 0, done.err
    assert (done.json["method"], done.json["pairs"]) == ("unpaired", 0)
    assert done.json["rows"] == {"source": 2000, "target": 2000}
    assert 0.6 <= done.json["confidence"] <= 1
    assert "Bridge without pairs" in page.read_text()
    bridge = open_bridge(tmp_path / "b")
    assert not bridge.paired
    back = bridge((rows[:50] @ turn).astype(np.float32)).numpy()
    cosine = (back * rows[:50]).sum(1) / np.linalg.norm(back, axis=1)
    assert np.median(cosine / np.linalg.norm(rows[:50], axis=1)) > 0.95
    shown = gramian(
        *("bridge", "fit", tmp_path / "old.npy", tmp_path / "new.npy", "--unpaired"),
        *("--pairs", "1500", "-o", tmp_path / "c"),
    )
    assert "confidence" in shown.out
    shuffled = np.random.default_rng(1).standard_normal((2000, 24)).astype(np.float32)
    np.save(tmp_path / "noise.npy", shuffled)
    refused = gramian(
        *("bridge", "fit", tmp_path / "old.npy", tmp_path / "noise.npy", "--unpaired"),
        *("-o", tmp_path / "d"),
    )
    assert refused.code == 2
    assert "cannot be matched without pairs" in refused.err
    assert not (tmp_path / "d").exists()
