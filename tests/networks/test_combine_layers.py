"""Blocks combined into one: exact, reversible from a file, refused where kinds differ."""

from __future__ import annotations

import pytest
import torch

from gramian.errors import GramianError
from gramian.networks import CombineLayers, DropLayers, FoldMap, Plan, apply
from gramian.networks import open as open_checkpoint
from tests.networks.claims import applied, outputs, projection


@pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2", "opt", "mixtral", "gemma2"])
def test_the_written_network_is_the_combined_one(checkpoint, family, tmp_path):
    source = checkpoint(family)
    before = {name: t.clone() for name, t in source.model.state_dict().items()}
    move = CombineLayers((0, 1, 2), (-1.0, 1.0, 1.0))
    written, certificate = applied(source, tmp_path / "out", move)
    assert written.blueprint.depth == 1
    assert certificate.change > 1e-3
    prefix = source.blueprint.layers_path
    for name, parameter in written.model.named_parameters():
        if name.startswith(f"{prefix}.0."):
            rest = name.removeprefix(f"{prefix}.0.")
            old = [source.model.get_parameter(f"{prefix}.{i}.{rest}").double() for i in range(3)]
            torch.testing.assert_close(
                parameter.double(), old[1] + old[2] - old[0], rtol=1e-6, atol=1e-6
            )
    # The hooks that the network was held against have left nothing behind.
    after = source.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_all_of_one_layer_is_dropping_the_other(checkpoint, tmp_path):
    source = checkpoint("llama")
    one, _ = applied(source, tmp_path / "one", CombineLayers((0, 1), (0.0, 1.0)))
    other, _ = applied(source, tmp_path / "other", DropLayers((0,)))
    torch.testing.assert_close(outputs(one), outputs(other), rtol=1e-5, atol=1e-6)


def test_combined_again_and_after_a_fold(checkpoint, tmp_path):
    source = checkpoint("llama")
    moves = (
        FoldMap("1.mlp_out", projection()),
        CombineLayers((1, 2), (0.5, 0.5)),
        CombineLayers((0, 1), (0.5, 0.5)),
    )
    written, _ = applied(source, tmp_path / "out", *moves)
    assert written.blueprint.depth == 1
    plan = Plan.of(source, *moves)
    plan.save(tmp_path / "plan")
    assert Plan.load(tmp_path / "plan").moves[1:] == moves[1:]
    apply(source, Plan.load(tmp_path / "plan"), tmp_path / "again")
    again = open_checkpoint(tmp_path / "again")
    torch.testing.assert_close(outputs(again), outputs(written))


@pytest.mark.parametrize(
    "layers,shares,said",
    [
        ((0,), (1.0,), "two or more"),
        ((0, 0), (1.0, 1.0), "two or more"),
        ((0, 1), (1.0,), "2 finite numbers"),
        ((0, 1), (1.0, float("nan")), "2 finite numbers"),
        ((0, 7), (1.0, 1.0), "layers 0 to 2"),
    ],
)
def test_refused(checkpoint, layers, shares, said):
    with pytest.raises(GramianError, match=said):
        Plan.of(checkpoint("llama"), CombineLayers(layers, shares))


def test_layers_of_two_kinds(checkpoint):
    """The second layer has no experts."""
    with pytest.raises(GramianError, match="not of one kind"):
        Plan.of(checkpoint("qwen3_moe"), CombineLayers((0, 1), (0.5, 0.5)))
