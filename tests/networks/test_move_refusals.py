"""Moves refuse what would not be exact, and say why."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, Diagonal, Identity, IdentityPlus, LowRank, Permutation
from gramian.networks import (
    Arrange,
    CentreWriters,
    DropLayers,
    FoldMap,
    FoldNorm,
    FoldReader,
    FoldStream,
    Plan,
    Replace,
    Rotate,
    SplitLinear,
)
from gramian.networks import open as open_checkpoint
from gramian.networks.draft import Draft
from tests import tiny

EYE = torch.eye(32, dtype=torch.float64)
CONSTANT = Affine(Dense(EYE), torch.ones(32, dtype=torch.float64))


def norms(checkpoint):
    return [FoldNorm(n.name) for n in checkpoint.blueprint.stream_norms() if n.readers]


@pytest.mark.parametrize(
    ("move", "message"),
    [
        (Rotate(Dense(2 * EYE)), r"orthogonal map; .* off by 3\.00e\+00"),
        (Rotate(Identity(16)), "16 x 16, expected 32 x 32"),
        (CentreWriters(), "llama network that is not so at '0.attn'"),
        (FoldReader("1.mlp_out", Dense(EYE)), "not the input of readers"),
        (FoldReader("1.q", Dense(EYE)), "not the input of readers"),
        (FoldReader("final", Dense(EYE)), "not the input of readers"),
        (FoldReader("9.attn_in", Dense(EYE)), "layers 0 to 2"),
        (FoldReader("1.attn_in", Identity(16)), "16 x 16, expected 32 x 32"),
        (FoldStream(Identity(16), "writers"), "16 x 16, expected 32 x 32"),
        (FoldStream(Dense(EYE), "readers", "1.mlp_out"), "no place on the residual stream"),
        (Arrange(()), "expected at least one"),
        (Arrange((0, 3)), "layers 0 to 2"),
        (Replace((1, 2, 3), Dense(EYE)), "layers 0 to 2"),
    ],
)
def test_a_llama_refuses(checkpoint, move, message):
    with pytest.raises(GramianError, match=message):
        Plan.of(checkpoint(), move)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Replace((0, 1), Dense(EYE)), "no block comes before layer 0"),
        (lambda: Replace((1, 3), Dense(EYE)), "consecutive"),
        (lambda: Replace((), Dense(EYE)), "consecutive"),
        (lambda: Arrange([0, 1]), "expected a tuple"),
        (lambda: Arrange((0, True)), "expected a tuple"),
        (lambda: FoldStream(Dense(EYE), "both"), "'writers' or 'readers'"),
        (lambda: FoldMap("1.mlp_out", EYE), "got a Tensor; wrap"),
        (lambda: FoldReader("1.mlp_in", Dense(EYE * float("nan"))), "not finite in 'weight'"),
        (lambda: Rotate(Diagonal(torch.full((32,), float("inf")))), "not finite"),
    ],
)
def test_moves_are_checked_when_they_are_made(make, message):
    with pytest.raises(GramianError, match=message):
        make()


@pytest.mark.parametrize(
    ("family", "move"),
    [
        ("llama", FoldStream(CONSTANT, "readers")),
        ("mistral", FoldReader("1.attn_in", CONSTANT)),
        ("mixtral", FoldReader("1.mlp_in", CONSTANT)),
        ("qwen2", FoldReader("1.mlp_in", CONSTANT)),
    ],
)
def test_a_constant_for_readers_without_a_slot_is_refused(checkpoint, family, move):
    with pytest.raises(GramianError, match="no bias slot"):
        Plan.of(checkpoint(family), move)


def test_a_scaled_token_table_takes_no_constant(checkpoint):
    """Gemma multiplies its rows by sqrt(width), so it would multiply the constant."""
    source = checkpoint("gemma3_text")
    with pytest.raises(GramianError, match="scales the rows"):
        Plan.of(source, FoldStream(CONSTANT, "writers", "0.resid_pre"))
    Plan.of(source, FoldStream(Dense(EYE), "writers", "0.resid_pre"))


def test_layer_norm_needs_a_rotation_that_keeps_the_mean(checkpoint):
    source = checkpoint("gpt2")
    draw = torch.randn(32, 32, generator=torch.manual_seed(0), dtype=torch.float64)
    with pytest.raises(GramianError, match="takes the vector of ones to itself"):
        Plan.of(source, *norms(source), Rotate(Dense(torch.linalg.qr(draw).Q)))
    # Permutations and sign flips of everything do.
    Plan.of(source, *norms(source), Rotate(Permutation(torch.randperm(32))), Rotate(Dense(-EYE)))


def test_a_gain_of_zero_with_a_bias_cannot_be_folded_without_bias_slots(tmp_path):
    """The readers of GPT-2's branches have biases; its head has none."""
    folder = tmp_path / "gpt2"
    model = tiny.model("gpt2")
    with torch.no_grad():
        model.transformer.ln_f.weight[5] = 0.0
    model.save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    source = open_checkpoint(folder)
    draft = FoldNorm("final").rewrite(Draft.of(source))
    with pytest.raises(GramianError, match="gain of zero and a bias at feature 5"):
        draft.tensor("transformer.ln_f.bias")


