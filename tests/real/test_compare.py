"""Comparing on real weights: rotations change nothing, and two networks meet in one pass."""

from __future__ import annotations

import pytest
import torch

import gramian as gm
from gramian.data import documents
from gramian.moments import JointMoments
from gramian.networks import capture
from gramian.networks.collect import batches


@pytest.fixture(scope="module")
def minilm():
    return gm.open("bundled:minilm")


@pytest.fixture(scope="module")
def docs():
    return documents("bundled:pydocs")


def test_a_rotated_copy_of_minilm_is_the_same(minilm, docs):
    """CKA against a rotated, scaled and shifted copy of the rows is 1 - 1e-6 or more."""
    rows = []
    for batch in batches(minilm, docs, tokens=4000, length=128, batch_rows=1024):
        seen = capture(minilm.model, minilm.blueprint, ["3.resid_pre"], batch.ids, batch.mask)
        rows.append(seen.rows["3.resid_pre"][batch.mask])
    x = torch.cat(rows)
    generator = torch.Generator().manual_seed(0)
    q = torch.linalg.qr(torch.randn(384, 384, generator=generator))[0]
    turned = 3.0 * x @ q + torch.randn(384, generator=generator)  # in float32, as a network would
    joint = JointMoments.from_rows(x, turned)
    for debiased in (True, False):
        assert abs(gm.measures.cka(joint, debiased=debiased) - 1) < 1e-6


@pytest.mark.slow
def test_two_networks_of_other_tokenizers_in_one_pass(minilm, docs):
    """SmolLM2 and MiniLM over the same text, aligned by characters: alike where it is known."""
    base = gm.open("bundled:smollm2")
    sites = (["0.resid_pre", "15.resid_pre"], ["0.resid_pre", "3.resid_pre"])
    found = gm.collect_pair(base, minilm, docs, sites=sites, tokens=6000, length=256)
    assert found.recipe.partner.align == "characters"
    assert sum(count["rows"] for count in found.counts.values()) > 1500
    matrix = gm.compare.compare(found, measures=["cka"]).matrix("cka")
    assert matrix.x == ("a:0.resid_pre", "a:15.resid_pre")
    # Token embeddings of two networks of one language are alike, and far from unrelated.
    assert matrix["a:0.resid_pre", "b:0.resid_pre"] > 0.2
