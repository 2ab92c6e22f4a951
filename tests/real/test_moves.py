"""Moves on real weights: SmolLM2-135M, de-quantized from GGUF."""

from __future__ import annotations

import pytest
import torch

import gramian as gm
from gramian.maps import Dense, IdentityPlus, LowRank
from gramian.networks import capture

WIDTH = 576


@pytest.fixture(scope="module")
def base():
    return gm.open("bundled:smollm2")


def mean_loss(checkpoint, ids):
    """Mean negative log-likelihood per token, in float64."""
    with torch.no_grad():
        logits = checkpoint.model(ids, use_cache=False).logits[:, :-1].double()
    return float(torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()))


def text_ids(checkpoint, length=256):
    docs = gm.documents("bundled:pydocs")
    packing = gm.data.Packing(docs, checkpoint.tokenizer, length=length, tokens=length)
    return next(iter(packing)).ids[:1]


def test_a_rotated_network_has_the_same_perplexity(base, tmp_path):
    draw = torch.randn(WIDTH, WIDTH, generator=torch.manual_seed(0), dtype=torch.float64)
    rotation = Dense(torch.linalg.qr(draw).Q).with_tags("orthogonal")
    norms = [gm.FoldNorm(norm.name) for norm in base.blueprint.stream_norms()]
    ids = text_ids(base)
    plan = gm.Plan.of(base, *norms, gm.Rotate(rotation))
    certificate = gm.apply(base, plan, tmp_path / "out", probe=ids)
    assert certificate.reference_error < 1e-4
    assert certificate.agreement > 0.995
    # The head no longer shares its table.
    table = base.blueprint.vocabulary * WIDTH
    assert certificate.parameters - certificate.parameters_before == table
    rotated = gm.open(tmp_path / "out")
    before, after = mean_loss(base, ids), mean_loss(rotated, ids)
    assert abs(after - before) < 1e-4
    # One channel of the stream is loud; a rotation spreads it.
    loud, quiet = (
        capture(c.model, c.blueprint, ["15.resid_pre"], ids).rows["15.resid_pre"][0, 1:]
        for c in (base, rotated)
    )
    assert loud.norm() == pytest.approx(float(quiet.norm()), rel=1e-3)
    assert loud.abs().max() > 2 * quiet.abs().max()


@pytest.mark.slow
def test_a_split_network_is_smaller_and_opens(base, tmp_path):
    name = base.blueprint.writer("20.mlp_out").weight
    u, s, v = torch.linalg.svd(base.model.get_parameter(name).double(), full_matrices=False)
    low = LowRank(u[:, :288] * s[:288], v[:288])
    plan = gm.Plan.of(base, gm.SplitLinear(name, low))
    certificate = gm.apply(base, plan, tmp_path / "out")
    assert certificate.reference_error < 1e-4
    assert certificate.parameters_before - certificate.parameters == 576 * 1536 - 288 * 2112
    again = gm.open(tmp_path / "out")
    assert again.tokenizer_digest == base.tokenizer_digest
    update = IdentityPlus(LowRank(0.1 * u[:, :2], u[:, :2].T))
    more = gm.Plan.of(again, gm.Replace((21,), update))
    assert gm.apply(again, more, tmp_path / "more").reference_error < 1e-4
