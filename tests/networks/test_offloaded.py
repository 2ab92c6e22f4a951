"""A network whose layers lie elsewhere gives the moments of one that is whole."""

from __future__ import annotations

import pytest
import torch
from accelerate import cpu_offload, disk_offload

from gramian.data import documents
from gramian.errors import GramianError
from gramian.lens import needs as lens_needs
from gramian.moments import FOLDS
from gramian.networks import collect, linears
from gramian.networks import open as open_checkpoint
from gramian.networks.blocks import Blocks
from tests import tiny

SETTINGS = {"tokens": 600, "length": 16, "batch_rows": 96}
MAP = {"model.embed_tokens": "cpu", "model.rotary_emb": "cpu", "model.norm": "cpu"} | {
    "lm_head": "cpu",
    "model.layers.0": "cpu",
    "model.layers.1": "disk",
    "model.layers.2": "disk",
}


@pytest.fixture(scope="module")
def docs():
    return documents(tiny.texts(60))


@pytest.fixture(scope="module")
def collected(checkpoint, docs):
    opened = checkpoint()
    return collect(opened, docs, lens_needs(opened) + linears(opened), **SETTINGS)


@pytest.fixture(params=["device_map", "cpu_offload", "disk_offload"])
def offloaded(checkpoint, request, tmp_path):
    location = checkpoint().source.location
    if request.param == "device_map":
        return open_checkpoint(location, device_map=MAP)
    opened = open_checkpoint(location)
    if request.param == "cpu_offload":
        cpu_offload(opened.model, execution_device=torch.device("cpu"))
    else:
        disk_offload(opened.model, str(tmp_path), execution_device=torch.device("cpu"))
    return opened


def meta_weights(model) -> int:
    return sum(p.device.type == "meta" for p in model.parameters())


@pytest.mark.parametrize("mode", ["stream", "blockwise"])
def test_moments_are_those_of_the_whole_network(offloaded, docs, collected, mode):
    away = meta_weights(offloaded.model)
    assert away >= 2 * 9  # two layers at least
    needs = lens_needs(offloaded) + linears(offloaded)
    found = collect(offloaded, docs, needs, mode=mode, **SETTINGS)
    assert found.recipe == collected.recipe  # the digests of all weights among it
    for fold in FOLDS:
        for site in collected.sites:
            a, b = (m.moments(site, fold, sinks=True) for m in (collected, found))
            assert torch.equal(a.scatter, b.scatter)
        for pair in collected.pairs:
            a, b = (
                m.joint(pair.x, pair.y, fold, sinks=True, increment=pair.increment).cross
                for m in (collected, found)
            )
            assert torch.equal(a, b)
    assert meta_weights(offloaded.model) == away


def test_a_layer_stays_while_it_runs_and_goes_again(offloaded):
    model = offloaded.model
    away = meta_weights(model)
    blocks = Blocks.of(model, offloaded.blueprint, tiny.ids())
    with blocks.resident(1):
        layer = model.get_submodule("model.layers.1")
        assert meta_weights(layer) == 0
        assert meta_weights(model) == away - sum(1 for _ in layer.parameters())
    assert meta_weights(model) == away


def test_device_map_without_accelerate(monkeypatch, checkpoint):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(GramianError, match=r"gramian\[accelerate\]"):
        open_checkpoint(checkpoint().source.location, device_map="auto")
