"""gramian bridge export: documented keys and refusals."""

from __future__ import annotations

import pytest
import torch

from gramian.bridge import SavedBridge, Space
from gramian.maps import Dense


@pytest.fixture
def folder(tmp_path):
    weight = torch.eye(4, 6, dtype=torch.float64)
    one = SavedBridge(Dense(weight), Space("new", 6), Space("old", 4), "query_to_old", "ridge", 9)
    return one.save(tmp_path / "bridge")


def test_export(gramian, folder, tmp_path):
    out = tmp_path / "out"
    done = gramian("bridge", "export", folder, "--to", "torch", "-o", out, "--json")
    assert done.code == 0, done.err
    assert done.json == {
        "path": str(out),
        "to": "torch",
        "files": ["README.md", "linear.safetensors"],
        "dim_from": 6,
        "dim_to": 4,
        "direction": "query_to_old",
        "bytes": sum((out / name).stat().st_size for name in done.json["files"]),
    }
    again = gramian("bridge", "export", folder, "--to", "torch", "-o", out)
    assert again.code == 2
    assert "exists" in again.err
    assert gramian("bridge", "export", folder, "--to", "torch", "-o", out, "--force").code == 0


def test_unknown_library(gramian, folder, tmp_path):
    done = gramian("bridge", "export", folder, "--to", "keras", "-o", tmp_path / "out")
    assert done.code == 2
    assert "sentence-transformers, onnx, faiss, torch" in done.err
