"""Fewer neurons and heads of SmolLM2-135M, from a few tokens."""

from __future__ import annotations

import pytest

import gramian as gm
from gramian.networks import SelectHeads, SelectNeurons


@pytest.mark.slow
def test_fewer_neurons_and_heads_of_smollm2(tmp_path):
    base = gm.open("bundled:smollm2")
    needs = gm.compress.mlp.needs(base) + gm.compress.heads.needs(base)
    moments = gm.collect(base, gm.documents("bundled:pydocs"), needs, tokens=4096)
    narrow = gm.compress.mlp.plan(base, moments, keep=0.75, select="leverage")
    plain = gm.compress.mlp.plan(base, moments, keep=0.75, select="norm", refit=False)
    fewer = gm.compress.heads.plan(base, moments, keep=6)
    fitted, deleted = (
        sum(layer["error_report"] for layer in plan.evidence["layers"]) for plan in (narrow, plain)
    )
    assert fitted < deleted
    assert narrow.evidence["neurons"] == 1152
    assert narrow.evidence["removed"]["of_model"] == pytest.approx(0.148, abs=1e-3)
    assert fewer.evidence["kv_bytes_per_token_before"] == 46_080
    assert fewer.evidence["kv_bytes_per_token"] == 30_720
    (neurons,), (heads,) = narrow.moves, fewer.moves
    assert isinstance(neurons, SelectNeurons)
    assert isinstance(heads, SelectHeads)
    certificate = gm.apply(base, gm.Plan.of(base, neurons, heads), tmp_path / "out")
    assert certificate.reference_error < 1e-4
    config = gm.open(tmp_path / "out").config
    assert (config.intermediate_size, config.num_attention_heads, config.num_key_value_heads) == (
        1152,
        6,
        2,
    )
