"""Slicing by moments: what it keeps, what it refuses, what it says of sizes."""

from __future__ import annotations

import json

import pytest
import torch

from gramian.compress import slicing
from gramian.compress.slicing.bases import seconds
from gramian.errors import GramianError
from gramian.networks import FoldNorm, Narrow, Plan, apply, capture, collect
from gramian.networks import open as open_checkpoint
from gramian.networks.certificate import outputs_of
from tests import tiny

TAKEN = ("llama", "qwen2", "gemma", "phi", "mixtral")


def logits(checkpoint):
    return outputs_of(checkpoint.model, tiny.ids())


def gap(found, expected):
    return float((found - expected).abs().max() / expected.abs().max())


def basis_of(plan):
    (narrow,) = [move for move in plan.moves if isinstance(move, Narrow)]
    return narrow.map.to_dense(torch.float64)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("family", TAKEN)
def test_nothing_removed_gives_the_same_logits(case, family, tied, tmp_path):
    found = case(family, tie_word_embeddings=tied)
    source = found.checkpoint
    plan = slicing.plan(source, found.moments, keep=1.0)
    apply(source, plan, tmp_path / "out")
    written = open_checkpoint(tmp_path / "out")
    assert gap(logits(written), logits(source)) < 1e-4
    extra = written.blueprint.vocabulary * 32 if tied else 0
    more = plan.evidence["parameters"] - plan.evidence["parameters_before"]
    assert more == extra
    assert plan.evidence["energy_kept"] == pytest.approx(1.0, abs=1e-12)
    assert max(one["error_report"] for one in plan.evidence["layers"]) < 1e-10


@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma"])
def test_a_stream_of_few_directions_is_sliced_without_loss(planted, family, tmp_path):
    found = planted(family)
    source = found.checkpoint
    plan = slicing.plan(source, found.moments, keep=0.5)
    assert plan.evidence["width_after"] == 16
    assert plan.evidence["discarded_report"] < 1e-10
    apply(source, plan, tmp_path / "out")
    written = open_checkpoint(tmp_path / "out")
    assert written.config.hidden_size == 16
    assert gap(logits(written), logits(source)) < 1e-4
    # One step further is a loss that the moments foresee.
    less = slicing.plan(source, found.moments, keep=0.4)
    assert less.evidence["width_after"] == (12 if family == "llama" else 8)
    assert less.evidence["discarded_report"] > 1e-4


@pytest.mark.parametrize("family", TAKEN)
def test_energies_are_eigenvalues_and_those_of_rows(case, family):
    found = case(family)
    source, moments = found.checkpoint, found.moments
    sites = slicing.stream_sites(source)
    plan = slicing.plan(source, moments, keep=0.75, multiple=4, sink_weight=0.5)
    rows, mean_free = basis_of(plan), family == "phi"
    # An independent pooling: kept share of every place, sinks apart.
    pooled, kept = 0.0, 0.0
    for site in sites:
        for weight, second in zip(
            (1.0, 0.5),
            seconds(moments, site, ("train", "select"), mean_free=mean_free),
            strict=True,
        ):
            if second.trace() > 0:
                pooled += weight
                kept += weight * float((rows @ second @ rows.T).trace() / second.trace())
    assert plan.evidence["energy_kept"] == pytest.approx(kept / pooled, rel=1e-9)
    basis = slicing.shared_basis(source, moments, sites, sink_weight=0.5)
    assert float(basis.values.sum()) == pytest.approx(pooled, rel=1e-9)
    count = plan.evidence["width_after"] - mean_free
    assert basis.kept(count) == pytest.approx(kept / pooled, rel=1e-9)


def test_the_predicted_error_is_that_of_the_same_rows(case):
    """On all rows of the fold, recomputed from captured activations of all documents."""
    found = case("llama")
    source, moments = found.checkpoint, found.moments
    plan = slicing.plan(source, moments, keep=0.75)
    rows = basis_of(plan)
    for one in plan.evidence["sites"]:
        rest, sinks = seconds(moments, one["site"], "report", mean_free=False)
        values, vectors = torch.linalg.eigh(rest)
        # Rows with exactly these second moments.
        made = vectors * values.clamp_min(0).sqrt()
        left = made.T - made.T @ rows.T @ rows
        share = float(left.square().sum() / made.square().sum())
        assert one["discarded_report"] == pytest.approx(share, rel=1e-6, abs=1e-12)
        assert (one["discarded_sinks_report"] is None) == (float(sinks.trace()) == 0)


def test_more_directions_never_lose_more(case):
    found = case("qwen2")
    lost = [
        slicing.plan(found.checkpoint, found.moments, keep=k / 8, multiple=4).evidence
        for k in range(1, 9)
    ]
    kept = [one["energy_kept"] for one in lost]
    assert kept == sorted(kept)
    report = [one["discarded_report"] for one in lost]
    assert report == sorted(report, reverse=True)


