"""Fewer neurons and fewer heads: the same architecture, narrower, computing what hooks say."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, LowRank
from gramian.networks import (
    Arrange,
    DropLayers,
    FoldMap,
    FoldNorm,
    FoldReader,
    Plan,
    SelectHeads,
    SelectNeurons,
    SplitLinear,
    apply,
)
from gramian.networks import open as open_checkpoint
from gramian.networks.attention_heads import attention_heads
from gramian.networks.draft import Draft
from gramian.networks.families import blueprint
from gramian.networks.moves.select_neurons import neurons
from tests import tiny
from tests.networks.claims import applied, inside, projection

DENSE = (
    "llama",
    "gpt2",
    "opt",
    "phi3",
    "gemma3_text",
    "falcon",
    "bert",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in (
            "mistral", "qwen2", "qwen3", "gemma2", "olmo2", "phi", "gpt_neox",
            "gpt_neox_sequential", "opt_after", "falcon_multi", "falcon_new",
            "falcon_sequential", "roberta", "xlm-roberta", "distilbert",
        )
    ),
)  # fmt: skip
"""Networks of which every layer has one MLP."""
FREE_HEADS = (
    "llama",
    "phi3",
    "gemma3_text",
    "mixtral",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("mistral", "qwen2", "qwen3", "qwen3_moe", "gemma2", "phi")
    ),
)
"""Networks whose configuration gives the width of a head."""
FIXED_HEADS = {
    "gpt2": "attn.c_attn.weight",
    "opt": "self_attn.k_proj.weight",
    "gpt_neox": "query_key_value.weight",
    "falcon_new": "query_key_value.weight",
    "olmo2": "self_attn.q_norm.weight",
    "gpt_oss": "self_attn.sinks",
    "bert": "attention.self.query.weight",
}
"""Those in which something else is tied to the number of heads."""


def draw(rows, columns, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=generator, dtype=torch.float64) / columns**0.5


def narrower(source, count=20, *, bias=False):
    """Other neurons in every layer, read by other matrices."""
    plan = source.blueprint
    kept, maps = [], []
    for layer in plan.layers:
        width = neurons(plan, layer)[2]
        order = torch.randperm(width, generator=torch.Generator().manual_seed(layer.index))
        kept.append(tuple(order[:count].sort().values.tolist()))
        map = Dense(draw(plan.width, count, layer.index))
        maps.append(Affine(map, draw(plan.width, 1)[:, 0]) if bias else map)
    return SelectNeurons(tuple(kept), tuple(maps))


def fewer(source, *kept):
    shape = attention_heads(source.blueprint, source.config, 0)
    maps = tuple(
        Dense(draw(source.blueprint.width, len(own) * shape.width, i)) for i, own in enumerate(kept)
    )
    return SelectHeads(kept, maps)


def weight(checkpoint, matrix):
    stored = checkpoint.model.get_parameter(matrix.weight).double()
    return stored.T if matrix.inputs_first else stored


@pytest.mark.parametrize("family", DENSE)
def test_fewer_neurons(checkpoint, family, tmp_path):
    source = checkpoint(family)
    move = narrower(source)
    written, certificate = applied(source, tmp_path / "out", move)
    assert certificate.change > 1e-5 or family == "opt_after"  # a stream normalised again
    for layer, own, map in zip(source.blueprint.layers, move.kept, move.writers, strict=True):
        before, after = (
            neurons(c.blueprint, c.blueprint.layers[layer.index]) for c in (source, written)
        )
        assert after[2] == 20
        torch.testing.assert_close(weight(written, after[1]), map.to_dense(), rtol=0, atol=1e-6)
        for old, new in zip(before[0], after[0], strict=True):
            rows = torch.cat(
                [torch.tensor(own) + i for i in range(0, len(weight(source, old)), before[2])]
            )
            assert torch.equal(weight(written, new), weight(source, old)[rows])


@pytest.mark.parametrize("family", FREE_HEADS)
@pytest.mark.parametrize("kept", [((2, 3), (0, 1), (2, 3)), ((0, 2), (1, 3), (1, 2))])
def test_fewer_heads(checkpoint, family, kept, tmp_path):
    """Whole groups of two, then one of each group."""
    source = checkpoint(family)
    move = fewer(source, *kept)
    written, certificate = applied(source, tmp_path / "out", move)
    assert certificate.change > 1e-3
    after = attention_heads(written.blueprint, written.config, 0)
    assert (after.count, after.keys, after.width) == (2, 1 if kept[0] == (2, 3) else 2, 8)
    assert written.config.head_dim == 8
    torch.testing.assert_close(
        weight(written, after.writer), move.writers[0].to_dense(), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize(("family", "name"), FIXED_HEADS.items())
def test_heads_that_cannot_go(checkpoint, family, name):
    source = checkpoint(family)
    with pytest.raises(GramianError, match=f"{name} of shape .* cannot change alone"):
        Plan.of(source, fewer(source, (0, 1), (0, 1), (0, 1)))


def test_a_stream_that_heads_do_not_divide(tmp_path):
    """Configurations of Llama refuse a width that is no multiple of the number of heads."""
    source = open_checkpoint(tiny.save(tmp_path, num_attention_heads=8, num_key_value_heads=8))
    with pytest.raises(GramianError, match=r"cannot have num_attention_heads = 7.*not a multiple"):
        Plan.of(source, fewer(source, *[tuple(range(7))] * 3))


@pytest.mark.parametrize("family", ["llama", "gpt2", "phi3"])
def test_everything_kept_changes_nothing(checkpoint, family, tmp_path):
    source = checkpoint(family)
    plan = source.blueprint
    every = [neurons(plan, layer) for layer in plan.layers]
    move = SelectNeurons(
        tuple(tuple(range(width)) for _, _, width in every),
        tuple(Dense(weight(source, writer)) for _, writer, _ in every),
    )
    moves = [move]
    if family != "gpt2":
        shapes = [attention_heads(plan, source.config, i) for i in range(plan.depth)]
        writers = tuple(Dense(weight(source, shape.writer)) for shape in shapes)
        moves.append(SelectHeads(((0, 1, 2, 3),) * 3, writers))
    certificate = apply(source, Plan.of(source, *moves), tmp_path / "out")
    assert certificate.change < 1e-6
    assert certificate.changed == ()
    assert certificate.loads_in["vLLM"].startswith("expected")


@pytest.mark.parametrize("family", ["gpt2", "opt"])
def test_an_affine_map_gives_the_bias(checkpoint, family, tmp_path):
    source = checkpoint(family)
    move = narrower(source, bias=True)
    written, _ = applied(source, tmp_path / "out", move)
    writer = neurons(written.blueprint, written.blueprint.layers[1])[1]
    bias = written.model.get_parameter(writer.bias).double()
    torch.testing.assert_close(bias, move.writers[1].bias, rtol=0, atol=1e-6)
    kept, _ = applied(source, tmp_path / "kept", narrower(source))
    old = source.model.get_parameter(writer.bias)
    assert torch.equal(kept.model.get_parameter(writer.bias), old)


def test_a_constant_without_a_slot_is_refused(checkpoint):
    source = checkpoint()
    with pytest.raises(GramianError, match="no bias slot"):
        Plan.of(source, narrower(source, bias=True))


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_among_other_moves(checkpoint, family, tmp_path):
    """Before and behind moves that fold into the same matrices, drop layers and repeat them."""
    source = checkpoint(family)
    moves = [
        FoldReader("1.mlp_in", projection()),
        FoldNorm("1.mlp"),
        FoldMap("1.mlp_out", projection(2)),
        narrower(source, 30),
        FoldMap("2.mlp_out", projection(2)),
        FoldReader(inside(source).replace("resid_mid", "mlp_in"), projection(1)),
        Arrange((0, 2, 1)),
        SelectNeurons(tuple(tuple(range(i, i + 20)) for i in range(3)), narrower(source).writers),
        DropLayers((0,)),
    ]
    if family == "llama":
        moves.insert(4, fewer(source, (2, 3), (0, 1), (2, 3)))
    written, certificate = applied(source, tmp_path / "out", *moves)
    assert written.blueprint.depth == 2
    assert certificate.parameters < certificate.parameters_before


def test_a_layer_that_went_before_is_not_narrowed(checkpoint, tmp_path):
    source = checkpoint()
    rest = narrower(source)
    with pytest.raises(GramianError, match="is for 3 layers and this network has 2"):
        Plan.of(source, DropLayers((0,)), rest)
    two = SelectNeurons(rest.kept[1:], rest.writers[1:])
    applied(source, tmp_path / "a", DropLayers((0,)), two)
    applied(source, tmp_path / "b", rest, DropLayers((0,)))
    a, b = (load_file(tmp_path / n / "model.safetensors") for n in "ab")
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_both_survive_saving(checkpoint, tmp_path):
    source = checkpoint("phi3")
    plan = Plan.of(source, narrower(source), fewer(source, (2, 3), (0, 1), (2, 3)))
    plan.save(tmp_path / "plan.safetensors")
    loaded = Plan.load(tmp_path / "plan.safetensors")
    assert [m.describe() for m in loaded.moves] == [
        "keep 20 neurons of every MLP",
        "keep 2 attention heads of every layer",
    ]
    a, b = Draft.of(source), Draft.of(source)
    for mine, theirs in zip(plan.moves, loaded.moves, strict=True):
        assert theirs.kept == mine.kept
        a, b = mine.rewrite(a), theirs.rewrite(b)
    assert all(torch.equal(a.tensor(name), b.tensor(name)) for name in a.tensors)


def test_half_precision_and_tied_tables(tmp_path):
    made = tiny.model("llama", tie_word_embeddings=True).to(torch.bfloat16)
    made.save_pretrained(tmp_path / "half")
    tiny.tokenizer().save_pretrained(tmp_path / "half")
    source = open_checkpoint(tmp_path / "half", dtype="bfloat16")
    apply(source, Plan.of(source, narrower(source)), tmp_path / "out")
    written = open_checkpoint(tmp_path / "out", dtype="bfloat16")
    assert written.model.dtype == torch.bfloat16
    assert written.blueprint.tied


@pytest.mark.parametrize("family", ["mixtral", "qwen3_moe", "gpt_oss"])
def test_experts_are_not_narrowed(checkpoint, family):
    source = checkpoint(family)
    maps = (Dense(draw(32, 4)),) * 3
    with pytest.raises(GramianError, match="has no MLP of its own but experts"):
        Plan.of(source, SelectNeurons(((0, 1, 2, 3),) * 3, maps))


def test_two_factors_are_not_narrowed(checkpoint):
    source = checkpoint()
    low = LowRank(draw(32, 2), draw(2, 48))
    split = SplitLinear("model.layers.1.mlp.down_proj.weight", low)
    with pytest.raises(GramianError, match="is stored as two factors; select before"):
        Plan.of(source, split, narrower(source))


MAPS = tuple(Dense(torch.eye(32, 3, dtype=torch.float64)) for _ in range(3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SelectNeurons((), ()), "a tuple of indices for every layer"),
        (lambda: SelectNeurons([[0, 1, 2]] * 3, MAPS), "a tuple of indices for every layer"),
        (lambda: SelectNeurons(((0, 1, 2.0),) * 3, MAPS), "a tuple of indices for every layer"),
        (lambda: SelectNeurons(((0, 2, 1),) * 3, MAPS), "ascending"),
        (lambda: SelectNeurons(((0, 1, 1),) * 3, MAPS), "each once"),
        (lambda: SelectNeurons(((-1, 0, 1),) * 3, MAPS), "count from 0"),
        (lambda: SelectNeurons(((), (), ()), MAPS), "at least one"),
        (lambda: SelectNeurons(((0, 1, 2), (0, 1), (0, 1, 2)), MAPS), "between 2 and 3"),
        (lambda: SelectNeurons(((0, 1, 2),) * 3, MAPS[:2]), "one map for each of the 3 layers"),
        (lambda: SelectNeurons(((0, 1),) * 3, MAPS), "keeps 2 neurons"),
        (
            lambda: SelectHeads(((0,),) * 3, (Dense(torch.full((32, 8), float("nan"))),) * 3),
            "not finite",
        ),
        (lambda: SelectHeads(((0,),) * 3, (torch.eye(32, 8),) * 3), "got a Tensor"),
    ],
)
def test_selections_are_checked_when_they_are_made(make, message):
    with pytest.raises(GramianError, match=message):
        make()


@pytest.mark.parametrize(
    ("move", "message"),
    [
        (SelectNeurons(((0, 1, 48),) * 3, MAPS), "0.mlp_mid has 0 to 47 and not 48"),
        (SelectNeurons(((0, 1, 2),) * 2, MAPS[:2]), "is for 2 layers"),
        (
            SelectNeurons(((0, 1, 2),) * 3, (Dense(torch.ones(31, 3)),) * 3),
            "writes 32 features, its new map",
        ),
        (SelectHeads(((4,),) * 3, (Dense(torch.ones(32, 8)),) * 3), "has 0 to 3 and not 4"),
        (SelectHeads(((1, 2, 3),) * 3, (Dense(torch.ones(32, 24)),) * 3), "equally many of every"),
        (SelectHeads(((2, 3),) * 3, (Dense(torch.ones(32, 8)),) * 3), "keeps 2 heads of 8"),
        (
            SelectHeads(((0, 1), (0, 2), (2, 3)), (Dense(torch.ones(32, 16)),) * 3),
            "one number for all",
        ),
    ],
)
def test_a_llama_refuses(checkpoint, move, message):
    with pytest.raises(GramianError, match=message):
        Plan.of(checkpoint(), move)


@pytest.mark.parametrize("family", [*tiny.FAMILIES, *tiny.ENCODERS, *tiny.TWO_TOWERS])
def test_the_configuration_counts_neurons_and_heads(family):
    made = tiny.model(family)
    for tower in blueprint(made.config, made).towers:
        for layer in tower.layers:
            counted = _value(made.config, tower.inner_key)
            if "mlp_mid" in layer.taps and counted is not None:  # GPT-2: four times the width
                assert counted == layer.taps["mlp_mid"].width
            heads = _value(made.config, tower.heads_key)
            assert layer.taps["z"].width == heads * 8


def _value(config, key):
    for part in key.split("."):
        config = getattr(config, part)
    return config
