"""Every table names the parts that the network uses: the stream adds up, products are as named,
nothing else reads or writes the stream."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from gramian.networks import capture
from gramian.networks.families import blueprint
from tests import tiny

EVERY = (
    *tiny.FAMILIES,
    *tiny.VARIANTS,
    *tiny.ENCODERS,
    *tiny.IMAGES,
    *tiny.TWO_TOWERS,
)


@cache
def network(family):
    made = tiny.model(family)
    return made, blueprint(made.config, made)


@cache
def everything(family):
    made, plan = network(family)
    return capture(made, plan, sites(plan), tiny.inputs(family)).rows


def sites(plan):
    return [
        *(
            f"{tower.prefix}{layer.index}.{site}"
            for tower in plan.towers
            for layer in tower.layers
            for site in (*layer.taps, "resid_post")
        ),
        *(f"{tower.prefix}{site}" for tower in plan.towers for site in ("embed", "final")),
    ]


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4 * float(b.abs().max()))


def module_of(made, matrix):
    """The module of a matrix; None for a parameter that is one itself."""
    path, _, last = matrix.weight.rpartition(".")
    return made.get_submodule(path) if last == "weight" else None


def test_the_layers_are_those_of_the_configuration():
    assert [tower.depth for tower in network("whisper")[1].towers] == [2, 3]
    assert [tower.depth for tower in network("t5")[1].towers] == [2, 3]
    assert all(network(family)[1].depth == 3 for family in tiny.FAMILIES)


@pytest.mark.parametrize("family", EVERY)
def test_the_residual_stream_adds_up(family):
    made, plan = network(family)
    rows = everything(family)
    for tower in plan.towers:
        for layer in tower.layers:

            def at(site, where=f"{tower.prefix}{layer.index}."):
                return rows[plan.canonical(where + site)]

            stream = at("resid_pre")
            added = [kind for kind in ("attn", "xattn", "mlp") if f"{kind}_out" in layer.taps]
            between = ("resid_mid", "resid_xmid")[: len(added) - 1]
            for kind, after in zip(added, (*between, "resid_post"), strict=True):
                stream = stream + at(f"{kind}_out")
                norm = layer.norms.get(f"{after}_norm")
                if norm is not None:
                    stream = made.get_submodule(norm.path)(stream)
                if not layer.parallel or after == "resid_post":
                    close(stream, at(after))


@pytest.mark.parametrize("family", EVERY)
def test_taps_have_the_declared_widths(family):
    _, plan = network(family)
    for name, rows in everything(family).items():
        assert rows.dim() == 3
        assert rows.shape[-1] == plan.site_width(name), name


@pytest.mark.parametrize("family", EVERY)
def test_readers_are_given_their_site_and_writers_give_theirs(family):
    made, plan = network(family)
    rows = everything(family)
    given, returned = {}, {}
    handles = []
    parts = [(p, r) for t in plan.towers for p, r in _parts(plan, t)]
    for part, _ in parts:
        module = module_of(made, part.matrix)
        if module is not None:

            def hook(_module, args, output, name=part.matrix.weight):
                given[name], returned[name] = args[0].clone(), output.clone()

            handles.append(module.register_forward_hook(_first(hook)))
    with torch.no_grad():
        made(**tiny.inputs(family))
    for handle in handles:
        handle.remove()
    checked = 0
    for part, role in parts:
        name, site = part.matrix.weight, plan.canonical(part.site)
        if name not in given or part.matrix.layout == "conv" or site.endswith("embed"):
            continue
        expected = rows[site]
        if role == "reader":
            close(given[name].reshape(expected.shape), expected)
        elif part.norm is None:
            close(returned[name].reshape(expected.shape), expected)
        else:
            close(made.get_submodule(part.norm.path)(returned[name]), expected)
        checked += 1
    assert checked >= 3 * sum(tower.depth for tower in plan.towers)


def _parts(plan, tower):
    yield from ((part, "reader") for layer in tower.layers for part in layer.readers)
    yield from ((part, "writer") for layer in tower.layers for part in layer.outputs)


def _first(hook):
    def first(module, args, output):
        hook(module, args, output[0] if isinstance(output, tuple) else output)

    return first


@pytest.mark.parametrize("family", EVERY)
def test_q_k_v_z_and_the_middle_are_products_with_the_named_weights(family):
    made, plan = network(family)
    rows = everything(family)

    def product(matrix, x):
        weight = made.get_parameter(matrix.weight)
        y = x @ (weight if matrix.inputs_first else weight.T)
        return y + made.get_parameter(matrix.bias) if matrix.has_bias else y

    for tower in plan.towers:
        for layer in tower.layers:
            where = f"{tower.prefix}{layer.index}."
            read = [r.matrix for r in layer.readers if r.site == f"{where}attn_in"]
            if len(read) == 3:
                for matrix, site in zip(read, "qkv", strict=True):
                    close(product(matrix, rows[f"{where}attn_in"]), rows[where + site])
            for kind, middle in (("attn", "z"), ("xattn", "xz"), ("mlp", "mlp_mid")):
                if middle in layer.taps and f"{kind}_out" in layer.writers:
                    made_of = product(layer.writers[f"{kind}_out"], rows[where + middle])
                    close(made_of, rows[f"{where}{kind}_out"])


def by_hand(family, weight):
    """Rows of a fused (outputs, inputs) weight that make q, k and v, as the papers lay them out."""
    heads, size = 4, 8
    match family:
        case "gpt2":
            return weight.T.split(32)
        case "phi3":
            return weight.split([32, 16, 16])
        case "gpt_neox" | "gpt_neox_sequential" | "falcon_multi" | "falcon_sequential":
            per_head = weight.view(heads, 3, size, 32)
            return [per_head[:, i].reshape(-1, 32) for i in range(3)]
        case "falcon":
            return weight.split([32, size, size])
        case "falcon_new":
            per_group = weight.view(2, 4, size, 32)
            parts = per_group[:, :2], per_group[:, 2], per_group[:, 3]
            return [part.reshape(-1, 32) for part in parts]
    raise ValueError(family)


@pytest.mark.parametrize(
    "family",
    [
        "gpt2",
        "phi3",
        "gpt_neox",
        "gpt_neox_sequential",
        "falcon",
        "falcon_multi",
        "falcon_new",
        "falcon_sequential",
    ],
)
def test_one_matrix_is_split_into_q_k_and_v(family):
    made, plan = network(family)
    rows = everything(family)
    (matrix,) = (r.matrix for r in plan.readers(1) if r.site == "1.attn_in")
    assert matrix.fused == ("q", "k", "v")
    for site, weight in zip("qkv", by_hand(family, made.get_parameter(matrix.weight)), strict=True):
        expected = rows["1.attn_in"] @ weight.T
        if matrix.has_bias:
            column = made.get_parameter(matrix.bias)[:, None].expand(-1, 32)
            column = column.T if family == "gpt2" else column
            expected = expected + by_hand(family, column.contiguous())["qkv".index(site)][:, 0]
        close(expected, rows[f"1.{site}"])


@pytest.mark.parametrize("family", EVERY)
def test_nothing_else_writes_into_the_stream(family):
    """Without embeddings, entry and writers the stream is zero, before its norms."""
    made, plan = tiny.model(family), network(family)[1]
    kept = [tower for tower in plan.towers if tower.closed]
    with torch.no_grad():
        for tower in kept:
            for name in tower.embeddings:
                made.get_parameter(name).zero_()
            for writer in plan.stream_writers(tower.name):
                made.get_parameter(writer.matrix.weight).zero_()
                if writer.matrix.has_bias:
                    made.get_parameter(writer.matrix.bias).zero_()
    rows = capture(made, plan, sites(plan), tiny.inputs(family)).rows
    for tower in kept:
        first = rows[f"{tower.prefix}0.resid_pre"]
        expected = torch.zeros_like(first)
        for norm in tower.entry_norms:
            expected = made.get_submodule(norm.path)(expected)
        torch.testing.assert_close(first, expected)
        if all(norm.place != "stream" for norm in plan.stream_norms(tower.name)):
            assert not rows[f"{tower.prefix}final"].any()


@pytest.mark.parametrize("family", EVERY)
def test_nothing_else_reads_the_stream(family):
    """With the readers' weights at zero, what a branch adds does not depend on the input."""
    made, plan = tiny.model(family), network(family)[1]
    with torch.no_grad():
        for tower in plan.towers:
            read = [part.matrix for part in plan.stream_readers(tower.name)]
            for matrix in (*read, *(m for layer in tower.layers for m in layer.cross_readers)):
                made.get_parameter(matrix.weight).zero_()
    added = [site for site in sites(plan) if site.endswith("_out")]
    one = capture(made, plan, added, tiny.inputs(family, seed=0)).rows
    two = capture(made, plan, added, tiny.inputs(family, seed=5)).rows
    for site in added:
        torch.testing.assert_close(one[site], two[site])


