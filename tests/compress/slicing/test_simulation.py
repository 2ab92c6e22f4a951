"""The stream projected in place, with one basis a place."""

from __future__ import annotations

import pytest
import torch

from gramian.compress import slicing
from gramian.errors import GramianError
from gramian.networks import capture
from gramian.networks.certificate import outputs_of
from tests import tiny


def logits(checkpoint):
    return outputs_of(checkpoint.model, tiny.ids())


@pytest.mark.parametrize("family", ["llama", "gpt2", "opt", "phi", "gemma", "mixtral"])
def test_every_place_lies_in_its_own_subspace(case, family):
    """Also where no ordinary checkpoint could hold it."""
    found = case(family)
    source = found.checkpoint
    sites = slicing.stream_sites(source)
    before = logits(source)
    with slicing.simulated(source, found.moments, 20) as simulation:
        seen = capture(source.model, source.blueprint, sites, tiny.ids()).rows
        inside = logits(source)
    assert simulation.rotation == "per-site"
    for site, rows in seen.items():
        values = torch.linalg.svdvals(rows.double().flatten(0, 1))
        assert int((values > 1e-5 * values[0]).sum()) == 20, site
    assert float((inside - before).abs().max()) > 1e-3
    # Nothing of it stays.
    assert torch.equal(logits(source), before)


@pytest.mark.parametrize("family", ["llama", "gpt2", "phi"])
def test_all_directions_change_nothing(case, family):
    found = case(family)
    source = found.checkpoint
    before = logits(source)
    with slicing.simulated(source, found.moments, 32):
        inside = logits(source)
    assert float((inside - before).abs().max() / before.abs().max()) < 1e-5


def test_a_basis_for_every_place_loses_less_than_one_for_all(case):
    found = case("llama")
    source = found.checkpoint
    lost = {}
    for rotation in ("per-site", "shared"):
        with slicing.simulated(source, found.moments, 20, rotation=rotation, sink_weight=0) as one:
            lost[rotation] = [place.fit for place in one.discarded]
    assert all(a <= b + 1e-9 for a, b in zip(lost["per-site"], lost["shared"], strict=True))
    assert sum(lost["per-site"]) < sum(lost["shared"])


@pytest.mark.parametrize(("width", "options"), [(0, {}), (33, {}), (8, {"rotation": "none"})])
def test_bad_options(case, width, options):
    found = case("llama")
    with (
        pytest.raises(GramianError, match="expected"),
        slicing.simulated(found.checkpoint, found.moments, width, **options),
    ):
        pass
