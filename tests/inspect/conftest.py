"""Moments of a tiny network, with the inputs of its linear layers and a few raw rows."""

from __future__ import annotations

import pytest

from gramian import inspect
from gramian.data import documents
from gramian.networks import collect
from gramian.networks import open as open_checkpoint
from tests import tiny

SETTINGS = {"tokens": 3000, "length": 32, "batch_rows": 256, "precision": "float64"}


@pytest.fixture(scope="session")
def opened(tmp_path_factory):
    return open_checkpoint(tiny.save(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="session")
def docs():
    return documents(tiny.texts(200))


@pytest.fixture(scope="session")
def moments(opened, docs):
    needs = inspect.needs(opened, inputs=True)
    return collect(opened, docs, needs, reservoir=60, **SETTINGS)
