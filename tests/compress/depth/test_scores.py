"""Scores of blocks against the rows, and the block that writes the sink."""

from __future__ import annotations

import math

import pytest
import torch
from sklearn.linear_model import LinearRegression

from gramian.compress import depth
from gramian.compress.depth import Cut
from gramian.compress.depth.sink import warnings_for
from gramian.errors import GramianError
from tests.compress.depth.conftest import moments_of, opened
from tests.compress.depth.rows import rows_at

EVERY = ("train", "select", "report")


@pytest.fixture(scope="module")
def scored(checkpoint, moments):
    return depth.scores(checkpoint, moments)


def test_cosines_and_change(checkpoint, moments, scored):
    sites = checkpoint.blueprint.residual_sites()
    rows = rows_at(checkpoint, moments, sites, EVERY, sinks=False)
    for block in scored.blocks:
        x, y = rows[sites[block.layer]], rows[sites[block.layer + 1]]
        cosine = float(torch.nn.functional.cosine_similarity(x, y, dim=1).mean())
        assert block.cosine == pytest.approx(cosine, abs=1e-9)
        assert block.influence == pytest.approx(1 - cosine, abs=1e-9)
        assert block.angular == pytest.approx(math.acos(cosine) / math.pi, abs=1e-9)
        change = float((y - x).square().sum() / y.square().sum())
        assert block.change == pytest.approx(change, rel=1e-9)
    sinks = rows_at(checkpoint, moments, (sites[1], sites[4]), EVERY, sinks=True)
    apart = torch.nn.functional.cosine_similarity(sinks[sites[1]], sinks[sites[4]], dim=1).mean()
    assert scored.sinks.cosines[1, 4] == pytest.approx(float(apart), abs=1e-9)


def test_linearity_is_that_of_the_rows(checkpoint, moments, scored):
    sites = checkpoint.blueprint.residual_sites()
    rows = rows_at(checkpoint, moments, sites[2:4], EVERY, sinks=False)
    x, y = (rows[site].numpy() for site in sites[2:4])
    expected = LinearRegression().fit(x, y).score(x, y, sample_weight=None)
    # scikit-learn's score averages over coordinates; ours takes all variance together.
    gap = y - LinearRegression().fit(x, y).predict(x)
    together = 1 - (gap**2).sum() / ((y - y.mean(0)) ** 2).sum()
    assert scored.blocks[2].linearity == pytest.approx(float(together), abs=1e-9)
    assert abs(float(expected) - float(together)) < 0.2


def test_explained_is_the_error_of_the_map(checkpoint, moments, scored):
    assert scored.blocks[0].explained is None
    for block in scored.blocks[1:]:
        found = depth.fit(checkpoint, moments, Cut(block.layer, 1), strengths=(0.0,))
        assert block.explained == pytest.approx(1 - found.error_report, abs=1e-9)


def test_without_a_writer(scored):
    assert scored.sink_writer is None
    assert scored.angular(Cut(1, 2)) == max(
        math.acos(c) / math.pi for c in (scored.rows.cosines[1, 3], scored.sinks.cosines[1, 3])
    )


@pytest.fixture(scope="module")
def sinking(tmp_path_factory):
    """Block 2 makes the first token of every window long."""
    checkpoint = opened(tmp_path_factory.mktemp("sinking"))
    direction = torch.randn(32, generator=torch.Generator().manual_seed(1))

    def write(module, args, kwargs, output):
        output = output.clone()
        output[:, 0] += 3000 * direction
        return output

    checkpoint.model.model.layers[2].register_forward_hook(write, with_kwargs=True)
    return checkpoint, moments_of(checkpoint, max_remove=2, linearity=True)


def test_the_writer_is_found_and_avoided(sinking):
    checkpoint, moments = sinking
    scored = depth.scores(checkpoint, moments)
    writer = scored.sink_writer
    assert writer is not None
    assert writer.layer == 2
    assert writer.after > 100 * writer.others > 0
    assert "block 2 writes the attention sink" in str(writer)
    # Its cut turns the sink rows, however little it changes the others.
    assert scored.angular(Cut(2, 1)) == math.acos(scored.sinks.cosines[2, 3]) / math.pi
    assert scored.blocks[2].cosine_sinks < 0.5
    inside = warnings_for(writer, [Cut(1, 2)], fitted=True)
    after = warnings_for(writer, [Cut(3, 1)], fitted=True)
    assert "takes it out" in inside[0]
    assert "follows it" in after[0]
    assert warnings_for(writer, [Cut(3, 1)], fitted=False) == []
    assert warnings_for(writer, [Cut(4, 1)], fitted=True) == []
    for remove, clear in ((1, {1, 4, 5}), (2, {4})):
        cuts = depth.plan(checkpoint, moments, remove=remove).evidence["cuts"]
        assert cuts[0]["layers"][0] in clear
    plan = depth.plan(checkpoint, moments, layers=(2,))
    assert plan.evidence["sink_writer"] == 2
    assert any("takes it out" in said for said in plan.evidence["warnings"])


def test_moments_without_the_stream(checkpoint):
    from gramian.data import documents
    from gramian.networks import collect, linears
    from tests import tiny
    from tests.compress.depth.conftest import SETTINGS

    other = collect(checkpoint, documents(tiny.texts(60)), linears(checkpoint), **SETTINGS)
    with pytest.raises(GramianError, match="collect with --for depth"):
        depth.scores(checkpoint, other)
