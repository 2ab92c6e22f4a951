"""What a certificate is worth: stages, dtypes, ties, bias slots, and where the result loads."""

from __future__ import annotations

import importlib

import pytest
import torch

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, IdentityPlus, LowRank
from gramian.networks import (
    Arrange,
    DropLayers,
    FoldMap,
    FoldNorm,
    FoldReader,
    FoldStream,
    Plan,
    Rotate,
    SplitLinear,
    apply,
)
from gramian.networks import open as open_checkpoint
from tests import tiny

LAYERS = "model.layers"


def low_rank(width=32, rank=3):
    generator = torch.Generator().manual_seed(5)
    up = 0.3 * torch.randn(width, rank, generator=generator, dtype=torch.float64)
    down = 0.3 * torch.randn(rank, width, generator=generator, dtype=torch.float64)
    return IdentityPlus(LowRank(up, down))


def orthogonal():
    draw = torch.randn(32, 32, generator=torch.manual_seed(0), dtype=torch.float64)
    return Dense(torch.linalg.qr(draw).Q)


def folded_norms(checkpoint):
    return [FoldNorm(norm.name) for norm in checkpoint.blueprint.stream_norms() if norm.readers]


def test_moves_speak_of_the_network_as_they_find_it(checkpoint, tmp_path):
    """Folded after a rotation, a map is one of the rotated basis; after a norm, of its output."""
    source = checkpoint()
    r, m = orthogonal(), low_rank()
    plan = Plan.of(
        source,
        *folded_norms(source),
        FoldReader("1.mlp_in", m),
        Rotate(r),
        FoldMap("1.mlp_out", m),
        FoldReader("2.mlp_in", m),
    )
    certificate = apply(source, plan, tmp_path / "out")
    assert certificate.reference_error < 1e-5
    old, new = (
        {name: p.double() for name, p in c.model.named_parameters()}
        for c in (source, open_checkpoint(tmp_path / "out"))
    )
    q, m = r.to_dense(), m.to_dense()
    for name, expected in {
        "1.mlp.down_proj": lambda w: m @ q @ w,
        "1.mlp.up_proj": lambda w: w * old[f"{LAYERS}.1.post_attention_layernorm.weight"] @ m @ q.T,
        "2.mlp.up_proj": lambda w: w * old[f"{LAYERS}.2.post_attention_layernorm.weight"] @ q.T @ m,
    }.items():
        weight = f"{LAYERS}.{name}.weight"
        torch.testing.assert_close(new[weight], expected(old[weight]), rtol=1e-5, atol=1e-6)


def test_a_gain_of_zero_hides_nothing_from_the_reference(tmp_path):
    """A map on a folded norm's output cannot be told from the unfolded one: features are gone."""
    folder = tiny.save(tmp_path / "in")
    made = open_checkpoint(folder)
    made.model.get_parameter("model.layers.1.input_layernorm.weight")[:4] = 0
    made.model.save_pretrained(folder)
    source = open_checkpoint(folder)
    plan = Plan.of(source, FoldNorm("1.attn"), FoldReader("1.attn_in", orthogonal()))
    assert apply(source, plan, tmp_path / "out").reference_error < 1e-5


