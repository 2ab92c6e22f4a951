"""Moves of the whole residual stream keep what they promise on every family that claims them."""

from __future__ import annotations

import pytest
import torch

from gramian.errors import GramianError
from gramian.maps import Affine
from gramian.networks import CentreWriters, FoldStream, Plan, Rotate
from tests.networks.claims import (
    WIDTH,
    all_norms,
    applied,
    claims,
    each_family,
    inside,
    layer_norms,
    orthogonal,
    projection,
    refused,
    stream,
    unchanged,
)


@each_family
def test_fold_stream_into_readers(checkpoint, family, tmp_path):
    source = checkpoint(family)
    place = inside(source)
    _, certificate = applied(source, tmp_path / "a", FoldStream(projection(), "readers", place))
    assert not any(".0." in name for name in certificate.changed)
    _, certificate = applied(source, tmp_path / "b", FoldStream(projection(), "readers"))
    assert any(".0." in name for name in certificate.changed)
    head = source.blueprint.head
    assert head is None or head.weight in certificate.changed


@each_family
def test_fold_stream_into_writers(checkpoint, family, tmp_path):
    source = checkpoint(family)
    move = FoldStream(projection(), "writers")
    if not claims(family, "stream_writers"):
        return refused(source, "stream_writers", move)
    written, _ = applied(source, tmp_path / "out", move)
    # Nothing ever writes what the projection removes.
    for name, rows in stream(written).items():
        gone = rows.double() - projection()(rows)
        assert gone.abs().max() < 1e-4 * rows.abs().max(), name
    # Before a place, only.
    place = inside(source)
    _, certificate = applied(source, tmp_path / "b", FoldStream(projection(), "writers", place))
    writers = [w.matrix.weight for w in source.blueprint.stream_writers()]
    sites = [w.site for w in source.blueprint.stream_writers()]
    changed = {s for s, w in zip(sites, writers, strict=True) if w in certificate.changed}
    first = {"0.attn_out", "0.mlp_out"}
    assert changed == (first if place == "1.resid_pre" else first | {"1.attn_out"})


@each_family
def test_an_affine_eraser_keeps_its_mean_in_the_token_table(checkpoint, family, tmp_path):
    source = checkpoint(family)
    if not claims(family, "stream_writers"):
        return
    p, mean = projection(), torch.linspace(-1, 1, WIDTH, dtype=torch.float64)
    # r(x) = P x + (I - P) mean
    eraser = Affine(p, mean - p(mean))
    if family == "gemma":
        with pytest.raises(GramianError, match="scales the rows"):
            Plan.of(source, FoldStream(eraser, "writers"))
        return
    written, _ = applied(source, tmp_path / "out", FoldStream(eraser, "writers"))
    for name, rows in stream(written).items():
        gone = rows.double() - p(rows) - eraser.bias
        assert gone.abs().max() < 1e-4 * rows.abs().max(), name


@each_family
def test_rotate(checkpoint, family, tmp_path):
    source = checkpoint(family)
    r = orthogonal(keep_ones=layer_norms(source))
    if not claims(family, "rotate"):
        return refused(source, "rotate", *all_norms(source), Rotate(r))
    with pytest.raises(GramianError, match=r"norm '0\.attn' has a gain .* FoldNorm\('0\.attn'\)"):
        Plan.of(source, Rotate(r))
    written, certificate = applied(source, tmp_path / "out", *all_norms(source), Rotate(r))
    unchanged(written, source)
    assert certificate.agreement == 1.0
    before, after = stream(source), stream(written)
    for name in before:
        torch.testing.assert_close(after[name].double(), r(before[name]), rtol=1e-4, atol=1e-4)


@each_family
def test_centre_writers(checkpoint, family, tmp_path):
    source = checkpoint(family)
    if not claims(family, "centre"):
        return refused(source, "centre", CentreWriters())
    written, _ = applied(source, tmp_path / "out", CentreWriters())
    unchanged(written, source)
    before, after = stream(source), stream(written)
    for name in before:
        assert after[name].mean(-1).abs().max() < 1e-5
        centred = before[name] - before[name].mean(-1, keepdim=True)
        torch.testing.assert_close(after[name], centred, rtol=1e-4, atol=1e-4)
