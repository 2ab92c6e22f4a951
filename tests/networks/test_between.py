"""Cosines and distances of the stream at every two depths, against the rows themselves."""

from __future__ import annotations

import pytest
import torch

from gramian.data import documents
from gramian.errors import GramianError
from gramian.networks import Need, Needs, capture, collect
from gramian.networks.between import between, places
from tests import tiny

SETTINGS = {"tokens": 1500, "length": 32, "batch_rows": 256, "precision": "float64"}


def test_columns():
    generator = torch.Generator().manual_seed(0)
    streams = [torch.randn(2, 5, 7, generator=generator) for _ in range(4)]
    streams[2][0, 0] = 0
    found = between(streams)
    for column, (a, b) in enumerate(places(4)):
        x, y = streams[a].double(), streams[b].double()
        expected = torch.nn.functional.cosine_similarity(x, y, dim=-1)
        torch.testing.assert_close(found["cosines"][..., column], expected)
        torch.testing.assert_close(found["distances"][..., column], (x - y).square().sum(-1))
    # A row of zeros points nowhere.
    assert (found["cosines"][0, 0, [1, 3, 5]] == 0).all()


def test_close_streams_keep_their_distance():
    """A sink row is long at both depths; what lies between them is short."""
    generator = torch.Generator().manual_seed(1)
    first = 1e4 * torch.randn(8, 64, generator=generator).double()
    second = first + 1e-2 * torch.randn(8, 64, generator=generator).double()
    found = between([first, second])["distances"][:, 0]
    torch.testing.assert_close(found, (second - first).square().sum(1), rtol=1e-4, atol=0)


def test_blocks_of_rows_do_not_matter(monkeypatch):
    generator = torch.Generator().manual_seed(2)
    streams = [torch.randn(50, 6, generator=generator) for _ in range(3)]
    whole = between(streams)
    monkeypatch.setattr("gramian.networks.between.NUMBERS", 3 * 6 * 7)
    for name, rows in between(streams).items():
        torch.testing.assert_close(rows, whole[name])


def test_a_site_like_any_other(checkpoint):
    source = checkpoint("llama")
    assert source.blueprint.canonical("cosines") == "cosines"
    assert source.blueprint.site_width("distances") == 6
    with pytest.raises(GramianError, match="no module has it"):
        source.blueprint.tap("cosines")
    sites = source.blueprint.residual_sites()
    seen = capture(source.model, source.blueprint, ["cosines", *sites], tiny.ids())
    expected = between([seen.rows[site] for site in sites])["cosines"]
    torch.testing.assert_close(seen.rows["cosines"], expected)


@pytest.mark.parametrize("mode", ["windows", "blockwise"])
def test_every_mode_collects_the_same(checkpoint, mode):
    source = checkpoint("llama")
    needs = Needs.of(
        [
            Need("cosines", order="diagonal"),
            Need("distances", order="diagonal"),
            Need("0.mlp_out", "final"),
        ]
    )
    docs = documents(tiny.texts(120))
    straight = collect(source, docs, needs, **SETTINGS)
    other = collect(source, docs, needs, mode=mode, **SETTINGS)
    for site in ("cosines", "distances"):
        for sinks in (False, True):
            a, b = (m.moments(site, sinks=sinks) for m in (straight, other))
            assert a.count == b.count
            torch.testing.assert_close(a.mean, b.mean, rtol=1e-9, atol=1e-12)
