"""Fewer heads: whole groups, or as many of each, and the matrix behind them refitted."""

from __future__ import annotations

import pytest
import torch

from gramian.compress import heads
from gramian.errors import GramianError
from gramian.networks import apply
from gramian.networks import open as open_checkpoint
from gramian.networks.attention_heads import attention_heads
from tests import tiny
from tests.compress.narrowed import errors_of, moments_of, opened, rows_of
from tests.networks.claims import outputs

WIDE = {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 8}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return opened(tmp_path_factory.mktemp("llama"), **WIDE)


@pytest.fixture(scope="module")
def moments(checkpoint):
    return moments_of(checkpoint, heads)


@pytest.mark.parametrize("select", heads.SELECTIONS)
@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.parametrize("within", [False, True])
def test_predicted_error_is_measured(checkpoint, moments, select, refit, within):
    plan = heads.plan(checkpoint, moments, keep=4, within=within, select=select, refit=refit)
    (move,) = plan.moves
    for layer, own, map in zip(checkpoint.blueprint.layers, move.kept, move.writers, strict=True):
        shape = attention_heads(checkpoint.blueprint, checkpoint.config, layer.index)
        rows = rows_of(checkpoint, f"{layer.index}.z")
        weight = checkpoint.model.get_parameter(shape.writer.weight).double()
        old = rows @ weight.T
        new = rows[:, shape.columns(own)] @ map.to_dense().double().T
        measured = float((old - new).square().sum() / old.square().sum())
        assert errors_of(plan)[layer.index] == pytest.approx(measured, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("family", ["llama", "qwen2", "phi3", "gemma3_text", "mixtral"])
def test_everything_kept_is_the_same_network(family, tmp_path):
    source = opened(tmp_path / "in", family)
    plan = heads.plan(source, moments_of(source, heads), keep=4)
    certificate = apply(source, plan, tmp_path / "out")
    assert certificate.change < 1e-4


def test_groups_go_whole_and_the_cache_shrinks(checkpoint, moments, tmp_path):
    from transformers import AutoModelForCausalLM

    plan = heads.plan(checkpoint, moments, keep=4)
    certificate = apply(checkpoint, plan, tmp_path / "out")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    config = model.config
    assert (config.num_attention_heads, config.num_key_value_heads, config.head_dim) == (4, 2, 8)
    found = plan.evidence
    assert found["kv_bytes_per_token"] * 2 == found["kv_bytes_per_token_before"]
    assert found["parameters"] == certificate.parameters
    assert found["removed"]["of_layers"] == pytest.approx(0.5)
    for own in found["kept"]:
        assert {head // 2 for head in own} == {own[0] // 2, own[2] // 2}
    assert "head_dim = 8" in certificate.loads_in["vLLM"]
    generated = model.generate(tiny.ids(1, 6), max_new_tokens=8, do_sample=False)
    assert generated.shape == (1, 14)


def test_within_groups_keys_stay(checkpoint, moments, tmp_path):
    plan = heads.plan(checkpoint, moments, keep=4, within=True)
    apply(checkpoint, plan, tmp_path / "out")
    config = open_checkpoint(tmp_path / "out").config
    assert (config.num_attention_heads, config.num_key_value_heads) == (4, 4)
    assert all([head // 2 for head in own] == [0, 1, 2, 3] for own in plan.evidence["kept"])
    assert plan.evidence["kv_bytes_per_token"] == plan.evidence["kv_bytes_per_token_before"]


def test_within_groups_loses_less(checkpoint, moments):
    """Half of the query heads, with all keys and values there to stand for the others."""
    whole = errors_of(heads.plan(checkpoint, moments, keep=4))
    within = errors_of(heads.plan(checkpoint, moments, keep=4, within=True))
    assert sum(within) < sum(whole)


@pytest.mark.parametrize("select", heads.SELECTIONS)
def test_refitting_is_better_and_error_falls(checkpoint, moments, select):
    fitted = {
        keep: errors_of(heads.plan(checkpoint, moments, keep=keep, select=select))
        for keep in (2, 4, 8)
    }
    deleted = errors_of(heads.plan(checkpoint, moments, keep=4, select=select, refit=False))
    assert all(a < b for a, b in zip(fitted[4], deleted, strict=True))
    for fewer, more in ((2, 4), (4, 8)):
        assert all(a >= b for a, b in zip(fitted[fewer], fitted[more], strict=True))
    assert max(fitted[8]) < 1e-12


def plant(model):
    """The second group is silent; the third says what the first says, read by other columns."""
    for block in model.model.layers:
        part = block.self_attn
        part.v_proj.weight[8:16] = 0.0
        part.k_proj.weight[16:24] = part.k_proj.weight[:8]
        part.v_proj.weight[16:24] = part.v_proj.weight[:8]
        part.q_proj.weight[32:48] = part.q_proj.weight[:16]


def test_planted_groups_go_without_loss(tmp_path):
    source = opened(tmp_path / "in", change=plant, **WIDE)
    plan = heads.plan(source, moments_of(source, heads), keep=4)
    assert max(errors_of(plan)) < 1e-5
    for own in plan.evidence["kept"]:
        assert own in ([0, 1, 6, 7], [4, 5, 6, 7])
    apply(source, plan, tmp_path / "out")
    torch.testing.assert_close(
        outputs(open_checkpoint(tmp_path / "out")), outputs(source), rtol=0, atol=2e-2
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"keep": 5}, "whole groups of 2 .*: expected 2, 4, 6, 8"),
        ({"keep": 0}, "expected 2, 4, 6, 8"),
        ({"keep": 10}, "expected 2, 4, 6, 8"),
        ({"keep": 6, "within": True}, "as many of each of the 4 groups: expected 4, 8"),
        ({"keep": 0.0}, "share above 0"),
        ({"keep": 4, "select": "luck"}, "expected one of eliminate, norm"),
        ({"keep": 6}, "32.* is not a multiple of the number of attention"),
    ],
)
def test_bad_input(checkpoint, moments, given, message):
    with pytest.raises(GramianError, match=message):
        heads.plan(checkpoint, moments, **given)


def test_shares(checkpoint, moments):
    assert heads.plan(checkpoint, moments, keep=0.5).evidence["heads"] == 4
    assert heads.plan(checkpoint, moments, keep=0.01).evidence["heads"] == 2


def test_without_groups_there_is_no_within(tmp_path):
    source = opened(tmp_path, num_key_value_heads=4)
    moments = moments_of(source, heads)
    with pytest.raises(GramianError, match="nothing to take inside a group"):
        heads.plan(source, moments, keep=2, within=True)
    assert heads.plan(source, moments, keep=2).evidence["key_heads"] == 2


@pytest.mark.parametrize("family", ["gpt2", "opt"])
def test_heads_of_a_fixed_width_are_refused_before_anything_is_solved(family, tmp_path):
    source = opened(tmp_path, family)
    with pytest.raises(GramianError, match="cannot change alone"):
        heads.plan(source, moments_of(source, heads), keep=2)


def test_moments_of_neurons_alone_are_refused(checkpoint):
    from gramian.compress import mlp

    with pytest.raises(GramianError, match="--for heads"):
        heads.plan(checkpoint, moments_of(checkpoint, mlp), keep=4)
