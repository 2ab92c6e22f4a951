"""Names of places, and models that cannot be opened."""

from __future__ import annotations

import pytest
import torch

from gramian.errors import GramianError
from gramian.networks import capture
from gramian.networks import open as open_checkpoint
from gramian.networks.families import blueprint
from tests import tiny


def test_one_place_has_one_name(checkpoint):
    plan = checkpoint().blueprint
    assert plan.canonical("0.resid_post") == "1.resid_pre"
    assert plan.canonical("2.resid_post") == "final"
    assert plan.canonical("blocks.1.hook_resid_pre") == "1.resid_pre"
    assert plan.canonical("blocks.1.attn.hook_z") == "1.z"


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


def test_a_model_without_a_table_lists_the_known_ones():
    from transformers import BloomConfig, BloomModel

    made = BloomModel(BloomConfig(hidden_size=16, n_layer=1, n_head=2, vocab_size=8))
    with pytest.raises(GramianError, match=r"no blueprint.*'bloom'.*bert, clip"):
        blueprint(made.config, made)


def test_a_table_that_does_not_fit_says_what_is_missing():
    made = tiny.model("llama")
    del made.model.layers[1].mlp.up_proj
    with pytest.raises(GramianError, match=r"parameter 'model\.layers\.1\.mlp\.up_proj"):
        blueprint(made.config, made)


def test_writers_and_norms_that_a_network_does_not_have(checkpoint):
    plan = checkpoint("gemma3_text").blueprint
    with pytest.raises(GramianError, match="output of a norm, not of a matrix"):
        plan.writer("0.attn_out")
    with pytest.raises(GramianError, match="not the output of a writer"):
        plan.writer("0.resid_pre")
    with pytest.raises(GramianError, match=r"name one of.*mlp_out_norm.*q_norm"):
        plan.norm("0.nothing")
    with pytest.raises(GramianError, match="no tower 'vision'; it has one"):
        plan.tap("vision.0.q")


@pytest.mark.parametrize(
    "family,expected", [("llama", 64), ("bert", 64), ("roberta", 63), ("t5", None), ("clip", 64)]
)
def test_how_long_a_text_may_be(tmp_path, family, expected):
    opened = open_checkpoint(tiny.save(tmp_path, family))
    assert opened.positions == expected
    if expected is not None:
        capture(opened.model, opened.blueprint, ["final"], tiny.ids(1, expected))


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
    with pytest.raises(GramianError, match=r"pickle \(pytorch_model\.bin\).*safetensors"):
        open_checkpoint(tmp_path)


def test_unknown_dtype_and_device(tmp_path):
    with pytest.raises(GramianError, match="float32"):
        open_checkpoint(tiny.save(tmp_path), dtype="int8")
    with pytest.raises(GramianError, match="device 'warp'"):
        open_checkpoint(tmp_path, device="warp")