def test_the_sliced_network_computes_what_the_simulation_does(case, tmp_path):
    found = case("llama")
    source = found.checkpoint
    plan = slicing.plan(source, found.moments, keep=0.75)
    apply(source, plan, tmp_path / "out")
    with slicing.simulated(source, found.moments, 24, rotation="shared") as simulation:
        expected = logits(source)
    assert gap(logits(open_checkpoint(tmp_path / "out")), expected) < 1e-4
    mean = sum(one.report for one in simulation.discarded) / len(simulation.discarded)
    assert plan.evidence["discarded_report"] == pytest.approx(mean, rel=1e-9)


def test_phi_spends_one_feature_on_the_mean(case, tmp_path):
    found = case("phi")
    source = found.checkpoint
    plan = slicing.plan(source, found.moments, keep=0.75)
    apply(source, plan, tmp_path / "out")
    with slicing.simulated(source, found.moments, 23, rotation="shared"):
        expected = logits(source)
    assert gap(logits(open_checkpoint(tmp_path / "out")), expected) < 1e-4


def test_the_tie_stays_where_the_final_gain_is_one_number(tmp_path, corpus):
    from tests.compress.slicing.conftest import gathered

    made = tiny.model("llama", tie_word_embeddings=True)
    with torch.no_grad():
        made.model.norm.weight.fill_(1.3)
    made.save_pretrained(tmp_path / "a")
    tiny.tokenizer().save_pretrained(tmp_path / "a")
    source = open_checkpoint(tmp_path / "a")
    moments = gathered(source, corpus)
    tied = slicing.plan(source, moments, keep=0.75, head="tied")
    untied = slicing.plan(source, moments, keep=0.75)
    for name, plan in (("tied", tied), ("untied", untied)):
        apply(source, plan, tmp_path / name)
    first, second = (open_checkpoint(tmp_path / name) for name in ("tied", "untied"))
    assert first.blueprint.tied
    assert not second.blueprint.tied
    assert gap(logits(first), logits(second)) < 1e-4
    assert untied.evidence["parameters"] - tied.evidence["parameters"] == 97 * 24
    assert tied.evidence["parameters"] / tied.evidence["parameters_before"] < 0.8


def test_a_tie_that_cannot_stay(case):
    found = case("llama", tie_word_embeddings=True)
    with pytest.raises(GramianError, match="gain of the final norm differs"):
        slicing.plan(found.checkpoint, found.moments, keep=0.75, head="tied")
    found = case("llama")
    with pytest.raises(GramianError, match="table of its own"):
        slicing.plan(found.checkpoint, found.moments, keep=0.75, head="tied")


def test_the_document_and_a_saved_plan(case, tmp_path):
    found = case("llama", tie_word_embeddings=True)
    plan = slicing.plan(found.checkpoint, found.moments, keep=0.75)
    document = json.loads(json.dumps(plan.evidence))
    assert document["method"] == "slice"
    assert document["width_after"] == 24
    layers = document["layers"]
    assert [(one["layer"], one["part"]) for one in layers[:2]] == [
        (0, "resid_pre"),
        (0, "resid_mid"),
    ]
    assert (layers[-1]["layer"], layers[-1]["part"]) == (2, "resid_post")
    assert {one["kept"] for one in layers} == {0.75}
    plan.save(tmp_path / "p.plan")
    again = Plan.load(tmp_path / "p.plan")
    assert dict(again.evidence) == document
    assert torch.equal(basis_of(again), basis_of(plan))


def test_the_head_outweighs_what_slicing_saves(case):
    """A vocabulary of 97 and three layers of width 32: the plan says that it grows."""
    tied, untied = case("llama", tie_word_embeddings=True), case("llama")
    large = slicing.plan(tied.checkpoint, tied.moments, keep=0.9)
    assert large.evidence["parameters"] < large.evidence["parameters_before"]
    assert not large.evidence["warnings"] or "rows" in large.evidence["warnings"][0]
    same = slicing.plan(tied.checkpoint, tied.moments, keep=1.0)
    assert any("costs more than slicing saves" in one for one in same.evidence["warnings"])
    same = slicing.plan(untied.checkpoint, untied.moments, keep=0.5)
    assert not any("costs more" in one for one in same.evidence["warnings"])


@pytest.mark.parametrize("family", ["gpt2", "opt", "gpt_neox", "falcon"])
def test_attention_as_wide_as_the_stream_is_refused(case, family):
    found = case(family)
    with pytest.raises(GramianError, match=r"ties the width of attention|cannot build"):
        slicing.plan(found.checkpoint, found.moments, keep=0.75)