@pytest.mark.parametrize("family", EVERY)
def test_norms_name_parameters_and_readers(family):
    made, plan = network(family)
    names = dict(made.named_parameters(remove_duplicate=False))
    norms = plan.stream_norms()
    assert len({norm.path for norm in norms}) == len(norms)
    for norm in norms:
        assert norm.weight in names
        assert norm.bias is None or norm.bias in names
        assert plan.norm(norm.name) == norm
        assert bool(norm.readers) <= (norm.place == "before")
    for tower in plan.towers:
        for part in plan.stream_readers(tower.name):
            assert part.norm is None or part.matrix in part.norm.readers


def test_branches_side_by_side_share_one_norm_or_have_their_own():
    shared = network("phi")[1].layers[0]
    assert list(shared.norms) == ["attn"]
    assert network("phi")[1].norm("0.mlp") == network("phi")[1].norm("0.attn")
    assert len(shared.norms["attn"].readers) == 4
    assert {reader.norm for reader in shared.readers} == {shared.norms["attn"]}
    assert list(network("falcon_new")[1].layers[0].norms) == ["attn", "mlp"]
    assert list(network("falcon")[1].layers[0].norms) == ["attn"]
    assert network("gpt_neox")[1].layers[0].parallel
    assert "resid_mid" not in network("gpt_neox")[1].layers[0].taps
    assert "resid_mid" in network("gpt_neox_sequential")[1].layers[0].taps


