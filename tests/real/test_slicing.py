"""Slicing on real weights: SmolLM2-135M, whose head shares the token table."""

from __future__ import annotations

import pytest
import torch

import gramian as gm
from gramian.compress import slicing
from gramian.networks.certificate import outputs_of

WIDTH = 576
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def base():
    return gm.open("bundled:smollm2")


@pytest.fixture(scope="module")
def moments(base):
    docs = gm.documents("bundled:pydocs")
    return gm.collect(base, docs, slicing.needs(base), tokens=4096, length=256)


def text_ids(checkpoint, length=256):
    docs = gm.documents("bundled:pydocs")
    packing = gm.data.Packing(docs, checkpoint.tokenizer, length=length, tokens=length)
    return next(iter(packing)).ids[:1]


def mean_loss(checkpoint, ids):
    logits = outputs_of(checkpoint.model, ids)[:, :-1]
    return float(torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()))


def test_all_directions_kept_is_the_same_network(base, moments, tmp_path):
    plan = slicing.plan(base, moments, keep=1.0)
    certificate = gm.apply(base, plan, tmp_path / "out", probe=text_ids(base))
    assert certificate.change < 1e-4
    assert certificate.parameters - certificate.parameters_before == 49152 * WIDTH
    assert any("costs more than slicing saves" in one for one in plan.evidence["warnings"])


def test_directions_of_all_places_are_better_than_coordinates(base, moments, tmp_path):
    ids = text_ids(base)
    dense = mean_loss(base, ids)
    plan = slicing.plan(base, moments, keep=0.9)
    # A Llama configuration insists on multiples of its 9 heads.
    assert plan.evidence["width_after"] == 513
    gm.apply(base, plan, tmp_path / "out", probe=ids)
    sliced = gm.open(tmp_path / "out")
    assert (sliced.config.hidden_size, sliced.config.head_dim) == (513, 64)
    shares = {(one["rotation"], one["head"]): one["share"] for one in plan.evidence["sizes"]}
    assert shares["per-site", "untied"] > shares["shared", "untied"] > 1 > shares["shared", "tied"]
    spread = sum(moments.moments(site).variances for site in slicing.stream_sites(base))
    kept = spread.argsort(descending=True)[:513].sort().values
    rows = torch.eye(WIDTH, dtype=torch.float64)[kept]
    naive = gm.Plan.of(base, gm.Narrow(gm.maps.Dense(rows)))
    gm.apply(base, naive, tmp_path / "naive", probe=ids)
    chosen, dropped = mean_loss(sliced, ids), mean_loss(gm.open(tmp_path / "naive"), ids)
    assert dense < chosen < dropped
