"""Tiny networks, and their moments with every raw row kept."""

from __future__ import annotations

import pytest
import torch

from gramian.compress import depth
from gramian.data import documents
from gramian.networks import collect
from gramian.networks import open as open_checkpoint
from tests import tiny

SETTINGS = {"tokens": 4000, "length": 32, "batch_rows": 256, "precision": "float64"}
LAYERS = 6


def opened(tmp_path, family="llama", change=None, **shape):
    """A tiny checkpoint with six blocks; ``change`` may rewrite its model first."""
    key = "n_layer" if family == "gpt2" else "num_hidden_layers"
    model = tiny.model(family, **{key: LAYERS, **shape})
    if change is not None:
        with torch.no_grad():
            change(model)
    model.save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    # The folder of a Qwen2 network opens with a tokenizer class that lacks these words.
    checkpoint.__dict__["tokenizer"] = tiny.tokenizer()
    return checkpoint


def moments_of(checkpoint, **changes):
    settings = {**SETTINGS, **changes}
    longest = settings.pop("max_remove", LAYERS - 1)
    linearity = settings.pop("linearity", True)
    needs = depth.needs(checkpoint, max_remove=longest, linearity=linearity)
    return collect(checkpoint, documents(tiny.texts(300)), needs, **settings)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    return opened(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="session")
def moments(checkpoint):
    return moments_of(checkpoint, reservoir=4000)
