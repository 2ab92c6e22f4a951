"""Linears stored as two factors: what is written, who opens it, what it computes."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from gramian.errors import GramianError
from gramian.maps import IdentityPlus, LowRank
from gramian.networks import Arrange, FoldMap, FoldNorm, FoldReader, Plan, SplitLinear, apply
from gramian.networks import open as open_checkpoint
from gramian.networks.certificate import outputs_of
from tests import tiny


def flipped(checkpoint, name):
    """Whether a weight is stored (in, out)."""
    blueprint = checkpoint.blueprint
    parts = (*blueprint.stream_readers(), *blueprint.stream_writers())
    return next(part.matrix.inputs_first for part in parts if part.matrix.weight == name)


def matrix(checkpoint, name):
    """A stored weight as (out, in)."""
    weight = checkpoint.model.get_parameter(name).double()
    return weight.T if flipped(checkpoint, name) else weight


def truncated(weight, rank):
    u, s, v = torch.linalg.svd(weight, full_matrices=False)
    return LowRank(u[:, :rank] * s[:rank], v[:rank])


def logits(checkpoint):
    return outputs_of(checkpoint.model, tiny.ids())


def update(seed=0):
    generator = torch.Generator().manual_seed(seed)
    draw = 0.3 * torch.randn(2, 32, 2, generator=generator, dtype=torch.float64)
    return IdentityPlus(LowRank(draw[0], draw[1].T))


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3_text", "mixtral", "falcon", "bert"])
def test_two_factors_compute_their_product(checkpoint, family, tmp_path):
    source = checkpoint(family)
    layer = source.blueprint.layers[1]
    name = next(w.matrix.weight for w in layer.outputs if w.site == "1.attn_out")
    weight = matrix(source, name)
    plan = Plan.of(source, SplitLinear(name, truncated(weight, 4)))
    certificate = apply(source, plan, tmp_path / "out")
    assert certificate.reference_error < 1e-5
    assert certificate.change > 1e-3
    written = open_checkpoint(tmp_path / "out")
    path = name.removesuffix(".weight")
    stored = load_file(tmp_path / "out" / "model.safetensors")
    assert stored[f"{path}.down.weight"].shape == (4, weight.shape[1])
    assert stored[f"{path}.up.weight"].shape == (weight.shape[0], 4)
    saved = weight.numel() - 4 * sum(weight.shape)
    assert certificate.parameters_before - certificate.parameters == saved
    # The same function as the dense weight of that rank.
    dense = truncated(weight, 4).to_dense()
    with torch.no_grad():
        parameter = source.model.get_parameter(name)
        kept = parameter.clone()
        parameter.copy_(dense.T if flipped(source, name) else dense)
        expected = logits(source)
        parameter.copy_(kept)
    torch.testing.assert_close(logits(written), expected, rtol=1e-4, atol=1e-4)


def test_factors_of_full_rank_change_nothing(checkpoint, tmp_path):
    source = checkpoint()
    name = "model.layers.1.mlp.down_proj.weight"
    plan = Plan.of(source, SplitLinear(name, truncated(matrix(source, name), 32)))
    certificate = apply(source, plan, tmp_path / "out")
    assert certificate.change < 1e-5


def test_no_other_program_takes_it_for_the_network_that_it_was(checkpoint, tmp_path):
    from transformers import AutoModelForCausalLM

    source = checkpoint()
    name = "model.layers.1.mlp.up_proj.weight"
    plan = Plan.of(source, SplitLinear(name, truncated(matrix(source, name), 4)))
    certificate = apply(source, plan, tmp_path / "out")
    assert certificate.loads_in["llama.cpp"] == "no: 1 linear is stored as factors"
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["model_type"] == "gramian"
    assert config["gramian"] == {
        "version": 2,
        "modules": {"model.layers.1.mlp.up_proj": {"kind": "factors", "rank": 4}},
        "model_type": "llama",
        "architecture": "LlamaForCausalLM",
    }
    with pytest.raises(ValueError, match="trust_remote_code"):
        AutoModelForCausalLM.from_pretrained(tmp_path / "out", trust_remote_code=False)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_moves_go_on_on_factors(checkpoint, family, tmp_path):
    """In the same plan, and in a plan of the opened folder."""
    source = checkpoint(family)
    writer = source.blueprint.writer("1.mlp_out").weight
    reader = source.blueprint.readers(1)[0]
    moves = [
        SplitLinear(writer, truncated(matrix(source, writer), 5)),
        SplitLinear(reader.matrix.weight, truncated(matrix(source, reader.matrix.weight), 6)),
        FoldNorm("1.attn"),
    ]
    more = [FoldMap("1.mlp_out", update()), FoldReader("1.attn_in", update(1)), Arrange((1, 0, 1))]
    assert apply(source, Plan.of(source, *moves, *more), tmp_path / "a").reference_error < 1e-5
    apply(source, Plan.of(source, *moves), tmp_path / "b")
    half = open_checkpoint(tmp_path / "b")
    assert apply(half, Plan.of(half, *more), tmp_path / "c").reference_error < 1e-5
    a, c = (load_file(tmp_path / n / "model.safetensors") for n in "ac")
    assert set(a) == set(c)
    for name in a:
        torch.testing.assert_close(a[name], c[name], rtol=1e-5, atol=1e-6)


def test_a_matrix_is_split_once_as_it_then_is(checkpoint, tmp_path):
    source = checkpoint()
    name = "model.layers.1.mlp.down_proj.weight"
    split = SplitLinear(name, truncated(matrix(source, name), 4))
    with pytest.raises(GramianError, match="split already"):
        Plan.of(source, split, split)
    # Folding before splitting is in the factors, or gone: they stand for the whole matrix.
    apply(source, Plan.of(source, FoldMap("1.mlp_out", update()), split), tmp_path / "a")
    apply(source, Plan.of(source, split), tmp_path / "b")
    a, b = ((tmp_path / n / "model.safetensors").read_bytes() for n in "ab")
    assert a == b


def test_a_tied_head_is_untied_before_it_is_split(tmp_path):
    source = open_checkpoint(tiny.save(tmp_path / "tied", tie_word_embeddings=True))
    table = source.model.get_parameter("model.embed_tokens.weight").double()
    plan = Plan.of(source, SplitLinear("lm_head.weight", truncated(table, 32)))
    certificate = apply(source, plan, tmp_path / "out")
    assert certificate.change < 1e-5
    assert "model.embed_tokens.weight" not in certificate.changed


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("model.layers.1.mlp.down_proj.weight", (32, 32), "expected 32 x 48"),
        ("model.layers.9.mlp.down_proj.weight", (32, 48), "no parameter"),
        ("model.embed_tokens.weight", (97, 32), "a Embedding, expected a linear"),
        ("model.norm.weight", (32, 32), "expected a linear"),
    ],
)
def test_what_cannot_be_split(checkpoint, name, shape, message):
    low = LowRank(torch.ones(shape[0], 2), torch.ones(2, shape[1]))
    with pytest.raises(GramianError, match=message):
        Plan.of(checkpoint(), SplitLinear(name, low))


def test_fused_experts_cannot_be_split(checkpoint):
    source = checkpoint("mixtral")
    name = source.blueprint.writer("1.mlp_out").weight
    with pytest.raises(GramianError, match="fused experts"):
        Plan.of(source, SplitLinear(name, LowRank(torch.ones(32, 2), torch.ones(2, 48))))


@pytest.mark.parametrize("low", [torch.ones(3, 3), LowRank(torch.ones(3, 0), torch.ones(0, 3))])
def test_factors_have_a_rank(low):
    with pytest.raises(GramianError, match="rank 1 or more"):
        SplitLinear("x.weight", low)


@pytest.fixture
def folder(checkpoint, tmp_path):
    source = checkpoint()
    name = "model.layers.1.mlp.down_proj.weight"
    plan = Plan.of(source, SplitLinear(name, truncated(matrix(source, name), 4)))
    apply(source, plan, tmp_path / "out")
    return tmp_path / "out"


def mark(modules, **other):
    made = {"version": 2, "modules": modules, "model_type": "llama"}
    return made | {"architecture": "LlamaForCausalLM"} | other


DOWN = "model.layers.1.mlp.down_proj"


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        (None, "no valid entry"),
        (mark([1]), "no valid entry.*list"),
        (mark({}), "names no module"),
        (mark({DOWN: {"kind": "factors", "rank": 4}}, version=1), "version 1, this reads 2"),
        (mark({DOWN: {"kind": "factors", "rank": 4}}, model_type="no"), "'no' network"),
        (mark({DOWN: {"kind": "factors", "rank": 4}}, architecture="open"), "class 'open'"),
        (mark({DOWN: {"kind": "factors", "rank": -4}}), "rank of 1 or more"),
        (mark({DOWN: {"kind": "factors", "rank": 2.0}}), "rank of 1 or more"),
        (mark({DOWN: {"kind": "factors", "rank": True}}), "rank of 1 or more"),
        (mark({DOWN: {"kind": "factors", "rank": 10**9}}), "rank 1000000000 .* at most 32"),
        (mark({DOWN: {"kind": "factors"}}), "expected rank"),
        (mark({DOWN: {"kind": "exec", "rank": 4}}), "expected a kind of factors"),
        (mark({DOWN: "factors"}), "expected a kind of factors"),
        (mark({"../" + DOWN: {"kind": "factors", "rank": 4}}), "no path of a module"),
        (mark({"": {"kind": "factors", "rank": 4}}), "no path of a module"),
        (mark({"model.layers.9.mlp": {"kind": "factors", "rank": 4}}), "no module"),
        (mark({"config": {"kind": "factors", "rank": 4}}), "no module"),
        (mark({"model.layers.1": {"kind": "factors", "rank": 4}}), "expected a linear"),
        (
            mark({p: {"kind": "factors", "rank": 4} for p in (DOWN, f"{DOWN}.up")}),
            "no module 'model.layers.1.mlp.down_proj.up'",
        ),
    ],
)
def test_a_damaged_mark_is_refused(folder, mark, message):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "gramian": mark}))
    with pytest.raises(GramianError, match=message):
        open_checkpoint(folder).model  # noqa: B018


@pytest.mark.parametrize("part", ["mlp.down_proj.down.weight", "mlp.up_proj.weight"])
def test_a_missing_tensor_is_refused(folder, part):
    name = f"model.layers.1.{part}"
    tensors = load_file(folder / "model.safetensors")
    del tensors[name]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(GramianError, match="lacks"):
        open_checkpoint(folder).model  # noqa: B018
