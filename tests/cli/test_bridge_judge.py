"""gramian bridge judge: documented JSON, every way to name queries and items, refusals."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pytest
import torch

from gramian.bridge import SavedBridge, Space
from gramian.bridge.judging import SYSTEMS, ScoreCalibration
from gramian.maps import Dense
from gramian.moments import JointMoments

OLD, NEW, WORDS = 12, 16, 60


class Bag:
    """Embeds texts of numbered words: the sum of the vectors of its words."""

    revision, unit_norm, truncated = None, False, 0

    def __init__(self, name: str, dim: int, blur: float = 0.0) -> None:
        self.name, self.dim = name, dim
        random = np.random.default_rng(7)
        table = random.standard_normal((WORDS, NEW))
        turn = np.linalg.qr(random.standard_normal((NEW, NEW)))[0][:, :dim]
        self.table = table @ turn if name == "old" else table
        self.fingerprint = f"weights of {name}"
        self.seen: list[str] = []

    def __call__(self, texts, *, prefix="", progress=None):
        self.seen += [prefix + text for text in texts]
        rows = [self.table[[int(word) for word in text.split()]].sum(0) for text in texts]
        return np.asarray(rows, np.float32)


def sentences(count: int, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(map(str, random.integers(0, WORDS, 6))) for _ in range(count)]


@pytest.fixture
def models(monkeypatch):
    found = {"old": Bag("old", OLD), "new": Bag("new", NEW)}
    module = importlib.import_module("gramian.cli.bridge.judge_sources")
    monkeypatch.setattr(module, "open_embedder", lambda name, **_: found[name])
    return found


@pytest.fixture
def place(tmp_path, models):
    """Documents as vectors and as texts, queries, judgements, and a bridge between the models."""
    docs, asked = sentences(400, 1), sentences(30, 2)
    old, new = models["old"](docs), models["new"](docs)
    w = np.linalg.lstsq(new, old, rcond=None)[0].T.copy()
    joint = JointMoments.from_rows(torch.tensor(new).double(), torch.tensor(old).double())
    SavedBridge(
        Dense(torch.from_numpy(w).double()),
        Space("new", NEW, "new", fingerprint="weights of new", prefix="n: "),
        Space(str(tmp_path / "old.npy"), OLD, "old", fingerprint="weights of old", prefix="o: "),
        "query_to_old",
        "ridge",
        400,
        folds={"train": joint},
    ).save(tmp_path / "bridge")
    np.save(tmp_path / "old.npy", old)
    np.save(tmp_path / "new.npy", new)
    np.save(tmp_path / "q_old.npy", models["old"](asked))
    np.save(tmp_path / "q_new.npy", models["new"](asked))
    ids = [str(i) for i in range(400)]
    with (tmp_path / "docs.jsonl").open("w") as file:
        for name, text, row in zip(ids, docs, old, strict=True):
            file.write(json.dumps({"id": name, "text": text, "vector": row.tolist()}) + "\n")
    (tmp_path / "docs.tsv").write_text(
        "".join(f"{i}\t{t}\n" for i, t in zip(ids, docs, strict=True))
    )
    (tmp_path / "q.tsv").write_text("".join(f"{i}\t{t}\n" for i, t in enumerate(asked)))
    best = np.argmax(models["new"](asked) @ new.T, axis=1)
    (tmp_path / "qrels").write_text("".join(f"{i} 0 {b} 1\n" for i, b in enumerate(best)))
    for model in models.values():
        model.seen.clear()
    return tmp_path


FAST = ("--bootstrap", 50, "--candidates", 20)


def test_texts_and_judgements(gramian, place, models):
    document = gramian(
        *("bridge", "judge", place / "bridge", "--queries", place / "q.tsv", *FAST),
        *("--relevance", place / "qrels", "--corpus", place / "docs.jsonl", "--json"),
    ).json
    assert {"k", *SYSTEMS, "verdict", "reason"} <= set(document)
    assert document["measure"] == "ndcg"
    assert document["swap"] is None
    assert document["items"] == 400
    assert set(document["bridge"]) == {"recall", "ndcg", "mrr", "overlap"}
    assert document["reindex"]["overlap"]["value"] == 1
    # recorded prompts stand before queries and documents; stored vectors are not embedded again
    assert all(text.startswith("n: ") for text in models["new"].seen)
    assert len(models["old"].seen) == 30
    assert len(models["new"].seen) == 430


def test_prefixes_of_queries(gramian, place, models):
    done = gramian(
        *("bridge", "judge", place / "bridge", "--queries", place / "q.tsv", *FAST),
        *("--corpus", place / "docs.jsonl", "--sample", 50, "--new-query-prefix", "query: "),
        *("--new-prefix", "", "--old-query-prefix", ""),
    )
    assert done.code == 0, done.err
    assert sum(text.startswith("query: ") for text in models["new"].seen) == 30
    assert not any(text.startswith(("n: ", "o: ")) for m in models.values() for text in m.seen)
    assert "50 of 400 items" in done.out
    assert "no judgements" in done.err


def test_vectors_alone_are_the_same_as_texts(gramian, place):
    head = ("bridge", "judge", place / "bridge", *FAST, "--json")
    vectors = gramian(
        *(*head, "--old-queries", place / "q_old.npy", "--new-queries", place / "q_new.npy"),
        *("--new-corpus", place / "new.npy"),
    ).json
    texts = gramian(*head, "--queries", place / "q.tsv", "--corpus", place / "docs.tsv").json
    for name in SYSTEMS:
        assert vectors[name] == texts[name]


def test_sample_holds_what_is_relevant(gramian, place):
    document = gramian(
        *("bridge", "judge", place / "bridge", "--queries", place / "q.tsv", *FAST, "--json"),
        *("--relevance", place / "qrels", "--corpus", place / "docs.jsonl", "--sample", 60),
    ).json
    assert (document["items"], document["corpus"], document["queries"]) == (60, 400, 30)
    assert document["reindex"]["recall"]["value"] == pytest.approx(1.0, abs=0.2)
    assert not any("relevant items are not" in warning for warning in document["warnings"])


def test_candidates_alone_are_embedded(gramian, place, models):
    document = gramian(
        *("bridge", "judge", place / "bridge", "--queries", place / "q.tsv", *FAST, "--json"),
        *("--relevance", place / "qrels", "--corpus", place / "docs.jsonl", "--no-reindex"),
    ).json
    assert document["reindex"] is None
    assert document["two_stage"]["ndcg"]["value"] > 0
    assert len(models["new"].seen) < 400


def test_plot_and_calibration(gramian, place):
    page, table = place / "page.html", place / "scores.json"
    command = (
        *("bridge", "judge", place / "bridge", "--queries", place / "q.tsv", *FAST),
        *("--relevance", place / "qrels", "--corpus", place / "docs.jsonl"),
        *("--plot", page, "--calibration", table, "--csls", 5),
    )
    done = gramian(*command)
    assert done.code == 0, done.err
    assert "KS distance" in done.out
    assert "csls" in done.out
    assert "Verdict: " in page.read_text()
    assert len(ScoreCalibration.load(table).old) > 1
    again = gramian(*command)
    assert again.code == 2
    assert "exists" in again.err


def test_wrong_direction_is_said(gramian, place):
    """A bridge the other way round between spaces of one width."""
    random = np.random.default_rng(0)
    x = random.standard_normal((400, NEW)) * np.linspace(3, 0.2, NEW) + 2
    y = np.roll(x, 5, axis=1) - 4
    joint = JointMoments.from_rows(torch.tensor(x), torch.tensor(y))
    space = (Space("a", NEW), Space("b", NEW))
    eye = Dense(torch.eye(NEW).double())
    saved = SavedBridge(eye, *space, "query_to_old", "ridge", 400, folds={"train": joint})
    saved.save(place / "other")
    np.save(place / "x.npy", x)
    np.save(place / "y.npy", y)
    done = gramian(
        *("bridge", "judge", place / "other", "--new-queries", place / "y.npy"),
        *("--corpus", place / "x.npy", "--new-corpus", place / "y.npy"),
    )
    assert done.code == 2
    assert "the wrong way round" in done.err


def test_another_model_is_said(gramian, place, models):
    models["new"].fingerprint = "weights of a third"
    done = gramian("bridge", "judge", place / "bridge", "--queries", place / "q.tsv")
    assert done.code == 2
    assert "other weights" in done.err


@pytest.mark.parametrize(
    "options, message",
    [
        ((), "no vectors of the queries by the new model"),
        (("--queries", "none.tsv"), "no file none.tsv"),
        (("--new-queries", "old.npy"), "12 wide and"),
        (("--queries", "q.tsv", "--corpus", "new.npy"), "16 wide and"),
        (("--queries", "q.tsv", "--corpus", "docs.pdf"), "no address of vectors"),
        (("--queries", "q.tsv", "--relevance", "q.tsv"), "line 1"),
        (("--queries", "q.tsv", "--relevance", "none"), "No such file"),
        (("--queries", "q.tsv", "--texts", "q.tsv"), "items have no text"),
        (("--queries", "q.tsv", "--corpus", "old.npy"), "neither judgements nor vectors"),
        (("--queries", "q.tsv", "--sample", "-1"), "a sample of -1"),
    ],
)
def test_refusals(gramian, place, monkeypatch, options, message):
    monkeypatch.chdir(place)
    done = gramian("bridge", "judge", "bridge", *options)
    assert done.code == 2
    assert message in done.err


def test_index_that_is_gone(gramian, place):
    (place / "old.npy").unlink()
    done = gramian("bridge", "judge", place / "bridge", "--queries", place / "q.tsv")
    assert done.code == 2
    assert "give the index with --corpus" in done.err


def test_no_bridge(gramian, tmp_path):
    done = gramian("bridge", "judge", tmp_path, "--queries", "q.tsv")
    assert done.code == 2


@pytest.mark.slow
def test_real_models(gramian, tmp_path):
    """MiniLM queries in an index of static WordLlama vectors, fitted and judged by commands."""
    import gramian as gm

    texts = []
    for document in gm.documents("bundled:pydocs"):
        texts += [part.strip() for part in document.text.split("\n\n") if len(part.strip()) > 80]
        if len(texts) > 1500:
            break
    texts = [" ".join(text.split())[:300] for text in dict.fromkeys(texts)][:1200]
    docs = tmp_path / "docs.tsv"
    docs.write_text("".join(f"d{i}\t{text}\n" for i, text in enumerate(texts)))
    asked = tmp_path / "q.tsv"
    asked.write_text("".join(f"q{i}\t{text[:60]}\n" for i, text in enumerate(texts[:60])))
    judged = tmp_path / "qrels"
    judged.write_text("".join(f"q{i} 0 d{i} 1\n" for i in range(60)))
    models = ("bundled:wordllama", "bundled:minilm")
    done = gramian("bridge", "fit", *models, "--texts", docs, "-o", tmp_path / "bridge")
    assert done.code == 0, done.err
    document = gramian(
        *("bridge", "judge", tmp_path / "bridge", "--queries", asked, "--relevance", judged),
        *("--corpus", docs, "--candidates", 100, "--json"),
    ).json
    ndcg = {name: document[name]["ndcg"]["value"] for name in SYSTEMS if document[name]}
    assert ndcg["reindex"] > 0.8
    assert ndcg["two_stage"] > ndcg["bridge"]
    assert document["swap"] is None


def test_index_in_lancedb(gramian, place):
    lancedb = pytest.importorskip("lancedb")
    records = [json.loads(line) for line in (place / "docs.jsonl").read_text().splitlines()]
    lancedb.connect(place / "store").create_table("docs", records)
    head = ("bridge", "judge", place / "bridge", "--queries", place / "q.tsv", *FAST, "--json")
    stored = gramian(*head, "--corpus", f"lancedb:{place}/store/docs", "--text-field", "text")
    assert stored.code == 0, stored.err
    assert stored.json == gramian(*head, "--corpus", place / "docs.jsonl").json