@pytest.mark.parametrize("family", ["gemma2", "olmo2"])
def test_norms_of_branches_are_refused(case, family):
    found = case(family)
    with pytest.raises(GramianError, match="cannot be narrowed"):
        slicing.plan(found.checkpoint, found.moments, keep=0.75)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep": 0.0}, "keep is 0.0"),
        ({"keep": 1.2}, "keep is 1.2"),
        ({"keep": float("nan")}, "keep is nan"),
        ({"keep": 0.05}, "insists on multiples of 4"),
        ({"keep": 0.8, "multiple": 0}, "multiple is 0"),
        ({"keep": 0.8, "multiple": 33}, "multiple is 33"),
        ({"keep": 0.8, "of": "heads"}, "of is 'heads'"),
        ({"keep": 0.01, "of": "model"}, "more than slicing can"),
        ({"keep": 0.8, "sink_weight": -1.0}, "sink_weight"),
    ],
)
def test_bad_options(case, options, message):
    found = case("llama")
    with pytest.raises(GramianError, match=message):
        slicing.plan(found.checkpoint, found.moments, **options)


def test_widths(case):
    llama, qwen = case("llama"), case("qwen2")

    def width(found, **options):
        return slicing.plan(found.checkpoint, found.moments, **options).evidence["width_after"]

    assert width(llama, keep=0.8) == 24  # a multiple of its 4 heads: 25.6 down
    assert width(llama, keep=0.95) == 28
    assert width(qwen, keep=0.95) == 24  # of 8
    assert width(qwen, keep=0.95, multiple=1) == 30
    assert width(llama, keep=0.95, multiple=3) == 24  # of 3 and 4


@pytest.mark.parametrize("tied", [False, True])
def test_a_share_of_the_model(case, tied):
    found = case("qwen2", tie_word_embeddings=tied)
    plan = slicing.plan(found.checkpoint, found.moments, keep=0.8, of="model", multiple=1)
    share = plan.evidence["parameters"] / plan.evidence["parameters_before"]
    assert 0.76 < share <= 0.8


def test_other_moments(case, corpus):
    found, other = case("llama"), case("llama", tie_word_embeddings=True)
    with pytest.raises(GramianError, match="collect them on this model"):
        slicing.plan(found.checkpoint, other.moments, keep=0.8)
    from gramian import lens
    from gramian.data import documents

    source = found.checkpoint
    needs = lens.needs(source, submodules=False)
    moments = collect(source, documents(corpus), needs, tokens=2000, length=32, batch_rows=256)
    with pytest.raises(GramianError, match="--for slice"):
        slicing.plan(source, moments, keep=0.8)


def test_fewer_rows_than_dimensions(tmp_path, corpus):
    """Rank-deficient moments: a plan, a warning, and a network that runs."""
    from tests.compress.slicing.conftest import gathered

    source = open_checkpoint(tiny.save(tmp_path / "a"))
    moments = gathered(source, corpus, tokens=200)
    plan = slicing.plan(source, moments, keep=0.75)
    assert plan.evidence["rows_per_dimension"] < 10
    assert any("collect more tokens" in one for one in plan.evidence["warnings"])
    apply(source, plan, tmp_path / "out")
    assert bool(logits(open_checkpoint(tmp_path / "out")).isfinite().all())


def test_sink_rows_are_in_the_fit(case):
    """Without them their direction is just one of many; with them the basis has it."""
    found = case("llama")
    source, moments = found.checkpoint, found.moments
    sites = slicing.stream_sites(source)
    _, sinks = seconds(moments, "final", ("train", "select"), mean_free=False)
    assert float(sinks.trace()) > 0

    def shown(weight):
        rows = slicing.shared_basis(source, moments, sites, sink_weight=weight).rows[:8]
        return float((rows @ sinks @ rows.T).trace() / sinks.trace())

    assert shown(0.0) <= shown(1.0) + 1e-9 <= shown(10.0) + 2e-9


def test_the_stream_of_the_written_network(case, tmp_path):
    """At the start it is the old one's coordinates in the basis, times sqrt(24 / 32)."""
    found = case("qwen2")
    source = found.checkpoint
    plan = slicing.plan(source, found.moments, keep=0.75)
    apply(source, plan, tmp_path / "out")
    written = open_checkpoint(tmp_path / "out")
    old, new = (
        capture(c.model, c.blueprint, ["0.resid_pre"], tiny.ids()).rows["0.resid_pre"]
        for c in (source, written)
    )
    expected = (24 / 32) ** 0.5 * old.double() @ basis_of(plan).T
    torch.testing.assert_close(new.double(), expected, rtol=1e-4, atol=1e-5)
    assert [type(move) for move in plan.moves].count(FoldNorm) == 7
