"""Layers run one by one do what they do together, to the bit."""

from __future__ import annotations

import pytest
import torch

from gramian.errors import GramianError
from gramian.networks import Need, capture
from gramian.networks.blocks import Blocks
from gramian.networks.carry import carries
from tests import tiny


def possible(opened) -> bool:
    return carries(opened, [Need("0.resid_pre")], 100, None)[0] is not None


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_rows_are_those_of_the_whole_network(checkpoint, family):
    opened = checkpoint(family)
    if not possible(opened):
        assert len(opened.blueprint.towers) > 1
        return
    model, blueprint = opened.model, opened.blueprint
    ids = tiny.ids(3, 20)
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[2, 9:] = False
    inside = {
        layer.index: [f"{layer.index}.{site}" for site in layer.taps] for layer in blueprint.layers
    }
    sites = [site for found in inside.values() for site in found]
    whole = capture(model, blueprint, [*sites, "embed", "final"], ids, mask).rows
    blocks = Blocks.of(model, blueprint, ids)
    rows, state = blocks.start(ids, mask, ["embed"])
    assert torch.equal(rows["embed"], whole["embed"])
    for layer in blueprint.layers:
        assert torch.equal(state, whole[f"{layer.index}.resid_pre"])
        with blocks.resident(layer.index):
            rows, state = blocks.run(layer.index, state, mask, inside[layer.index])
        for site in inside[layer.index]:
            assert torch.equal(rows[site], whole[site]), site
    assert torch.equal(state, whole["final"])
    again = capture(model, blueprint, ["final"], ids, mask).rows["final"]
    assert torch.equal(again, whole["final"])  # the network is as it was


def test_layers_that_share_more_than_hidden_states_are_refused(checkpoint):
    opened = checkpoint()
    first, last = (opened.model.get_submodule(f"model.layers.{i}") for i in (0, 2))
    seen = []
    first.register_forward_hook(lambda _module, _args, out: seen.append(out))
    last.register_forward_hook(lambda _module, _args, out: out + seen[-1].mean())
    with pytest.raises(GramianError, match=r"cannot be run one by one.*mode='windows'"):
        Blocks.of(opened.model, opened.blueprint, tiny.ids())
