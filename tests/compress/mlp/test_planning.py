"""Fewer neurons: what is predicted is measured, what is superfluous goes first."""

from __future__ import annotations

import copy

import pytest
import torch

from gramian.compress import mlp
from gramian.errors import GramianError
from gramian.networks import apply
from gramian.networks import open as open_checkpoint
from gramian.networks.moves.select_neurons import neurons
from tests import tiny
from tests.compress.narrowed import errors_of, module_of, moments_of, opened, rows_of
from tests.networks.claims import outputs


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return opened(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def moments(checkpoint):
    return moments_of(checkpoint, mlp)


@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.parametrize("select", mlp.SELECTIONS)
def test_predicted_error_is_measured(checkpoint, moments, select, refit):
    plan = mlp.plan(checkpoint, moments, width=30, select=select, refit=refit)
    (move,) = plan.moves
    for layer, own, map in zip(checkpoint.blueprint.layers, move.kept, move.writers, strict=True):
        rows = rows_of(checkpoint, f"{layer.index}.mlp_mid")
        assert len(rows) == moments.counts["report"]["rows"] + moments.counts["report"]["sinks"]
        writer = neurons(checkpoint.blueprint, layer)[1]
        weight = checkpoint.model.get_parameter(writer.weight).double()
        old, new = rows @ weight.T, rows[:, list(own)] @ map.to_dense().double().T
        measured = float((old - new).square().sum() / old.square().sum())
        assert errors_of(plan)[layer.index] == pytest.approx(measured, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("family", ["gpt2", "opt"])
def test_biases_follow_and_the_error_knows(family, tmp_path):
    source = opened(tmp_path, family)
    plan = mlp.plan(source, moments_of(source, mlp), width=20)
    (move,) = plan.moves
    layer = source.blueprint.layers[1]
    rows = rows_of(source, "1.mlp_mid")
    writer = neurons(source.blueprint, layer)[1]
    module = copy.deepcopy(module_of(source, writer))
    source.model.float()
    old, new = module(rows), move.writers[1].to(dtype=torch.float64)(rows[:, list(move.kept[1])])
    measured = float((old - new).square().sum() / old.square().sum())
    assert errors_of(plan)[1] == pytest.approx(measured, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("family", ["llama", "gpt2", "opt", "phi3", "qwen2", "gemma3_text"])
def test_everything_kept_is_the_same_network(family, tmp_path):
    source = opened(tmp_path / "in", family)
    plan = mlp.plan(source, moments_of(source, mlp), keep=1.0)
    assert max(errors_of(plan)) < 1e-12
    certificate = apply(source, plan, tmp_path / "out")
    assert certificate.change < 1e-4
    assert plan.evidence["removed"] == {"of_layers": 0.0, "of_model": 0.0}


@pytest.mark.parametrize("select", mlp.SELECTIONS)
def test_error_falls_with_the_neurons_kept(checkpoint, moments, select):
    widths = (8, 16, 24, 32, 40, 48)
    errors = torch.tensor(
        [errors_of(mlp.plan(checkpoint, moments, width=width, select=select)) for width in widths]
    )
    assert bool((errors.diff(dim=0) <= 1e-3 * errors[:-1]).all())
    assert float(errors[-1].max()) < 1e-12


@pytest.mark.parametrize("select", mlp.SELECTIONS)
def test_refitting_is_better_than_deleting(checkpoint, moments, select):
    fitted, deleted = (
        errors_of(mlp.plan(checkpoint, moments, width=30, select=select, refit=refit))
        for refit in (True, False)
    )
    assert all(a < b for a, b in zip(fitted, deleted, strict=True))


def test_elimination_is_as_good_as_any(checkpoint, moments):
    by = {
        select: sum(errors_of(mlp.plan(checkpoint, moments, width=30, select=select)))
        for select in mlp.SELECTIONS
    }
    assert by["eliminate"] <= 1.05 * min(by.values())


def plant(model):
    """Of 48 neurons the first 6 are dead, and the next 6 say what others say."""
    for block in model.model.layers:
        part = block.mlp
        part.up_proj.weight[:6] = 0.0
        part.gate_proj.weight[6:12] = part.gate_proj.weight[20:26]
        part.up_proj.weight[6:12] = 3.0 * part.up_proj.weight[20:26]


@pytest.mark.parametrize("select", ["eliminate", "pivoted"])
def test_planted_neurons_go_without_loss(tmp_path, select):
    source = opened(tmp_path / "in", change=plant)
    plan = mlp.plan(source, moments_of(source, mlp), width=36, select=select)
    assert max(errors_of(plan)) < 1e-5
    apply(source, plan, tmp_path / "out")
    written = open_checkpoint(tmp_path / "out")
    assert written.config.intermediate_size == 36
    torch.testing.assert_close(outputs(written), outputs(source), rtol=0, atol=2e-2)


def test_the_result_is_an_ordinary_checkpoint(checkpoint, moments, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    plan = mlp.plan(checkpoint, moments, keep=0.75, multiple=8)
    certificate = apply(checkpoint, plan, tmp_path / "out")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    AutoTokenizer.from_pretrained(tmp_path / "out")
    assert model.config.intermediate_size == 40  # 36 lies half way to 32
    assert certificate.loads_in["vLLM"].startswith("expected")
    found = plan.evidence
    assert found["parameters"] == certificate.parameters
    assert found["removed"]["of_layers"] == pytest.approx(1 / 6)
    assert found["neurons"] == 40
    assert found["kv_bytes_per_token"] == found["kv_bytes_per_token_before"]
    assert [layer["kept"] for layer in found["layers"]] == [40 / 48] * 3
    with torch.no_grad():
        loaded = model(tiny.ids()).logits.double()
    torch.testing.assert_close(loaded, outputs(open_checkpoint(tmp_path / "out")))


def test_a_share_of_the_model(checkpoint, moments):
    plan = mlp.plan(checkpoint, moments, keep=0.9, of="model")
    assert plan.evidence["removed"]["of_model"] == pytest.approx(0.1, abs=0.01)


def test_few_tokens_are_said(checkpoint):
    few = moments_of(checkpoint, mlp, tokens=64)
    plan = mlp.plan(checkpoint, few, width=30)
    assert plan.evidence["rows_per_dimension"] < 2
    assert "collect more tokens" in plan.evidence["warnings"][0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"keep": 0.0}, "share above 0"),
        ({"keep": 1.5}, "at most 1"),
        ({"keep": float("nan")}, "share above 0"),
        ({"keep": 0.1, "of": "model"}, "more than the layers treated"),
        ({"of": "heads"}, "'layers' or 'model'"),
        ({"width": 0}, "expected 1 to 48"),
        ({"width": 49}, "expected 1 to 48"),
        ({"multiple": 0}, "at least 1"),
        ({"multiple": 64}, "no multiple of 64 is among the 48"),
        ({"select": "luck"}, "expected one of eliminate"),
    ],
)
def test_bad_input(checkpoint, moments, given, message):
    with pytest.raises(GramianError, match=message):
        mlp.plan(checkpoint, moments, **given)


def test_other_moments_are_refused(checkpoint, moments, tmp_path):
    other = opened(tmp_path, num_hidden_layers=2)
    with pytest.raises(GramianError, match="collect them on this model"):
        mlp.plan(other, moments)
    from gramian.compress import heads

    without = moments_of(checkpoint, heads)
    with pytest.raises(GramianError, match="--for mlp"):
        mlp.plan(checkpoint, without)


@pytest.mark.parametrize("family", ["mixtral", "qwen3_moe"])
def test_experts_are_refused(family, tmp_path):
    source = opened(tmp_path, family)
    with pytest.raises(GramianError, match="only dense MLPs are narrowed"):
        mlp.needs(source)


@pytest.mark.parametrize(
    ("neurons", "share", "multiple", "expected"),
    [
        (1536, 0.75, 1, 1152),
        (1536, 0.75, 256, 1280),
        (1536, 0.7, 256, 1024),
        (11008, 0.75, 256, 8192),
        (1000, 1.0, 256, 1000),
        (1000, 0.999, 256, 1000),
        (1000, 0.01, 256, 256),
    ],
)
def test_widths(neurons, share, multiple, expected):
    assert mlp.kept_width(neurons, share, multiple=multiple) == expected


def test_what_it_costs_is_known(checkpoint):
    cost = mlp.needs(checkpoint).cost(checkpoint)
    assert cost.bytes_per_fold == 3 * 8 * 48**2
    assert cost.operations == 3 * 48**2
