"""Every blueprint finds the parts of its family, and the residual stream adds up."""

from __future__ import annotations

import pytest
import torch

from gramian.errors import GramianError
from gramian.networks import capture
from gramian.networks import open as open_checkpoint
from tests import tiny


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_the_residual_stream_adds_up(checkpoint, family):
    opened = checkpoint(family)
    sites = ["0.resid_pre", "0.attn_out", "0.resid_mid", "0.mlp_out", "0.resid_post", "final"]
    rows = capture(opened.model, opened.blueprint, sites, tiny.ids()).rows
    mid = rows["0.resid_pre"] + rows["0.attn_out"]
    torch.testing.assert_close(mid, rows["0.resid_mid"])
    torch.testing.assert_close(mid + rows["0.mlp_out"], rows["1.resid_pre"])
    # hidden_states[0] of transformers is what enters the first layer.
    with torch.no_grad():
        hidden = opened.model(tiny.ids(), output_hidden_states=True).hidden_states
    torch.testing.assert_close(hidden[0], rows["0.resid_pre"])
    torch.testing.assert_close(hidden[1], rows["1.resid_pre"])


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_readers_and_writers_compute_what_the_taps_see(checkpoint, family):
    """q/k/v from attn_in, attn_out from z: the weights named by the blueprint are those used."""
    opened = checkpoint(family)
    layer = opened.blueprint.layers[1]
    rows = capture(opened.model, opened.blueprint, [f"1.{s}" for s in layer.taps], tiny.ids()).rows

    def applied(matrix, x):
        weight = opened.model.get_parameter(matrix.weight)
        y = x @ weight if matrix.layout == "in_out" else x @ weight.T
        return y + opened.model.get_parameter(matrix.bias) if matrix.has_bias else y

    projected = torch.cat([applied(m, rows["1.attn_in"]) for m in layer.norms["attn"].readers], -1)
    seen = torch.cat([rows["1.q"], rows["1.k"], rows["1.v"]], -1)
    torch.testing.assert_close(projected, seen, rtol=1e-4, atol=1e-5)
    if "attn_out" in layer.writers:
        written = applied(layer.writers["attn_out"], rows["1.z"])
        torch.testing.assert_close(written, rows["1.attn_out"], rtol=1e-4, atol=1e-5)
    if "mlp_mid" in layer.taps and "mlp_out" in layer.writers:
        written = applied(layer.writers["mlp_out"], rows["1.mlp_mid"])
        torch.testing.assert_close(written, rows["1.mlp_out"], rtol=1e-4, atol=1e-5)


def test_one_place_has_one_name(checkpoint):
    blueprint = checkpoint().blueprint
    assert blueprint.canonical("0.resid_post") == "1.resid_pre"
    assert blueprint.canonical("2.resid_post") == "final"
    assert blueprint.canonical("blocks.1.hook_resid_pre") == "1.resid_pre"
    assert blueprint.canonical("blocks.1.attn.hook_z") == "1.z"


def test_capture_equals_the_padded_and_unpadded_run(checkpoint):
    """Padding on the right changes nothing at real positions."""
    opened = checkpoint()
    ids = tiny.ids(1, 12)
    padded = torch.cat([ids, torch.zeros(1, 5, dtype=torch.long)], 1)
    mask = torch.arange(17)[None] < 12
    short = capture(opened.model, opened.blueprint, ["final"], ids).rows["final"]
    long = capture(opened.model, opened.blueprint, ["final"], padded, mask).rows["final"]
    torch.testing.assert_close(short, long[:, :12])


def test_hooks_are_gone_after_a_failing_forward(checkpoint):
    opened = checkpoint()
    with pytest.raises(IndexError):
        capture(opened.model, opened.blueprint, ["final"], torch.full((1, 4), 10_000))
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in opened.model.modules())


@pytest.mark.parametrize(
    "site,expected",
    [
        ("nowhere", "unknown site"),
        ("0.resid", "not one that a llama network has"),
        ("7.resid_pre", "layers 0 to 2"),
        ("0.logits", "not one that a llama network has"),
    ],
)
def test_unknown_sites_are_named(checkpoint, site, expected):
    with pytest.raises(GramianError, match=expected):
        checkpoint().blueprint.canonical(site)


def test_experts_have_no_single_middle(checkpoint):
    with pytest.raises(GramianError, match=r"0\.mlp_mid.*mixtral"):
        checkpoint("mixtral").blueprint.tap("0.mlp_mid")


def test_unknown_model_class_lists_the_known_ones(tmp_path):
    from transformers import BertConfig

    BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2).save_pretrained(tmp_path)
    with pytest.raises(GramianError, match=r"'bert'.*no blueprint.*gpt2"):
        _ = open_checkpoint(tmp_path).blueprint


@pytest.mark.parametrize(
    "name,expected",
    [
        ("bundled:nothing", "bundled:smollm2"),
        ("./not/there", "no model at"),
        ("missing.gguf", "no file missing.gguf"),
    ],
)
def test_a_model_that_is_not_there(name, expected):
    with pytest.raises(GramianError, match=expected):
        open_checkpoint(name)


def test_a_folder_without_config(tmp_path):
    with pytest.raises(GramianError, match=r"no config\.json"):
        open_checkpoint(tmp_path)


def test_pickled_weights_are_not_read(tmp_path):
    tiny.save(tmp_path)
    weights = tmp_path / "model.safetensors"
    torch.save({}, tmp_path / "pytorch_model.bin")
    weights.unlink()
    with pytest.raises(GramianError, match="cannot open the model"):
        _ = open_checkpoint(tmp_path).model


def test_unknown_dtype_and_device(tmp_path):
    with pytest.raises(GramianError, match="float32"):
        open_checkpoint(tiny.save(tmp_path), dtype="int8")
    with pytest.raises(GramianError, match="device 'warp'"):
        open_checkpoint(tmp_path, device="warp")
