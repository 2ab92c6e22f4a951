"""What matrices read is the norm of the stream that lies on disk, to the bit."""

from __future__ import annotations

import pytest
import torch

from gramian.networks import capture
from gramian.networks.derived import derived_sites
from tests import tiny

BOTH = {
    *("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "gemma2", "gemma3_text"),
    *("gpt_oss", "phi", "phi3", "gpt2", "gpt_neox", "falcon_sequential"),
}
"""Families whose attention and MLP both read a norm of the stream."""


@pytest.mark.parametrize("family", (*tiny.FAMILIES, *tiny.VARIANTS, *tiny.ENCODERS))
def test_derived_rows_are_those_of_the_network(checkpoint, family):
    opened = checkpoint(family)
    model, blueprint = opened.model, opened.blueprint
    every = [f"{layer.index}.{site}" for layer in blueprint.layers for site in layer.taps]
    found = derived_sites(blueprint, {*every, *blueprint.residual_sites()})
    if family in BOTH:
        assert {site.partition(".")[2] for site in found} >= {"attn_in"}
        assert len(found) == 2 * blueprint.depth
    ids = tiny.ids(3, 20)
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[2, 9:] = False
    rows = capture(model, blueprint, [*every, *blueprint.residual_sites()], ids, mask).rows
    for site, derived in found.items():
        assert torch.equal(derived.rows(model, rows), rows[site]), site


def test_only_from_what_is_kept(checkpoint):
    blueprint = checkpoint("llama").blueprint
    found = derived_sites(blueprint, set(blueprint.residual_sites()))
    assert set(found) == {"0.attn_in", "1.attn_in", "2.attn_in"}
    assert found["1.attn_in"].terms == ("1.resid_pre",)
    assert derived_sites(blueprint, set()) == {}
