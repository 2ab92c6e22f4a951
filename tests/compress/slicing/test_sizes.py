"""The sizes of card arithmetic, and those of written folders."""

from __future__ import annotations

import pytest

from gramian.compress import slicing
from gramian.compress.slicing.sizes import sliced_parameters
from gramian.networks import apply
from gramian.networks import open as open_checkpoint
from gramian.networks.checkpoint import state
from gramian.networks.draft import Draft
from gramian.networks.sizes import sizes


@pytest.fixture(scope="module")
def smollm2():
    """On paper, without reading a weight."""
    found = open_checkpoint("bundled:smollm2")
    empty = found.skeleton
    tensors = dict.fromkeys(state(empty), lambda: None)
    return Draft(found.config, tensors, found.blueprint, tuple(range(30)), empty)


@pytest.mark.parametrize(
    ("width", "per_site", "shared", "tied"),
    [(518, 1.208, 1.088, 0.90), (461, 1.061, 0.966, 0.80), (432, 0.991, 0.908, 0.75)],
)
def test_a_small_tied_model_becomes_larger(smollm2, width, per_site, shared, tied):
    """30 layers of width 576 with a tied table of 49152 rows."""
    import torch

    before = sizes(smollm2, torch.float32).parameters
    table = slicing.size_table(smollm2, width, before=before)
    found = {(one.rotation, one.head): one.share for one in table}
    assert found["per-site", "untied"] == pytest.approx(per_site, abs=0.003)
    assert found["shared", "untied"] == pytest.approx(shared, abs=0.003)
    assert found["shared", "tied"] == pytest.approx(tied, abs=0.003)
    assert found["per-site", "tied"] < found["per-site", "untied"]


@pytest.mark.parametrize("family", ["llama", "qwen2", "phi", "mixtral", "qwen3_moe"])
def test_the_table_is_of_what_is_written(case, family, tmp_path):
    found = case(family)
    plan = slicing.plan(found.checkpoint, found.moments, keep=0.75)
    certified = apply(found.checkpoint, plan, tmp_path / "out")
    made = {(one["rotation"], one["head"]): one for one in plan.evidence["sizes"]}
    assert set(made) == {("shared", "untied"), ("per-site", "untied")}
    assert made["shared", "untied"]["parameters"] == certified.parameters
    assert plan.evidence["parameters"] == certified.parameters
    shortcuts = 3 if family == "phi" else 6
    more = made["per-site", "untied"]["parameters"] - certified.parameters
    assert more == shortcuts * 24 * 24


def test_a_width_of_all_is_the_network_itself(case):
    draft = Draft.of(case("qwen2").checkpoint)
    import torch

    assert sliced_parameters(draft, 32) == sizes(draft, torch.float32).parameters
