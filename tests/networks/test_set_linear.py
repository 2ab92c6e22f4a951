"""Another weight for one linear, and maps folded into the outputs of any matrix."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, Identity, IdentityPlus, LowRank
from gramian.networks import (
    Arrange,
    FoldMap,
    FoldOutputs,
    FoldReader,
    Plan,
    SetLinear,
    SplitLinear,
    apply,
)
from gramian.networks import open as open_checkpoint
from gramian.networks.certificate import outputs_of
from tests import tiny


def readers(checkpoint, layer=1):
    return {
        reader.matrix.weight.split(".")[-2]: reader.matrix
        for reader in checkpoint.blueprint.readers(layer)
    }


def weight(checkpoint, matrix):
    stored = checkpoint.model.get_parameter(matrix.weight).double()
    return stored.T if matrix.inputs_first else stored


def draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return 0.2 * torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3_text", "falcon", "bert"])
def test_a_weight_is_set(tmp_path, family):
    source = open_checkpoint(tiny.save(tmp_path / "model", family))
    matrix = next(w.matrix for w in source.blueprint.layers[1].outputs if "mlp" in w.site)
    old = weight(source, matrix)
    map = LowRank(draw(old.shape[0], 3), draw(3, old.shape[1], seed=1))
    certificate = apply(source, Plan.of(source, SetLinear(matrix.weight, map)), tmp_path / "out")
    assert certificate.reference_error < 1e-5
    assert certificate.parameters == certificate.parameters_before
    written = open_checkpoint(tmp_path / "out")
    torch.testing.assert_close(weight(written, matrix), map.to_dense(), rtol=1e-6, atol=1e-6)
    if matrix.has_bias:
        for name in (matrix.bias,):
            before, after = (c.model.get_parameter(name) for c in (source, written))
            assert torch.equal(before, after)


def test_the_same_weight_changes_nothing(tmp_path):
    source = open_checkpoint(tiny.save(tmp_path / "model", "gpt2"))
    moves = [
        SetLinear(matrix.weight, Dense(weight(source, matrix)))
        for matrix in readers(source).values()
    ]
    assert apply(source, Plan.of(source, *moves), tmp_path / "out").change < 1e-6


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen2"])
@pytest.mark.parametrize("split", [False, True])
def test_maps_on_outputs(tmp_path, family, split):
    """Of a plain matrix and of two factors; the constant opens a bias where there is none."""
    source = open_checkpoint(tiny.save(tmp_path / "model", family))
    matrix = next(iter(readers(source).values()))
    out, wide = weight(source, matrix).shape
    mixing = IdentityPlus(LowRank(draw(out, 2), draw(2, out, seed=1)))
    map = Affine(mixing, draw(out, seed=2))
    before = [SplitLinear(matrix.weight, LowRank(draw(out, 5), draw(5, wide, seed=3)))]
    moves = [*(before if split else []), FoldOutputs(matrix.weight, map)]
    certificate = apply(source, Plan.of(source, *moves), tmp_path / "out")
    assert certificate.reference_error < 1e-5
    assert certificate.change > 1e-3
    if family == "llama" and not split:
        stored = load_file(tmp_path / "out" / "model.safetensors")
        torch.testing.assert_close(stored[matrix.bias], map.bias.float())
        torch.testing.assert_close(
            stored[matrix.weight], mixing(weight(source, matrix).T).T.float()
        )


def test_they_go_with_other_moves(tmp_path):
    source = open_checkpoint(tiny.save(tmp_path / "model"))
    matrix = readers(source)["up_proj"]
    out, wide = weight(source, matrix).shape
    square = IdentityPlus(LowRank(draw(32, 2), draw(2, 32, seed=1)))
    plan = Plan.of(
        source,
        SetLinear(matrix.weight, LowRank(draw(out, 5), draw(5, wide, seed=3))),
        FoldOutputs(matrix.weight, Affine(Identity(out), draw(out))),
        FoldReader("1.mlp_in", square),
        FoldMap("1.mlp_out", square),
        Arrange((1, 0, 1)),
    )
    assert apply(source, plan, tmp_path / "out").reference_error < 1e-5
    plan.save(tmp_path / "x.plan")
    again = Plan.load(tmp_path / "x.plan")
    apply(source, again, tmp_path / "again")
    a, b = (open_checkpoint(tmp_path / name).model for name in ("out", "again"))
    assert torch.equal(outputs_of(a, tiny.ids()), outputs_of(b, tiny.ids()))


def test_a_tied_head_is_untied(tmp_path):
    source = open_checkpoint(tiny.save(tmp_path / "model", tie_word_embeddings=True))
    head = source.blueprint.head
    map = LowRank(draw(97, 4), draw(4, 32, seed=1))
    plan = Plan.of(source, SetLinear(head.weight, map))
    assert apply(source, plan, tmp_path / "out").reference_error < 1e-5
    written = open_checkpoint(tmp_path / "out")
    torch.testing.assert_close(
        written.model.get_input_embeddings().weight, source.model.get_input_embeddings().weight
    )


def test_refusals(tmp_path):
    source = open_checkpoint(tiny.save(tmp_path / "model"))
    name = "model.layers.1.mlp.up_proj.weight"
    with pytest.raises(GramianError, match="SetLinear takes a map"):
        SetLinear(name, torch.ones(3, 3))
    with pytest.raises(GramianError, match="add the constant with FoldOutputs"):
        SetLinear(name, Affine(Dense(draw(48, 32)), draw(48)))
    with pytest.raises(GramianError, match="expected 48 x 32"):
        Plan.of(source, SetLinear(name, Dense(draw(32, 48))))
    with pytest.raises(GramianError, match="no parameter"):
        Plan.of(source, SetLinear("model.layers.9.mlp.up_proj.weight", Dense(draw(48, 32))))
    with pytest.raises(GramianError, match="not replaced"):
        Plan.of(source, SetLinear("model.embed_tokens.weight", Dense(draw(97, 32))))
    split = SplitLinear(name, LowRank(draw(48, 4), draw(4, 32)))
    with pytest.raises(GramianError, match="stored as factors already"):
        Plan.of(source, split, SetLinear(name, Dense(draw(48, 32))))
    with pytest.raises(GramianError, match="takes a square map"):
        FoldOutputs(name, Dense(draw(48, 32)))
    with pytest.raises(GramianError, match="expected 48"):
        Plan.of(source, FoldOutputs(name, Dense(draw(32, 32))))
    with pytest.raises(GramianError, match="reads or writes the residual stream"):
        Plan.of(source, FoldOutputs("model.layers.1.mlp.nothing.weight", Identity(48)))
    experts = open_checkpoint(tiny.save(tmp_path / "experts", "mixtral"))
    fused = next(r.matrix for r in experts.blueprint.readers(1) if r.matrix.is_experts)
    with pytest.raises(GramianError, match="many experts"):
        Plan.of(experts, FoldOutputs(fused.weight, Identity(96)))
    qwen = open_checkpoint(tiny.save(tmp_path / "qwen", "qwen2"))
    with pytest.raises(GramianError, match="no bias slot"):
        Plan.of(qwen, FoldOutputs(name, Affine(Identity(48), draw(48))))
