"""Moves are exact on every blueprint that claims them, and apply proves it or keeps nothing."""

from __future__ import annotations

import errno
import importlib
import json
from pathlib import Path

import pytest
import torch

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, IdentityPlus, LowRank
from gramian.networks import DropLayers, FoldMap, FoldNorm, Plan, apply
from gramian.networks import open as open_checkpoint
from tests import tiny


def logits(checkpoint, ids=None):
    with torch.no_grad():
        return checkpoint.model(tiny.ids() if ids is None else ids).logits


def low_rank(width=32, rank=3):
    generator = torch.Generator().manual_seed(5)
    up = 0.3 * torch.randn(width, rank, generator=generator, dtype=torch.float64)
    down = 0.3 * torch.randn(rank, width, generator=generator, dtype=torch.float64)
    return IdentityPlus(LowRank(up, down))


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "qwen3_moe"])
@pytest.mark.parametrize("gone", [(0,), (1,), (0, 2)])
def test_dropping_layers_equals_skipping_them(checkpoint, family, gone, tmp_path):
    source = checkpoint(family)
    certificate = apply(source, Plan.of(source, DropLayers(gone)), tmp_path / "out")
    assert certificate.reference_error < 1e-5
    written = open_checkpoint(tmp_path / "out")
    assert written.blueprint.depth == 3 - len(gone)
    kinds = getattr(source.config, "layer_types", None)
    if kinds:
        kept = [kind for i, kind in enumerate(kinds) if i not in gone]
        assert list(written.config.layer_types) == kept
    assert certificate.parameters < certificate.parameters_before


def test_moves_follow_each_other(checkpoint, tmp_path):
    """After a drop, layers are numbered anew; the reference follows."""
    source = checkpoint()
    plan = Plan.of(
        source,
        DropLayers((0,)),
        FoldMap("0.mlp_out", low_rank()),
        FoldNorm("1.attn"),
        DropLayers((1,)),
    )
    apply(source, plan, tmp_path / "out")
    written = open_checkpoint(tmp_path / "out")
    old = source.model.get_parameter("model.layers.1.mlp.down_proj.weight").double()
    new = written.model.get_parameter("model.layers.0.mlp.down_proj.weight").double()
    torch.testing.assert_close(new, low_rank().to_dense() @ old, rtol=1e-5, atol=1e-6)


def test_a_constant_finds_its_bias_slot(checkpoint, tmp_path):
    source = checkpoint()
    constant = torch.linspace(-1, 1, 32, dtype=torch.float64)
    plan = Plan.of(source, FoldMap("1.mlp_out", Affine(low_rank(), constant)))
    apply(source, plan, tmp_path / "out")
    written = open_checkpoint(tmp_path / "out")
    assert written.config.mlp_bias is True
    biases = {n: p for n, p in written.model.named_parameters() if n.endswith("_proj.bias")}
    assert len(biases) == 9
    filled = [name for name, bias in biases.items() if bias.abs().max() > 0]
    assert filled == ["model.layers.1.mlp.down_proj.bias"]


@pytest.mark.parametrize("family", ["mistral", "mixtral", "qwen2"])
def test_a_constant_without_a_slot_is_refused(checkpoint, family, tmp_path):
    source = checkpoint(family)
    with pytest.raises(GramianError, match="no bias slot"):
        Plan.of(source, FoldMap("1.mlp_out", Affine(low_rank(), torch.ones(32))))


def test_gpt2_biases_take_the_constant(checkpoint, tmp_path):
    source = checkpoint("gpt2")
    constant = torch.linspace(-1, 1, 32, dtype=torch.float64)
    apply(
        source,
        Plan.of(source, FoldMap("1.attn_out", Affine(low_rank(), constant))),
        tmp_path / "out",
    )
    written = open_checkpoint(tmp_path / "out")
    old = source.model.get_parameter("transformer.h.1.attn.c_proj.bias").double()
    new = written.model.get_parameter("transformer.h.1.attn.c_proj.bias").double()
    torch.testing.assert_close(new, low_rank()(old) + constant, rtol=1e-5, atol=1e-6)


def test_the_final_norm_of_a_tied_network_unties_it(tmp_path):
    source = open_checkpoint(tiny.save(tmp_path / "tied", tie_word_embeddings=True))
    apply(source, Plan.of(source, FoldNorm("final")), tmp_path / "out")
    written = open_checkpoint(tmp_path / "out")
    assert written.config.tie_word_embeddings is False
    torch.testing.assert_close(logits(written), logits(source), rtol=1e-4, atol=1e-4)
    embed = source.model.get_parameter("model.embed_tokens.weight")
    assert torch.equal(written.model.get_parameter("model.embed_tokens.weight"), embed)