def test_layers_that_share_keys_stay_where_they_are(tmp_path):
    source = open_checkpoint(tiny.save(tmp_path / "shared", num_kv_shared_layers=1))
    for move in (DropLayers((0,)), Arrange((1, 0, 2)), Replace((1,), Dense(EYE))):
        with pytest.raises(GramianError, match="keys and values of earlier ones"):
            Plan.of(source, move)
    Plan.of(source, Arrange((0, 1, 2)))


def test_layers_that_depend_on_their_number_stay_where_they_are(tmp_path):
    made = tiny.save(tmp_path / "gpt2", "gpt2")
    source = open_checkpoint(made)
    source.config.scale_attn_by_inverse_layer_idx = True
    source.model.config.scale_attn_by_inverse_layer_idx = True
    with pytest.raises(GramianError, match="divides attention by the number of the layer"):
        Plan.of(source, DropLayers((0,)))


def test_token_lists_are_not_lists_of_layers(tmp_path):
    """Three end tokens and three layers."""
    source = open_checkpoint(tiny.save(tmp_path / "eos", eos_token_id=[2, 5, 7]))
    draft = DropLayers((1,)).rewrite(Draft.of(source))
    assert draft.config.eos_token_id == [2, 5, 7]


def test_numbers_of_layers_in_the_configuration_follow(tmp_path):
    source = open_checkpoint(tiny.save(tmp_path / "numbered", mlp_only_layers=[0, 2]))
    draft = Arrange((2, 1, 0, 0)).rewrite(Draft.of(source))
    assert draft.config.mlp_only_layers == [0, 2, 3]


def test_inferred_blueprints_are_for_reading(checkpoint):
    source = checkpoint()
    source.__dict__["blueprint"] = dataclasses.replace(source.blueprint, inferred=True)
    with pytest.raises(GramianError, match="reading works, writing needs a checked table"):
        Plan.of(source, DropLayers((1,)))


def test_networks_of_two_towers_are_for_reading(checkpoint):
    source = checkpoint()
    tower = source.blueprint.main
    towers = (tower, dataclasses.replace(tower, name="vision"))
    source.__dict__["blueprint"] = dataclasses.replace(source.blueprint, towers=towers)
    with pytest.raises(GramianError, match="one residual stream"):
        Plan.of(source, DropLayers((1,)))


def test_a_stream_with_other_writers_has_no_free_basis(checkpoint):
    source = checkpoint()
    tower = dataclasses.replace(source.blueprint.main, closed=False)
    source.__dict__["blueprint"] = dataclasses.replace(source.blueprint, towers=(tower,))
    for move in (Rotate(Identity(32)), FoldStream(Dense(EYE), "writers"), CentreWriters()):
        with pytest.raises(GramianError, match="something other than matrices"):
            Plan.of(source, move)
    Plan.of(source, FoldStream(Dense(EYE), "readers"))


def test_a_network_whose_stream_is_its_output_cannot_be_rotated(checkpoint):
    source = checkpoint()
    source.__dict__["blueprint"] = dataclasses.replace(source.blueprint, head=None, tied=False)
    with pytest.raises(GramianError, match="is its output"):
        Plan.of(source, Rotate(Identity(32)))


def test_every_move_survives_saving(checkpoint, tmp_path):
    source = checkpoint()
    low = LowRank(torch.ones(32, 2, dtype=torch.float64), torch.ones(2, 48, dtype=torch.float64))
    update = IdentityPlus(LowRank(0.1 * EYE[:, :2], EYE[:2]))
    moves = (
        *norms(source),
        Rotate(Permutation(torch.randperm(32, generator=torch.manual_seed(0)))),
        FoldMap("1.mlp_out", Affine(update, torch.ones(32, dtype=torch.float64))),
        FoldReader("1.attn_in", CONSTANT),
        FoldStream(update, "writers"),
        FoldStream(update, "readers", "1.resid_mid"),
        SplitLinear("model.layers.0.mlp.down_proj.weight", low),
        Replace((2,), update),
        Arrange((1, 0, 0)),
        DropLayers((0,)),
    )
    plan = Plan.of(source, *moves)
    plan.save(tmp_path / "plan.safetensors")
    loaded = Plan.load(tmp_path / "plan.safetensors")
    assert [m.describe() for m in loaded.moves] == [m.describe() for m in plan.moves]
    a, b = Draft.of(source), Draft.of(source)
    for mine, theirs in zip(plan.moves, loaded.moves, strict=True):
        a, b = mine.rewrite(a), theirs.rewrite(b)
    assert set(a.tensors) == set(b.tensors)
    assert all(torch.equal(a.tensor(name), b.tensor(name)) for name in a.tensors)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "melt"}, "unknown move 'melt'; this version knows arrange"),
        ({"layers": "1"}, "expected a tuple"),
        ({"layers": [1.5]}, "expected a tuple"),
        ({"extra": 1}, "has no 'extra'"),
    ],
)
def test_hostile_moves_are_refused(change, message):
    from gramian.networks.moves import decode, encode

    described, tensors = encode(DropLayers((1,)))
    with pytest.raises(GramianError, match=message):
        decode({**described, **change}, tensors)


def test_a_layer_is_dropped_once():
    with pytest.raises(GramianError, match="a layer is named twice"):
        DropLayers((1, 1))
