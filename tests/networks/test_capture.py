"""Reading activations: what goes in, what comes out, what is refused."""

from __future__ import annotations

import pytest
import torch

from gramian.errors import GramianError
from gramian.lens.decode import logits
from gramian.networks import capture
from gramian.networks import open as open_checkpoint
from gramian.networks.families import blueprint
from tests import tiny


def network(family):
    made = tiny.model(family)
    return made, blueprint(made.config, made)


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_the_read_out_of_the_final_site_is_the_network(checkpoint, family):
    opened = checkpoint(family)
    rows = capture(opened.model, opened.blueprint, ["final"], tiny.ids(), logits=True).rows
    torch.testing.assert_close(logits(opened, rows["final"]), rows["logits"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", ["clip", "t5"])
def test_one_tower_runs_on_token_ids_alone(family):
    made, plan = network(family)
    whole = tiny.inputs(family)
    tower = plan.main.name
    site = f"{tower}.1.mlp_out"
    alone = capture(made, plan, [site, "final"], whole["input_ids"], norms=True)
    both = capture(made, plan, [site], whole).rows
    torch.testing.assert_close(alone.rows[site], both[site])
    assert f"{tower}.final" in alone.rows
    assert alone.norms.shape == (plan.depth + 1, 2, 12)


def test_padding_changes_nothing_for_an_encoder():
    made, plan = network("bert")
    ids = tiny.ids(1, 12)
    padded = torch.cat([ids, torch.zeros(1, 5, dtype=torch.long)], 1)
    mask = torch.arange(17)[None] < 12
    short = capture(made, plan, ["final"], ids).rows["final"]
    long = capture(made, plan, ["final"], padded, mask).rows["final"]
    torch.testing.assert_close(short, long[:, :12])


def test_names_without_a_tower_are_of_the_main_one():
    plan = network("clip")[1]
    assert plan.canonical("1.resid_pre") == "text.1.resid_pre"
    assert plan.canonical("vision.2.resid_post") == "vision.final"
    assert plan.residual_sites("vision")[-2:] == ("vision.2.resid_pre", "vision.final")
    assert network("whisper")[1].canonical("encoder.embed") == "encoder.0.resid_pre"


def test_cross_attention_has_sites_of_its_own():
    made, plan = network("whisper")
    sites = ["decoder.1.xattn_in", "decoder.1.xk", "decoder.1.xz", "decoder.1.resid_xmid"]
    rows = capture(made, plan, sites, tiny.inputs("whisper")).rows
    # Keys have a row for every position of the encoder.
    assert [rows[site].shape[1] for site in sites] == [12, 10, 12, 12]
    with pytest.raises(GramianError, match="not one that a whisper network has"):
        plan.tap("encoder.1.xz")


@pytest.mark.parametrize(
    "family,sites,expected",
    [
        ("whisper", ["0.resid_pre"], "token ids alone do not run"),
        ("clip", ["vision.0.q"], r"alone do not run the sites vision\.0\.q"),
        ("t5", ["decoder.0.q"], "alone do not run the sites decoder"),
    ],
)
def test_inputs_that_do_not_reach_a_tower(family, sites, expected):
    made, plan = network(family)
    with pytest.raises(GramianError, match=expected):
        capture(made, plan, sites, tiny.ids())


def test_sites_that_a_pass_did_not_reach_are_named():
    made, plan = network("whisper")
    encoder = made.model.encoder
    given = {"input_features": tiny.inputs("whisper")["input_features"]}
    with pytest.raises(GramianError, match=r"sites decoder\.0\.q were not reached"):
        capture(_Part(encoder, made), plan, ["decoder.0.q"], given)


class _Part(torch.nn.Module):
    """The whole network of which a pass runs the encoder alone."""

    def __init__(self, encoder, whole):
        super().__init__()
        self.model = whole.model
        self.encoder = encoder

    def forward(self, **inputs):
        return self.encoder(**inputs)


@pytest.mark.parametrize("family", ["bert", "t5", "clip"])
def test_networks_that_predict_no_tokens_are_refused_by_the_lens(tmp_path, family):
    from gramian import lens
    from gramian.evaluate import perplexity

    tiny.save(tmp_path, family)
    opened = open_checkpoint(tmp_path)
    with pytest.raises(GramianError, match="the lens reads predictions of the next token"):
        lens.needs(opened)
    with pytest.raises(GramianError, match="the lens reads predictions of the next token"):
        lens.read_prompt(opened, None, "w1")
    if family == "bert":
        with pytest.raises(GramianError, match="BertModel has no language-model head"):
            perplexity(opened.model, tiny.ids(1, 30)[0])
        with pytest.raises(GramianError, match="no head to make logits"):
            capture(opened.model, opened.blueprint, (), tiny.ids(), logits=True)