def test_norms_after_a_branch_on_the_stream_and_inside():
    olmo = network("olmo2")[1].layers[0]
    assert [norm.place for norm in olmo.norms.values()] == ["branch", "branch"]
    assert all(reader.norm is None for reader in olmo.readers)
    assert [writer.norm is not None for writer in olmo.outputs] == [True, True]
    assert set(olmo.inner_norms) == {"q_norm", "k_norm"}
    bert = network("bert")[1]
    assert [norm.place for norm in bert.stream_norms()] == ["stream"] * 7
    assert bert.main.final_norm is None
    assert not bert.causal


def test_what_matrices_are_capable_of():
    llama = network("llama")[1].readers(0)
    assert [reader.matrix.group for reader in llama[:3]] == [1, 2, 2]
    assert llama[0].matrix.bias_flag == "attention_bias"
    oss = network("gpt_oss")[1]
    down = oss.writer("0.mlp_out")
    assert down.is_experts
    assert down.inputs_first
    assert down.has_bias
    layers = network("qwen3_moe")[1].layers
    assert [layer.writers["mlp_out"].is_experts for layer in layers] == [True, False, True]
    assert ["mlp_mid" in layer.taps for layer in layers] == [False, True, False]


def test_embeddings_are_named_token_table_first():
    assert network("gpt2")[1].embeddings == ("transformer.wte.weight", "transformer.wpe.weight")
    assert network("t5")[1].embeddings == ("shared.weight",)
    assert len(network("bert")[1].embeddings) == 3
    narrow = network("opt_after")[1]
    assert narrow.embeddings == ("model.decoder.embed_positions.weight",)
    assert narrow.vocabulary == 97
    assert [writer.site for writer in narrow.main.entry] == ["embed"]


def test_the_end_of_an_encoder_is_read_by_the_decoder():
    for family in ("whisper", "t5"):
        made, plan = network(family)
        norm = plan.norm("encoder.final")
        assert len(norm.readers) == 6
        rows = everything(family)
        ended = made.get_submodule(norm.path)(rows["encoder.final"])
        keys = plan.tower("decoder").layers[2].cross_readers[0]
        close(ended @ made.get_parameter(keys.weight).T, rows["decoder.2.xk"])


@pytest.mark.parametrize("family", ["llama", "bert"])
def test_a_model_with_another_head_has_the_same_parts(family):
    """Paths are found inside the base model, whatever stands on it."""
    import transformers

    classes = {
        "llama": transformers.LlamaForSequenceClassification,
        "bert": transformers.BertForMaskedLM,
    }
    made = classes[family](tiny.config(family)).eval()
    plan = blueprint(made.config, made)
    assert plan.head is None
    rows = capture(made, plan, ["2.resid_pre", "final"], tiny.ids()).rows
    with torch.no_grad():
        hidden = made.base_model(tiny.ids(), output_hidden_states=True).hidden_states
    torch.testing.assert_close(rows["2.resid_pre"], hidden[2])
