"""Lower ranks of whole networks: what stays, what is predicted, what is written."""

from __future__ import annotations

import json

import pytest
import torch

from gramian.compress import rank
from gramian.compress.rank.matrices import linears_of
from gramian.errors import GramianError
from gramian.moments import MomentSet
from gramian.networks import Need, Needs, Plan, SplitLinear, apply, linears
from gramian.networks import open as open_checkpoint
from gramian.networks.certificate import outputs_of
from tests import tiny
from tests.compress.rank.cases import moments_of, opened, rows_at, weights_of

FAMILIES = (
    "llama",
    "gpt2",
    "gemma3_text",
    "mixtral",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("qwen2", "qwen3_moe", "opt", "phi3", "gpt_neox", "falcon", "olmo2", "bert")
    ),
)


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """``case("llama")``: a checkpoint and its moments, made once."""
    made = {}

    def get(family="llama"):
        if family not in made:
            made[family] = opened(tmp_path_factory.mktemp(family) / "model", family)
            made[family] = (made[family], moments_of(made[family]))
        return made[family]

    return get


def logits(checkpoint):
    return outputs_of(checkpoint.model, tiny.ids())


@pytest.mark.parametrize("family", FAMILIES)
def test_factors_are_written_and_load(case, family, tmp_path):
    checkpoint, moments = case(family)
    plan = rank.plan(checkpoint, moments, keep=0.7)
    document = plan.evidence
    assert document["removed"]["of_layers"] == pytest.approx(0.3, abs=0.02)
    certificate = apply(checkpoint, plan, tmp_path / "out")
    assert certificate.reference_error < 1e-5
    assert certificate.parameters == document["parameters"]
    written = open_checkpoint(tmp_path / "out")
    assert sum(p.numel() for p in written.model.parameters()) == document["parameters"]
    assert certificate.change > 1e-3


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_removed_is_the_same_network(case, family, tmp_path):
    checkpoint, moments = case(family)
    for allocate in ("greedy", "uniform"):
        plan = rank.plan(checkpoint, moments, keep=1.0, allocate=allocate)
        assert plan.moves == ()
        assert plan.evidence["removed"]["of_model"] == 0
        assert {entry["error_report"] for entry in plan.evidence["layers"]} == {0.0}
    apply(checkpoint, plan, tmp_path / "out")
    found = open_checkpoint(tmp_path / "out")
    torch.testing.assert_close(logits(found), logits(checkpoint), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("centred", [False, None])
def test_predicted_errors_are_those_on_the_rows(case, family, centred):
    """Every linear on the inputs that it had, on ``report``, and on the rows of the fit."""
    checkpoint, moments = case(family)
    solved = rank.solve(checkpoint, moments, centred=centred)
    plan = rank.plan_solved(checkpoint, solved, keep=0.6, allocate="uniform")
    sites = sorted({one.linear.inputs for one in solved.linears})
    seen = rows_at(checkpoint, moments, sites, ("report",), sinks=False)
    entries = weights_of(plan)
    for one in solved.linears:
        name, x = one.linear.matrix.weight, seen[one.linear.inputs]
        number = plan.evidence["ranks"][name]
        if number is None:
            continue
        y = x @ one.linear.weight(checkpoint).double().T
        gap = one.truncation.map(number)(x) - y
        measured = float(gap.square().sum() / y.square().sum())
        assert entries[name]["error_report"] == pytest.approx(measured, rel=1e-4, abs=1e-6)
        if one.linear.layer == 0:
            _check_fit(checkpoint, moments, one, number)


def _check_fit(checkpoint, moments, one, number):
    """The loss on the rows of the fit, sinks among them, is the tail of the eigenvalues."""
    folds = ("train", "select")
    x = rows_at(checkpoint, moments, [one.linear.inputs], folds, sinks=True)[one.linear.inputs]
    gap = one.truncation.map(number)(x) - x @ one.linear.weight(checkpoint).double().T
    size = one.truncation.total
    lost = float(gap.square().sum(1).mean())
    assert lost == pytest.approx(one.truncation.lost(number), rel=1e-4, abs=1e-6 * size)


def test_errors_in_float64_agree_to_many_digits(tmp_path):
    checkpoint = opened(tmp_path / "model")
    wide = open_checkpoint(tmp_path / "model", dtype="float64")
    wide.__dict__["tokenizer"] = checkpoint.tokenizer
    moments = moments_of(wide)
    solved = rank.solve(wide, moments)
    for one in solved.linears[:7]:
        x = rows_at(wide, moments, [one.linear.inputs], ("report",), sinks=False)
        x = x[one.linear.inputs]
        y = x @ one.linear.weight(wide).T
        gap = one.truncation.map(4)(x) - y
        measured = float(gap.square().sum() / y.square().sum())
        assert one.error(4) == pytest.approx(measured, rel=1e-6)


def test_dense_is_the_same_function_in_an_ordinary_checkpoint(case, tmp_path):
    from transformers import AutoModelForCausalLM

    for family in ("llama", "gpt2"):
        checkpoint, moments = case(family)
        factors = rank.plan(checkpoint, moments, keep=0.6)
        dense = rank.plan(checkpoint, moments, keep=0.6, dense=True)
        assert dense.evidence["parameters"] == factors.evidence["parameters_before"]
        apply(checkpoint, factors, tmp_path / f"{family}-factors")
        certificate = apply(checkpoint, dense, tmp_path / f"{family}-dense")
        assert certificate.loads_in["llama.cpp"].startswith("expected")
        a = open_checkpoint(tmp_path / f"{family}-factors")
        b = AutoModelForCausalLM.from_pretrained(tmp_path / f"{family}-dense").eval()
        expected = outputs_of(b, tiny.ids())
        torch.testing.assert_close(logits(a), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dense", [False, True])
def test_centred_opens_biases_and_is_nearer(case, dense, tmp_path):
    checkpoint, moments = case("llama")
    plain = rank.plan(checkpoint, moments, keep=0.5, allocate="uniform", centred=False)
    plan = rank.plan(checkpoint, moments, keep=0.5, allocate="uniform", centred=True, dense=dense)
    assert plan.evidence["centred"] == len(plan.evidence["ranks"])
    assert plain.evidence["centred"] == 0
    certificate = apply(checkpoint, plan, tmp_path / "out")
    assert certificate.reference_error < 1e-5
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["attention_bias"] is True
    assert config["mlp_bias"] is True


def test_biases_that_are_there_take_the_mean(case, tmp_path):
    checkpoint, moments = case("gpt2")
    plan = rank.plan(checkpoint, moments, keep=0.6)
    assert plan.evidence["centred"] == len(plan.evidence["ranks"])
    apply(checkpoint, plan, tmp_path / "out")


@pytest.mark.parametrize("family", ["llama", "opt"])
def test_linears_of_low_rank_are_kept_without_loss(family, tmp_path):
    def lowered(model):
        for name, weight in model.named_parameters():
            if weight.ndim == 2 and ".layers." in name:
                u, s, v = torch.linalg.svd(weight, full_matrices=False)
                weight.copy_((u[:, :4] * s[:4]) @ v[:4])

    checkpoint = opened(tmp_path / "model", family, lowered)
    moments = moments_of(checkpoint)
    for allocate in ("uniform", "greedy", "threshold"):
        plan = rank.plan(checkpoint, moments, keep=0.5, allocate=allocate)
        apply(checkpoint, plan, tmp_path / allocate)
        found = open_checkpoint(tmp_path / allocate)
        torch.testing.assert_close(logits(found), logits(checkpoint), rtol=1e-3, atol=1e-3)
        for entry in plan.evidence["layers"]:
            assert entry["error_report"] < 1e-6


def test_what_is_lost_falls_with_what_is_kept(case):
    checkpoint, moments = case("llama")
    solved = rank.solve(checkpoint, moments)
    for one in solved.linears:
        assert bool((one.errors.diff() <= 1e-12).all())
    for allocate in ("greedy", "uniform", "energy", "threshold"):
        sums = []
        for keep in (0.3, 0.5, 0.7, 0.9, 1.0):
            plan = rank.plan_solved(
                checkpoint, solved, keep=keep, allocate=allocate, multiple=1, by_type=keep == 0.7
            )
            sums.append(plan.evidence["parameters"])
            kept = [layer["kept"] for layer in plan.evidence["layers"]]
            assert all(0 < share <= 1 for share in kept)
        assert sums == sorted(sums)


def test_greedy_predicts_less_than_uniform(case):
    checkpoint, moments = case("llama")
    solved = rank.solve(checkpoint, moments)

    def lost(allocate):
        plan = rank.plan_solved(checkpoint, solved, keep=0.5, allocate=allocate)
        ranks = plan.evidence["ranks"]
        return sum(one.curve.lost(ranks[one.linear.matrix.weight]) for one in solved.linears)

    assert lost("greedy") < lost("uniform")


def test_shapes_of_grouped_keys_and_values(case):
    checkpoint, _ = case("llama")
    shapes = {one.part: one.shape for one in linears_of(checkpoint)}
    assert shapes["q_proj"] == (32, 32)
    assert shapes["k_proj"] == shapes["v_proj"] == (16, 32)
    assert shapes["down_proj"] == (32, 48)
    assert len(linears_of(checkpoint)) == 21


def test_experts_stay(case):
    checkpoint, moments = case("mixtral")
    plan = rank.plan(checkpoint, moments, keep=0.7)
    parts = {entry["part"] for entry in plan.evidence["layers"]}
    assert parts == {"q_proj", "k_proj", "v_proj", "o_proj"}
    assert any("expert tensors stay" in said for said in plan.evidence["warnings"])


def test_full_moments_of_the_last_linear_s_input_serve_as_well(case):
    checkpoint, moments = case("llama")
    wide = moments_of(checkpoint, linears(checkpoint))
    for metric in ("full", "diag"):
        a = rank.plan(checkpoint, moments, keep=0.6, metric=metric)
        b = rank.plan(checkpoint, wide, keep=0.6, metric=metric)
        assert a.evidence["ranks"] == b.evidence["ranks"]
        for one, other in zip(a.evidence["layers"], b.evidence["layers"], strict=True):
            assert one["error_report"] == pytest.approx(other["error_report"], rel=1e-3, abs=1e-6)


def test_naive_metrics_lose_more(case):
    checkpoint, moments = case("llama")
    sums = {}
    for metric in ("full", "diag", "none"):
        plan = rank.plan(checkpoint, moments, keep=0.5, allocate="uniform", metric=metric)
        sums[metric] = sum(entry["error_report"] for entry in plan.evidence["layers"])
    assert sums["full"] < sums["diag"]
    assert sums["full"] < sums["none"]


def test_a_metric_on_outputs_is_used(case):
    checkpoint, moments = case("llama")
    name = "model.layers.1.self_attn.o_proj.weight"
    metric = torch.linspace(0.01, 1, 32, dtype=torch.float64) ** 4
    plain = rank.solve(checkpoint, moments)
    found = rank.solve(checkpoint, moments, output_metrics={name: metric})
    for one, other in zip(plain.linears, found.linears, strict=True):
        same = torch.equal(one.truncation.up, other.truncation.up)
        assert same == (one.linear.matrix.weight != name)


def test_a_saved_plan_is_the_same_plan(case, tmp_path):
    checkpoint, moments = case("llama")
    for dense in (False, True):
        plan = rank.plan(checkpoint, moments, keep=0.5, centred=True, dense=dense)
        plan.save(tmp_path / f"{dense}.plan")
        again = Plan.load(tmp_path / f"{dense}.plan")
        assert again.evidence == json.loads(json.dumps(plan.evidence))
        for a, b in zip(plan.moves, again.moves, strict=True):
            assert a.describe() == b.describe()


def test_of_the_whole_model(case):
    checkpoint, moments = case("llama")
    plan = rank.plan(checkpoint, moments, keep=0.8, of="model")
    assert plan.evidence["removed"]["of_model"] == pytest.approx(0.2, abs=0.02)
    with pytest.raises(GramianError, match="more than the layers treated"):
        rank.plan(checkpoint, moments, keep=0.05, of="model")


def test_bad_input(case, tmp_path):
    checkpoint, moments = case("llama")
    for keep in (0.0, 1.5, -0.1, float("nan")):
        with pytest.raises(GramianError, match="keep is"):
            rank.plan(checkpoint, moments, keep=keep)
    with pytest.raises(GramianError, match="expected one of greedy"):
        rank.plan(checkpoint, moments, allocate="best")
    with pytest.raises(GramianError, match="metric is 'cholesky'"):
        rank.plan(checkpoint, moments, metric="cholesky")
    with pytest.raises(GramianError, match="less than 1 direction"):
        rank.plan(checkpoint, moments, keep=0.01)
    with pytest.raises(GramianError, match="no linear of a block"):
        rank.plan(checkpoint, moments, output_metrics={"lm_head.weight": torch.ones(97)})
    some = moments_of(checkpoint, Needs.of([Need("0.attn_in")]))
    with pytest.raises(GramianError, match="--for rank"):
        rank.plan(checkpoint, some)
    foreign = case("gpt2")[1]
    with pytest.raises(GramianError, match="not of"):
        rank.plan(checkpoint, foreign)


def test_factors_may_be_split_again_only_once(case):
    checkpoint, moments = case("llama")
    plan = rank.plan(checkpoint, moments, keep=0.5)
    first = next(move for move in plan.moves if isinstance(move, SplitLinear))
    with pytest.raises(GramianError):
        Plan.of(checkpoint, *plan.moves, first)


def test_few_rows_are_said(case, tmp_path):
    checkpoint, _ = case("llama")
    few = moments_of(checkpoint, tokens=250)
    plan = rank.plan(checkpoint, few, keep=0.5)
    assert any("collect more tokens" in said for said in plan.evidence["warnings"])


def test_a_set_on_disk(case, tmp_path):
    checkpoint, _ = case("llama")
    moments_of(checkpoint, out=tmp_path / "m.moments")
    plan = rank.plan(checkpoint, MomentSet.open(tmp_path / "m.moments"), keep=0.5)
    assert plan.evidence["method"] == "rank"