def test_companions_are_copied_byte_for_byte(checkpoint, tmp_path):
    source = open_checkpoint(tiny.save(tmp_path / "in"))
    (tmp_path / "in" / "chat_template.jinja").write_text("{{ messages }}  \n")
    (tmp_path / "in" / "generation_config.json").write_text('{"temperature":  0.3}\n')
    apply(source, Plan.of(source, DropLayers((1,))), tmp_path / "out")
    for name in (
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "generation_config.json",
    ):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "in" / name).read_bytes()
    document = json.loads((tmp_path / "out" / "gramian.json").read_text())
    assert document["source_weights"] == source.digest
    assert document["certificate"]["reference_error"] < 1e-5


def test_certificate_lists_what_changed(checkpoint, tmp_path):
    source = checkpoint()
    certificate = apply(source, Plan.of(source, FoldNorm("1.mlp")), tmp_path / "out")
    prefix = "model.layers.1"
    assert certificate.changed == (
        f"{prefix}.mlp.gate_proj.weight",
        f"{prefix}.mlp.up_proj.weight",
        f"{prefix}.post_attention_layernorm.weight",
    )
    assert certificate.removed == ()


def test_plans_survive_saving(checkpoint, tmp_path):
    source = checkpoint()
    weight = torch.eye(32, dtype=torch.float64) * 2
    plan = Plan.of(
        source,
        FoldNorm("0.attn"),
        FoldMap("1.mlp_out", Affine(Dense(weight), torch.ones(32))),
        DropLayers((2,)),
        evidence={"r2": 0.5},
    )
    plan.save(tmp_path / "plan.safetensors")
    loaded = Plan.load(tmp_path / "plan.safetensors")
    assert loaded.weights == plan.weights
    assert loaded.evidence == plan.evidence
    assert [m.describe() for m in loaded.moves] == [m.describe() for m in plan.moves]
    apply(source, plan, tmp_path / "a")
    apply(source, loaded, tmp_path / "b")
    a, b = (tmp_path / n / "model.safetensors" for n in "ab")
    assert a.read_bytes() == b.read_bytes()
    assert "drop layers 2" in str(plan)


def test_plan_of_other_weights_is_refused(checkpoint, tmp_path):
    other = open_checkpoint(tiny.save(tmp_path / "other", seed=1))
    with pytest.raises(GramianError, match="made for the weights"):
        apply(checkpoint(), Plan.of(other, DropLayers((1,))), tmp_path / "out")


@pytest.mark.parametrize("gone", [(), (3,), (-1,), (0, 1, 2)])
def test_impossible_drops(checkpoint, gone, tmp_path):
    source = checkpoint()
    with pytest.raises(GramianError, match="layers 0 to 2"):
        apply(source, Plan.of(source, DropLayers(gone)), tmp_path / "out")


def test_layers_are_given_as_a_tuple():
    with pytest.raises(GramianError, match="expected a tuple"):
        DropLayers(25)


def test_norms_that_are_not_read_cannot_be_folded(checkpoint, tmp_path):
    source = checkpoint("gemma3_text")
    with pytest.raises(GramianError, match="no matrix reads"):
        apply(source, Plan.of(source, FoldNorm("1.mlp_out_norm")), tmp_path / "out")
    with pytest.raises(GramianError, match=r"norm '9\.attn'"):
        apply(source, Plan.of(source, FoldNorm("9.attn")), tmp_path / "out")


def test_maps_of_another_width_are_refused(checkpoint, tmp_path):
    source = checkpoint()
    with pytest.raises(GramianError, match="16 x 16, expected 32 x 32"):
        Plan.of(source, FoldMap("1.mlp_out", low_rank(16)))


def test_an_existing_target_is_kept_unless_forced(checkpoint, tmp_path):
    source = checkpoint()
    plan = Plan.of(source, DropLayers((1,)))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep me")
    with pytest.raises(GramianError, match="exists"):
        apply(source, plan, tmp_path / "out")
    assert (tmp_path / "out" / "mine.txt").read_text() == "keep me"
    apply(source, plan, tmp_path / "out", force=True)
    assert not (tmp_path / "out" / "mine.txt").exists()


def test_a_wrong_network_is_never_kept(checkpoint, tmp_path, monkeypatch):
    """Damage a tensor on the way to disk: the certificate fails and nothing appears."""
    source = checkpoint()
    module = importlib.import_module("gramian.networks.apply")

    real = module.write_model

    def damaged(draft, tensors, folder):
        name = "model.layers.0.mlp.down_proj.weight"
        real(draft, {**tensors, name: tensors[name] * 1.01}, folder)

    monkeypatch.setattr(module, "write_model", damaged)
    with pytest.raises(GramianError, match="differs from the intended network"):
        apply(source, Plan.of(source, FoldNorm("1.mlp")), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(checkpoint, tmp_path, monkeypatch):
    source = checkpoint()
    module = importlib.import_module("gramian.networks.apply")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "write_model", full)
    with pytest.raises(GramianError, match="no space left"):
        apply(source, Plan.of(source, FoldNorm("1.mlp")), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"junk" * 100])
def test_hostile_plans(content, tmp_path):
    path = Path(tmp_path / "plan.safetensors")
    path.write_bytes(content)
    with pytest.raises(GramianError, match="plan"):
        Plan.load(path)
