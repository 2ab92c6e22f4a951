"""Smaller networks: what is dead goes without a trace, the rest is chosen and rescaled."""

from __future__ import annotations

import math

import pytest
import torch
from safetensors.torch import load_file

from gramian.compress import resize
from gramian.compress.resize.refit import refit, relative_error
from gramian.errors import GramianError
from gramian.maps import Diagonal
from gramian.moments import Moments
from gramian.networks import DropLayers, Plan, Resize, apply
from gramian.networks import open as open_checkpoint
from gramian.networks.certificate import outputs_of
from tests import tiny

FAMILIES = ("llama_tied", "qwen2", "gpt2", "opt", "gemma2")
SMALLER = {"width": 16, "mlp": 32, "heads": (2, 1), "layers": 2}
TIED = {**SMALLER, "heads": None}  # the architecture derives the width of a head


def asked(family):
    return TIED if family in ("gpt2", "opt") else SMALLER


def gap(a, b):
    expected = outputs_of(b.model, tiny.ids())
    return float((outputs_of(a.model, tiny.ids()) - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_size_is_the_same_model_to_the_bit(checkpoint, family, tmp_path):
    source = checkpoint(family)
    shape = resize.shape_of(source)
    plan = resize.shrink(
        source, width=shape.width, mlp=shape.mlp, heads=(shape.heads, shape.keys), layers=3
    )
    assert plan.evidence["function"] == "unchanged"
    certificate = apply(source, plan, tmp_path / "out")
    assert certificate.changed == ()
    # The move itself, with all features chosen, changes no bit either.
    every = Resize(
        stream=tuple(range(shape.width)),
        neurons=(tuple(range(shape.mlp)),) * 3,
        queries=(tuple(range(shape.heads)),) * 3,
        keys=(tuple(range(shape.keys)),) * 3,
    )
    assert apply(source, Plan.of(source, every), tmp_path / "all").changed == ()


@pytest.mark.parametrize(
    "family, with_moments",
    # transformers gives Qwen2 a tokenizer of its own, which knows none of the words here.
    [(name, told) for name in FAMILIES for told in (False, True) if name != "qwen2" or not told],
)
def test_a_smaller_network_is_certified_and_reloads(
    checkpoint, moments, family, with_moments, tmp_path
):
    source = checkpoint(family)
    plan = resize.shrink(source, moments(source) if with_moments else None, **asked(family))
    certificate = apply(source, plan, tmp_path / "out", tolerance=2e-5)
    written = open_checkpoint(tmp_path / "out")
    shape = resize.shape_of(written)
    assert (shape.width, shape.mlp, shape.layers) == (16, 32, 2)
    assert shape.to_json() == plan.evidence["shape"]
    assert certificate.parameters == plan.evidence["parameters"]
    assert shape.head_dim == resize.shape_of(source).head_dim
    ids = tiny.ids(1, 6)
    assert written.model.generate(ids, max_new_tokens=4, do_sample=False).shape == (1, 10)
    warnings = " ".join(plan.evidence["warnings"])
    assert "start for training" in warnings
    assert ("lengths of weights alone" in warnings) != with_moments


def dead(family, tmp_path, *, channels=(), neurons=(), heads=()):
    """A model in which these write nothing."""
    model = tiny.model(family)
    source = tmp_path / "plain"
    model.save_pretrained(source)
    plan = open_checkpoint(source).blueprint
    with torch.no_grad():
        for name in plan.embeddings:
            model.get_parameter(name)[:, list(channels)] = 0
        for writer in plan.stream_writers():
            weight = model.get_parameter(writer.matrix.weight)
            weight = weight.T if writer.matrix.inputs_first else weight
            weight[list(channels)] = 0
            if writer.matrix.has_bias:
                model.get_parameter(writer.matrix.bias)[list(channels)] = 0
            if writer.site.endswith("mlp_out"):
                weight[:, list(neurons)] = 0
            for head in heads:
                if writer.site.endswith("attn_out"):
                    weight[:, 8 * head : 8 * head + 8] = 0
    model.save_pretrained(tmp_path / "dead")
    tiny.tokenizer().save_pretrained(tmp_path / "dead")
    return open_checkpoint(tmp_path / "dead")


CHANNELS = (1, 2, 5, 8, 13, 21, 30, 31)


@pytest.mark.parametrize(
    "family, with_moments",
    [("llama", False), ("llama", True), ("qwen2", False), ("gemma2", False), ("gemma2", True)],
)
def test_dead_features_go_without_a_change(moments, family, with_moments, tmp_path):
    source = dead(family, tmp_path, channels=CHANNELS, neurons=range(4, 20), heads=(2, 3))
    found = moments(source) if with_moments else None
    for fit in (False, True) if with_moments else (False,):
        plan = resize.shrink(source, found, width=24, mlp=32, heads=(2, 1), refit=fit)
        (move,) = plan.moves
        assert set(range(32)) - set(move.stream) == set(CHANNELS)
        assert all(set(range(48)) - set(own) == set(range(4, 20)) for own in move.neurons)
        certificate = apply(source, plan, tmp_path / f"out{fit}")
        assert certificate.change < 1e-5


@pytest.mark.parametrize("family", ["gpt2", "opt"])
def test_dead_neurons_go_without_a_change_under_layer_norm(moments, family, tmp_path):
    source = dead(family, tmp_path, neurons=range(4, 20))
    for found in (None, moments(source)):
        plan = resize.shrink(source, found, mlp=resize.shape_of(source).mlp - 16)
        assert apply(source, plan, tmp_path / f"out{found is None}").change < 1e-5


def test_features_that_follow_from_others_are_refitted_without_loss(checkpoint, moments, tmp_path):
    """Neurons that are copies of others: a factor cannot make up for them, least squares can."""
    model = tiny.model("llama")
    with torch.no_grad():
        for layer in model.model.layers:
            for matrix in (layer.mlp.gate_proj, layer.mlp.up_proj):
                matrix.weight[:16] = matrix.weight[16:32]
    model.save_pretrained(tmp_path / "twins")
    tiny.tokenizer().save_pretrained(tmp_path / "twins")
    source = open_checkpoint(tmp_path / "twins")
    found = moments(source)
    weights = [layer.mlp.down_proj.weight.double() for layer in source.model.model.layers]
    for i, weight in enumerate(weights):
        kept = list(range(16, 48))
        made = refit(found, f"{i}.mlp_mid", kept, [weight])
        assert made.error_report < 1e-6
        expected = torch.zeros(16, 32, dtype=torch.float64)
        expected[torch.arange(16), torch.arange(16)] = 1.0
        assert (made.map.to_dense(torch.float64) - expected).abs().max() < 1e-3


def test_the_predicted_error_is_that_of_the_rows(checkpoint, moments):

    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(200, 12, generator=generator, dtype=torch.float64) + 3
    rows[:, 0] *= 1e3
    weight = torch.randn(5, 12, generator=generator, dtype=torch.float64)
    stay, go = torch.tensor([0, 3, 4, 7, 8, 9, 11]), torch.tensor([1, 2, 5, 6, 10])
    rest = torch.randn(5, 7, generator=generator, dtype=torch.float64)
    gone = (rows[:, go] - rows[:, stay] @ rest.T) @ weight[:, go].T
    expected = float(gone.square().sum() / (rows @ weight.T).square().sum())
    found = relative_error(Moments.from_rows(rows), stay, go, rest, [weight])
    assert found == pytest.approx(expected, rel=1e-9)


def test_refit_predicts_better_than_leaving_out(checkpoint, moments):
    source = checkpoint("llama")
    found = moments(source)
    plan = resize.shrink(source, found, mlp=36, refit=True)
    (move,) = plan.moves
    assert len(plan.evidence["layers"]) == 3
    for entry, kept in zip(plan.evidence["layers"], move.neurons, strict=True):
        weight = source.model.model.layers[entry["layer"]].mlp.down_proj.weight.double()
        report = found.moments(f"{entry['layer']}.mlp_mid", fold="report", sinks=True)
        go = torch.tensor(sorted(set(range(48)) - set(kept)))
        zero = torch.zeros(12, 36, dtype=torch.float64)
        plain = relative_error(report, torch.tensor(kept), go, zero, [weight])
        assert 0 < entry["error_report"] < plain


def test_the_variance_of_outputs_is_kept(checkpoint, moments):
    """With uncorrelated features the rescaled matrix gives outputs of the same mean square."""
    source = checkpoint("llama")
    plan = resize.shrink(source, moments(source), mlp=24)
    (move,) = plan.moves
    found = moments(source)
    for i, kept in enumerate(move.neurons):
        weight = source.model.model.layers[i].mlp.down_proj.weight.double()
        m = found.moments(f"{i}.mlp_mid", fold=("train", "select"), sinks=True)
        square = m.variances / m.count + m.mean.square()
        share = move.maps[move.places.index(f"{i}.mlp_mid")].diagonal
        new = (square * weight.square().sum(0))[list(kept)].sum() * share[0] ** 2
        assert float(new) == pytest.approx(float((square * weight.square().sum(0)).sum()))
    counted = resize.shrink(source, mlp=24, rescale="count").moves[0]
    assert all(m.diagonal[0] == pytest.approx(math.sqrt(2)) for m in counted.maps)
    assert resize.shrink(source, mlp=24, rescale="none").moves[0].maps == ()


def test_what_was_grown_shrinks_back(checkpoint, tmp_path):
    """The copies of one feature do all alike, so the first of each stays; outputs return."""
    source = checkpoint("llama")
    apply(source, resize.grow(source, mlp=96, layers=5), tmp_path / "big")
    big = open_checkpoint(tmp_path / "big")
    first = Resize(
        neurons=(tuple(range(48)),) * 5,
        places=tuple(f"{i}.mlp_mid" for i in range(5)),
        maps=tuple(_twice(48) for _ in range(5)),
    )
    silent = [
        i
        for i, layer in enumerate(big.model.model.layers)
        if not bool(layer.mlp.down_proj.weight.any())
    ]
    apply(big, Plan.of(big, DropLayers(tuple(silent))), tmp_path / "shallow")
    shallow = open_checkpoint(tmp_path / "shallow")
    move = Resize(neurons=first.neurons[:3], places=first.places[:3], maps=first.maps[:3])
    apply(shallow, Plan.of(shallow, move), tmp_path / "back")
    back = open_checkpoint(tmp_path / "back")
    assert gap(back, source) == 0.0
    for name, tensor in load_file(tmp_path / "back" / "model.safetensors").items():
        assert torch.equal(tensor, dict(source.model.state_dict())[name]), name


def _twice(count):
    return Diagonal(torch.full((count,), 2.0, dtype=torch.float64))


def test_blocks_go_from_the_middle(checkpoint, tmp_path):
    source = checkpoint("llama", num_hidden_layers=6)
    plan = resize.shrink(source, layers=3)
    assert plan.moves[0].layers == (2, 3, 4)
    apply(source, plan, tmp_path / "out")
    kept = open_checkpoint(tmp_path / "out").model.model.layers
    for new, old in enumerate((0, 1, 5)):
        expected = source.model.model.layers[old].mlp.down_proj.weight
        assert torch.equal(kept[new].mlp.down_proj.weight, expected)


@pytest.mark.parametrize(
    "sizes, message",
    [
        ({}, "nothing shrinks"),
        ({"width": 64}, "width 64 is more than the 32 .* use grow"),
        ({"mlp": 0}, "mlp is 0, expected a whole number of at least 1"),
        ({"layers": 4}, "layers 4 is more than the 3"),
        ({"heads": (3, 2)}, "3 query heads do not divide by 2 heads of keys"),
        ({"heads": (4, 1)}, "4 query heads for every head of keys, of which .* has 2"),
        ({"width": 30}, "hidden size .*30"),
        ({"mlp": 24, "refit": True}, "refit fits second moments; collect with --for resize"),
        ({"mlp": 24, "rescale": "paper"}, "rescale is 'paper'"),
    ],
)
def test_bad_sizes_say_what_to_do(checkpoint, sizes, message):
    with pytest.raises(GramianError, match=message):
        resize.shrink(checkpoint("llama"), **sizes)


def test_bad_input(checkpoint, moments):
    source, other = checkpoint("llama"), checkpoint("qwen2")
    found = moments(source, refit=False)
    resize.shrink(source, found, mlp=24)
    with pytest.raises(GramianError, match=r"whole second moments of 0\.mlp_mid"):
        resize.shrink(source, found, mlp=24, refit=True)
    with pytest.raises(GramianError, match="collect them on this model"):
        resize.shrink(other, found, mlp=24)
    with pytest.raises(GramianError, match=r"experts.* Give --layers alone"):
        resize.shrink(checkpoint("mixtral"), mlp=24)
    with pytest.raises(GramianError, match="experts"):
        resize.shrink(checkpoint("qwen3_moe"), width=16)
    assert resize.shrink(checkpoint("mixtral"), layers=2).evidence["shape"]["layers"] == 2
    with pytest.raises(GramianError, match="tied to others"):
        resize.shrink(checkpoint("gpt2"), width=16, heads=(4, 4))
