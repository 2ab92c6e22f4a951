"""A tiny network, its moments, and text that was not collected."""

from __future__ import annotations

import pytest
import torch

from gramian import lens
from gramian.data import documents
from gramian.networks import collect
from gramian.networks import open as open_checkpoint
from tests import tiny

SETTINGS = {"tokens": 6000, "length": 32, "batch_rows": 256, "precision": "float64"}


@pytest.fixture(scope="session")
def opened(tmp_path_factory):
    return open_checkpoint(tiny.save(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="session")
def docs():
    return documents(tiny.texts(400))


@pytest.fixture(scope="session")
def moments(opened, docs):
    return collect(opened, docs, lens.needs(opened), **SETTINGS)


@pytest.fixture(scope="session")
def still(tmp_path_factory):
    """A network whose layers add nothing: every residual site holds the same rows."""
    folder = tmp_path_factory.mktemp("still")
    model = tiny.model("llama")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                parameter.zero_()
    model.save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    return open_checkpoint(folder)
