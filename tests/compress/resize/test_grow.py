"""Larger networks compute what the smaller one did."""

from __future__ import annotations

import pytest
import torch

from gramian.compress import resize
from gramian.errors import GramianError
from gramian.networks import Plan, apply
from gramian.networks import open as open_checkpoint
from gramian.networks.certificate import outputs_of
from tests import tiny

FAMILIES = ("llama_tied", "qwen2", "gpt2", "opt", "gemma2")


def same_text(written, source):
    ids = tiny.ids(1, 8)
    how = {"max_new_tokens": 12, "do_sample": False}
    assert torch.equal(written.model.generate(ids, **how), source.model.generate(ids, **how))


@pytest.mark.parametrize("family", FAMILIES)
def test_wider_and_deeper_computes_the_same(checkpoint, family, tmp_path):
    source = checkpoint(family)
    old = resize.shape_of(source)
    plan = resize.grow(source, width=64, mlp=old.mlp + 20, layers=7, noise=0.6)
    assert plan.evidence["function"] == "unchanged"
    assert len(plan.evidence["why_unchanged"]) == 4
    plan.save(tmp_path / "plan")
    certificate = apply(source, Plan.load(tmp_path / "plan"), tmp_path / "out", tolerance=1e-5)
    assert certificate.change < 1e-5
    written = open_checkpoint(tmp_path / "out")
    shape = resize.shape_of(written)
    assert (shape.width, shape.mlp, shape.layers) == (64, old.mlp + 20, 7)
    assert (shape.heads, shape.keys) == (2 * old.heads, 2 * old.keys)
    assert shape.head_dim == old.head_dim
    assert certificate.parameters == plan.evidence["parameters"]
    same_text(written, source)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_width_that_is_no_multiple(checkpoint, family, tmp_path):
    source = checkpoint(family)
    heads = (10, 10) if family in ("gpt2", "opt") else None
    plan = resize.grow(source, width=80, heads=heads)
    assert apply(source, plan, tmp_path / "out", tolerance=1e-5).change < 1e-5
    same_text(open_checkpoint(tmp_path / "out"), source)


@pytest.mark.parametrize("family", [*FAMILIES, "mixtral"])
def test_zero_blocks_leave_outputs_equal_to_the_bit(checkpoint, family, tmp_path):
    source = checkpoint(family)
    apply(source, resize.grow(source, layers=8), tmp_path / "out")
    written = open_checkpoint(tmp_path / "out")
    found = outputs_of(written.model, tiny.ids())
    assert torch.equal(found, outputs_of(source.model, tiny.ids()))
    silent = [
        not any(
            bool(written.model.state_dict()[writer.matrix.weight].any())
            for writer in written.blueprint.writers(i)
        )
        for i in range(8)
    ]
    assert silent == [False, True, True, False, True, True, False, True]


def test_stack_and_interlace_repeat_blocks_and_say_so(checkpoint, tmp_path):
    source = checkpoint("llama")
    for by, order in (("stack", (0, 1, 2, 0, 1, 2)), ("interlace", (0, 0, 1, 1, 2, 2))):
        plan = resize.grow(source, layers=6, layers_by=by)
        assert plan.moves[0].order == order
        assert plan.evidence["function"] == "changed"
        assert any("outputs change" in text for text in plan.evidence["warnings"])
        assert apply(source, plan, tmp_path / by).change > 1e-3


def test_noise_tells_copies_apart_and_keeps_their_sum(checkpoint, tmp_path):
    source = checkpoint("llama")
    plan = resize.grow(source, mlp=96, noise=0.5, seed=3)
    assert plan.moves[0].maps[0].diagonal.std() > 0.05
    assert plan.evidence["warnings"] == []
    apply(source, plan, tmp_path / "out", tolerance=1e-5)
    for new, old in zip(
        open_checkpoint(tmp_path / "out").model.model.layers,
        source.model.model.layers,
        strict=True,
    ):
        down = new.mlp.down_proj.weight
        assert torch.allclose(down[:, :48] + down[:, 48:], old.mlp.down_proj.weight, atol=1e-6)
        assert not torch.allclose(down[:, :48], down[:, 48:], atol=1e-3)
    again = resize.grow(source, mlp=96, noise=0.5, seed=3)
    assert torch.equal(again.moves[0].maps[2].diagonal, plan.moves[0].maps[2].diagonal)


def test_a_step_of_training_moves_what_was_added(checkpoint, tmp_path):
    """Zeros and copies are a start, not a dead end: every new weight gets a gradient."""
    source = checkpoint("llama")
    apply(source, resize.grow(source, width=48, layers=4), tmp_path / "out")
    model = open_checkpoint(tmp_path / "out").model
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    ids = tiny.ids(4, 20)
    model(input_ids=ids, labels=ids).loss.backward()
    silent = model.model.layers[1]
    assert not bool(silent.mlp.down_proj.weight.any())
    assert bool(silent.mlp.down_proj.weight.grad.any())
    # Rows that write the new, still zero features.
    assert bool(model.model.layers[0].mlp.down_proj.weight.grad[32:].any())


@pytest.mark.parametrize(
    "sizes, message",
    [
        ({}, "nothing grows"),
        ({"width": 16}, "width 16 is less than the 32 .* use shrink"),
        ({"mlp": -1}, "mlp is -1"),
        ({"heads": (6, 2)}, "expected 2 query heads for every head of keys"),
        ({"layers": 2}, "layers 2 is less than the 3"),
        ({"layers": 6, "layers_by": "copy"}, "layers_by is 'copy'"),
        ({"mlp": 96, "noise": 1.0}, "noise is 1.0"),
        ({"width": 66}, "hidden size .*66"),
    ],
)
def test_bad_sizes_say_what_to_do(checkpoint, sizes, message):
    with pytest.raises(GramianError, match=message):
        resize.grow(checkpoint("llama"), **sizes)


def test_networks_that_cannot_grow(checkpoint):
    for family in ("mixtral", "qwen3_moe"):
        with pytest.raises(GramianError, match=r"experts.* Give --layers alone"):
            resize.grow(checkpoint(family), width=64)
    with pytest.raises(GramianError, match="ALiBi"):
        resize.grow(checkpoint("falcon_sequential"), width=64)
    with pytest.raises(GramianError, match="no block is silent"):
        resize.grow(checkpoint("bert"), layers=6)
    with pytest.raises(GramianError, match="its output, and no matrix reads it"):
        resize.grow(checkpoint("bert"), width=64)
    with pytest.raises(GramianError, match="tied to others"):
        resize.grow(checkpoint("gpt2"), width=64, heads=(4, 4))