def test_a_move_that_breaks_an_earlier_stage_is_caught(checkpoint, tmp_path, monkeypatch):
    module = importlib.import_module("gramian.networks.moves.rotate")
    monkeypatch.setattr(module, "map_readers", lambda draft, *_: draft)
    source = checkpoint()
    moves = [*folded_norms(source), Rotate(orthogonal()), FoldMap("1.mlp_out", low_rank())]
    with pytest.raises(GramianError, match="differs from the intended network"):
        apply(source, Plan.of(source, *moves), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_other_dtypes_are_held_to_their_own_rounding(tmp_path, dtype):
    source = open_checkpoint(tiny.save(tmp_path / "in"), dtype=dtype)
    moves = [*folded_norms(source), Rotate(orthogonal()), FoldReader("1.attn_in", low_rank())]
    certificate = apply(source, Plan.of(source, *moves), tmp_path / "out")
    assert certificate.tolerance == {"bfloat16": 0.125, "float16": 0.015625}.get(dtype, 1e-4)
    assert certificate.bytes_before == 2 * (4 if dtype == "float64" else 1) * (
        certificate.parameters_before
    )
    written = open_checkpoint(tmp_path / "out", dtype=dtype)
    assert str(next(written.model.parameters()).dtype) == f"torch.{dtype}"


def test_the_certificate_says_where_it_loads(checkpoint, tmp_path):
    source = checkpoint()
    plain = apply(source, Plan.of(source, DropLayers((1,))), tmp_path / "a")
    assert plain.loads_in["transformers"] == "loaded again and compared"
    assert plain.loads_in["vLLM"].startswith("expected as it is, where it reads llama")
    assert plain.loads_in["llama.cpp"].startswith("expected after conversion to GGUF")
    assert plain.change > 1e-3
    assert 0 <= plain.agreement <= 1
    constant = Affine(low_rank(), torch.ones(32, dtype=torch.float64))
    slot = apply(source, Plan.of(source, FoldMap("1.mlp_out", constant)), tmp_path / "b")
    assert slot.loads_in["vLLM"].startswith("not known: check that it reads")
    assert "mlp_bias = True" in slot.loads_in["vLLM"]
    tied = open_checkpoint(tiny.save(tmp_path / "tied", tie_word_embeddings=True))
    untied = apply(tied, Plan.of(tied, FoldNorm("final")), tmp_path / "c")
    assert "tie_word_embeddings = False" in untied.loads_in["llama.cpp"]
    exact = apply(source, Plan.of(source, FoldNorm("1.mlp")), tmp_path / "d")
    assert exact.change < 1e-5
    assert exact.agreement == 1


def test_a_tied_head_follows_a_rotation_and_keeps_its_table_in_a_projection(tmp_path):
    source = open_checkpoint(tiny.save(tmp_path / "tied", tie_word_embeddings=True))
    moves = [*folded_norms(source)[:-1], FoldStream(low_rank(), "writers", "0.resid_pre")]
    apply(source, Plan.of(source, *moves), tmp_path / "out")
    written = open_checkpoint(tmp_path / "out")
    table = source.model.get_parameter("model.embed_tokens.weight")
    assert torch.equal(written.model.get_parameter("lm_head.weight"), table)
    # With a neutral final gain nothing has to be untied.
    made = open_checkpoint(tiny.save(tmp_path / "even", tie_word_embeddings=True))
    made.model.get_parameter("model.norm.weight").fill_(1.5)
    made.model.save_pretrained(tmp_path / "even")
    even = open_checkpoint(tmp_path / "even")
    plan = Plan.of(even, *folded_norms(even)[:-1], Rotate(orthogonal()))
    certificate = apply(even, plan, tmp_path / "still")
    assert certificate.change < 1e-5
    assert open_checkpoint(tmp_path / "still").config.tie_word_embeddings is True


def test_a_constant_for_readers_finds_its_bias_slot(checkpoint, tmp_path):
    """W (M x + c) = W M x + W c, for q, k and v; the output projection gets zeros."""
    source = checkpoint()
    constant = torch.linspace(-1, 1, 32, dtype=torch.float64)
    plan = Plan.of(source, FoldReader("1.attn_in", Affine(low_rank(), constant)))
    assert apply(source, plan, tmp_path / "out").reference_error < 1e-5
    written = open_checkpoint(tmp_path / "out")
    assert written.config.attention_bias is True
    old = source.model.get_parameter(f"{LAYERS}.1.self_attn.k_proj.weight").double()
    new = written.model.get_parameter(f"{LAYERS}.1.self_attn.k_proj.bias").double()
    torch.testing.assert_close(new, old @ constant, rtol=1e-5, atol=1e-6)
    assert written.model.get_parameter(f"{LAYERS}.1.self_attn.o_proj.bias").abs().max() == 0


def test_arranging_back_gives_the_same_bytes(checkpoint, tmp_path):
    source = checkpoint("gemma3_text")
    apply(source, Plan.of(source, Arrange((2, 0, 1)), Arrange((1, 2, 0))), tmp_path / "out")
    written = open_checkpoint(tmp_path / "out")
    assert written.digest == source.digest
    assert written.config.layer_types == source.config.layer_types


def test_rows_that_k_quants_cannot_pack_are_counted(checkpoint, tmp_path):
    """Every matrix but the 3 down projections reads 32 features; those read 48."""
    source = checkpoint()
    said = apply(source, Plan.of(source, FoldNorm("1.mlp")), tmp_path / "a").loads_in
    assert said["llama.cpp k-quants"].startswith("23 of 23 matrices have rows of 32, 48 numbers")
    folder = tiny.save(tmp_path / "in", intermediate_size=256, tie_word_embeddings=True)
    wide = open_checkpoint(folder)
    said = apply(wide, Plan.of(wide, FoldNorm("1.mlp")), tmp_path / "b").loads_in
    assert said["llama.cpp k-quants"].startswith("19 of 22 matrices have rows of 32 numbers")
    folder = tiny.save(tmp_path / "even", hidden_size=256, intermediate_size=512)
    even = open_checkpoint(folder)
    said = apply(even, Plan.of(even, FoldNorm("1.mlp")), tmp_path / "c").loads_in
    assert said["llama.cpp k-quants"] == (
        "expected to apply: the rows of all 23 matrices are multiples of 256"
    )
    experts = checkpoint("mixtral")
    said = apply(experts, Plan.of(experts, FoldNorm("1.mlp")), tmp_path / "d").loads_in
    # 4 projections of 3 layers, two fused tensors of experts each, the table and the head.
    assert said["llama.cpp k-quants"].startswith("20 of 20 matrices have rows of 32, 48")


def test_it_says_what_vllm_makes_of_factors(tmp_path, checkpoint):
    def said(source, name):
        matrix = source.model.get_parameter(name).double()
        u, s, v = torch.linalg.svd(matrix, full_matrices=False)
        split = SplitLinear(name, LowRank(u[:, :4] * s[:4], v[:4]))
        return apply(source, Plan.of(source, split), tmp_path / name).loads_in["vLLM"]

    source = checkpoint()
    assert said(source, "model.layers.1.mlp.up_proj.weight").startswith("expected (trust_remote")
    assert said(source, "lm_head.weight").startswith("no: it has a head of its own")
    name = "model.layers.1.self_attn.o_proj.weight"
    assert said(checkpoint("mixtral"), name).startswith("not known: it has rules of its own")
    name = "transformer.h.1.mlp.dense_4h_to_h.weight"
    assert said(checkpoint("falcon"), name).startswith("no: FalconForCausalLM does not use")
    name = "encoder.layer.1.output.dense.weight"
    assert said(checkpoint("bert"), name).startswith("not known: rules for models with code")
