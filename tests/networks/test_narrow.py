"""A narrower stream computes what the old one does with a projection, the norms' old width kept."""

from __future__ import annotations

import json

import pytest
import torch

from gramian.errors import GramianError
from gramian.maps import Dense, IdentityPlus, LowRank
from gramian.networks import FoldStream, Narrow, Plan, Rotate, apply
from gramian.networks import open as open_checkpoint
from tests import tiny
from tests.networks.claims import (
    WIDTH,
    all_norms,
    applied,
    claims,
    each_family,
    layer_norms,
    orthogonal,
    outputs,
    stream,
    unchanged,
)

TIED_TO_ATTENTION = {
    "gpt2", "gpt_neox", "gpt_neox_sequential", "opt",
    "falcon", "falcon_multi", "falcon_new", "falcon_sequential",
}  # fmt: skip
KEPT = 24


def rows(kept=KEPT, *, keep_ones=False, seed=5, width=WIDTH):
    """Orthonormal rows (kept, width); the ones of the old width to those of the new."""
    draw = torch.randn(
        width, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    if not keep_ones:
        return torch.linalg.qr(draw).Q[:kept]
    old, new = (_with_ones(n, draw) for n in (width, kept))
    # u' uᵀ + B P
    return new @ old.T[:kept]


def _with_ones(n, draw):
    first = torch.cat((torch.ones(n, 1, dtype=torch.float64), draw[:n, 1:n]), dim=1)
    basis = torch.linalg.qr(first).Q
    return basis * basis[0, 0].sign()


def in_subspace(source, basis):
    """What makes a stream that lies in the span of the rows."""
    return FoldStream(Dense(basis.T @ basis), "writers")


@each_family
def test_it_computes_what_a_projection_of_all_that_is_written_does(checkpoint, family, tmp_path):
    source = checkpoint(family)
    narrow = Narrow(Dense(rows(keep_ones=layer_norms(source))))
    if not claims(family, "rotate"):
        with pytest.raises(GramianError):
            Plan.of(source, *all_norms(source), narrow)
        return
    if family in TIED_TO_ATTENTION:
        with pytest.raises(GramianError, match=r"ties the width of attention|cannot build"):
            Plan.of(source, *all_norms(source), narrow)
        return
    with pytest.raises(GramianError, match=r"norm '0\.attn' has a gain .* FoldNorm\('0\.attn'\)"):
        Plan.of(source, narrow)
    written, certificate = applied(source, tmp_path / "out", *all_norms(source), narrow)
    assert certificate.change > 1e-3
    assert written.blueprint.width == KEPT
    assert written.config.head_dim == WIDTH // 4


@each_family
def test_a_stream_in_a_subspace_is_narrowed_without_loss(checkpoint, family, tmp_path):
    """With a norm's epsilon that counts, and biases of norms inside of the subspace or folded."""
    source = checkpoint(family)
    if not claims(family, "rotate") or family in TIED_TO_ATTENTION:
        return
    basis = rows(keep_ones=layer_norms(source))
    applied(source, tmp_path / "a", *all_norms(source), in_subspace(source, basis))
    planted = open_checkpoint(tmp_path / "a")
    written, certificate = applied(planted, tmp_path / "b", Narrow(Dense(basis)))
    unchanged(written, planted)
    assert certificate.parameters < certificate.parameters_before
    before, after = stream(planted), stream(written)
    s = (KEPT / WIDTH) ** 0.5
    for name, old in before.items():
        expected = s * old.double() @ basis.T
        torch.testing.assert_close(after[name].double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma"])
def test_a_large_epsilon_is_that_of_the_old_width(family, tmp_path):
    """Qwen3 has norms inside of attention that share the entry of the configuration."""
    source = open_checkpoint(tiny.save(tmp_path / "a", family, rms_norm_eps=0.7))
    basis = rows()
    applied(source, tmp_path / "b", *all_norms(source), in_subspace(source, basis))
    planted = open_checkpoint(tmp_path / "b")
    written, _ = applied(planted, tmp_path / "c", Narrow(Dense(basis)))
    unchanged(written, planted)
    assert written.config.rms_norm_eps == 0.7


@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma", "mixtral"])
def test_chosen_features_keep_their_gains_and_the_tie(family, tmp_path):
    """Rows of the identity need no norm folded; the final gain takes what a tied head needs."""
    source = open_checkpoint(tiny.save(tmp_path / "a", family, tie_word_embeddings=True))
    chosen = torch.eye(WIDTH, dtype=torch.float64)[torch.arange(1, 29)]
    written, certificate = applied(source, tmp_path / "b", Narrow(Dense(chosen)))
    assert written.blueprint.tied
    assert not any("lm_head" in name for name in certificate.changed)
    # As many as the source has, at 28 of 32 features of every tensor on the stream.
    assert written.blueprint.width == 28


def test_a_tie_is_kept_where_the_final_gain_is_one_number(tmp_path):
    made = tiny.model("llama", tie_word_embeddings=True)
    with torch.no_grad():
        made.model.norm.weight.fill_(1.7)
    made.save_pretrained(tmp_path / "a")
    tiny.tokenizer().save_pretrained(tmp_path / "a")
    source = open_checkpoint(tmp_path / "a")
    norms = [move for move in all_norms(source) if move.norm != "final"]
    narrow = Narrow(Dense(rows()))
    written, certificate = applied(source, tmp_path / "b", *norms, narrow)
    assert written.blueprint.tied
    assert certificate.parameters < 0.8 * certificate.parameters_before
    # Untied it computes the same, with a table more.
    other, more = applied(source, tmp_path / "c", *all_norms(source), narrow)
    assert not other.blueprint.tied
    torch.testing.assert_close(outputs(other), outputs(written), rtol=1e-4, atol=1e-4)
    assert more.parameters - certificate.parameters == 97 * KEPT


def test_all_features_kept_is_a_rotation(checkpoint, tmp_path):
    source = checkpoint()
    r = orthogonal()
    written, certificate = applied(source, tmp_path / "a", *all_norms(source), Narrow(r))
    unchanged(written, source)
    other, _ = applied(source, tmp_path / "b", *all_norms(source), Rotate(r))
    for name, old in stream(other).items():
        torch.testing.assert_close(stream(written)[name], old, rtol=1e-4, atol=1e-4)
    assert certificate.agreement == 1.0


def test_a_plan_keeps_it_and_the_folder_opens_elsewhere(checkpoint, tmp_path):
    from transformers import AutoModelForCausalLM

    source = checkpoint("qwen2")
    plan = Plan.of(source, *all_norms(source), Narrow(Dense(rows())))
    plan.save(tmp_path / "p.plan")
    again = Plan.load(tmp_path / "p.plan")
    assert [move.describe() for move in again.moves] == [move.describe() for move in plan.moves]
    apply(source, again, tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (config["hidden_size"], config["head_dim"]) == (KEPT, WIDTH // 4)
    network = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    with torch.no_grad():
        found = network(tiny.ids()).logits.double()
    torch.testing.assert_close(found, outputs(open_checkpoint(tmp_path / "out")))


def test_what_the_configuration_insists_on(checkpoint):
    source = checkpoint()
    with pytest.raises(GramianError, match="multiple of the number of attention heads"):
        Plan.of(source, *all_norms(source), Narrow(Dense(rows(30))))
    # Qwen2 does not.
    source = checkpoint("qwen2")
    Plan.of(source, *all_norms(source), Narrow(Dense(rows(29))))


def test_layer_norms_need_the_ones(checkpoint):
    source = checkpoint("phi")
    with pytest.raises(GramianError, match="subtract the mean"):
        Plan.of(source, *all_norms(source), Narrow(Dense(rows())))


@pytest.mark.parametrize("family", ["gemma2", "gemma3_text", "olmo2"])
def test_norms_of_branches_are_refused(checkpoint, family):
    source = checkpoint(family)
    with pytest.raises(GramianError, match="cannot be narrowed"):
        Plan.of(source, Narrow(Dense(rows())))


@pytest.mark.parametrize(
    ("map_", "message"),
    [
        (Dense(2 * rows()), "orthonormal rows"),
        (Dense(rows().T), "fewer features"),
        (IdentityPlus(LowRank(torch.ones(32, 1), torch.ones(1, 32))), "orthonormal rows"),
        (Dense(torch.full((2, 32), torch.nan)), "not finite"),
        (torch.eye(32), "takes a map"),
    ],
)
def test_maps_that_are_none_of_these(map_, message):
    with pytest.raises(GramianError, match=message):
        Narrow(map_)


def test_another_width(checkpoint):
    source = checkpoint()
    with pytest.raises(GramianError, match="takes 16 features"):
        Plan.of(source, *all_norms(source), Narrow(Dense(rows(8, width=16))))


def test_the_projection_is_an_honest_reference(checkpoint, tmp_path):
    """The written network is the source with every written row projected, by hand."""
    source = checkpoint()
    basis = rows()
    applied(source, tmp_path / "a", *all_norms(source), in_subspace(source, basis))
    written, _ = applied(source, tmp_path / "b", *all_norms(source), Narrow(Dense(basis)))
    expected = outputs(open_checkpoint(tmp_path / "a"))
    torch.testing.assert_close(outputs(written), expected, rtol=1e-4, atol=1e-4)
