"""Depth on real weights, where one block writes an attention sink."""

from __future__ import annotations

import pytest

import gramian as gm
from gramian.compress import depth
from gramian.compress.depth import Cut

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def base():
    return gm.open("bundled:smollm2")


@pytest.fixture(scope="module")
def moments(base):
    needs = depth.needs(base, max_remove=1, linearity=False)
    docs = gm.documents("bundled:pydocs")
    return gm.collect(base, docs, needs, tokens=6144)


def test_the_sink_and_a_cut(base, moments, tmp_path):
    scored = depth.scores(base, moments, fits=False)
    writer = scored.sink_writer
    assert writer is not None
    assert writer.layer == 11
    # On other rows that block looks like any other; to leave it out would turn the sink.
    assert scored.blocks[11].angular < 0.12
    assert scored.angular(Cut(11, 1)) > 0.25
    plan = depth.plan(base, moments, remove=1)
    (cut,) = plan.evidence["cuts"]
    assert cut["layers"][0] not in (0, 10, 11, 29)
    assert 0 < cut["error_train"] < 1
    assert plan.evidence["removed"]["of_model"] == pytest.approx(0.0263, abs=1e-4)
    certificate = gm.apply(base, plan, tmp_path / "out")
    assert certificate.reference_error < 1e-4
    assert gm.open(tmp_path / "out").blueprint.depth == 29
