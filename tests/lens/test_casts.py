"""Casts against least squares on the rows themselves, and on networks with a known answer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from gramian import lens
from gramian.data import documents
from gramian.errors import GramianError
from gramian.maps import Affine
from gramian.networks import Need, Needs, capture, collect
from gramian.networks import open as open_checkpoint
from gramian.networks.collect import batches
from gramian.networks.rows import kept_rows
from tests import tiny
from tests.lens.conftest import SETTINGS


def rows(opened, docs, moments, site, folds):
    kept = []
    for batch in batches(opened, docs, **SETTINGS):
        if batch.fold in folds:
            seen = capture(
                opened.model, opened.blueprint, [site], batch.ids, batch.mask, norms=True
            )
            keep = kept_rows(batch.mask, seen.norms, moments.recipe.rows, opened.blueprint)
            kept.append(seen.rows[site][keep].double())
    return torch.cat(kept).numpy()


@pytest.mark.parametrize(
    "target,source,goal",
    [
        ("last", "1.resid_pre", "final"),
        ("next", "0.resid_pre", "1.resid_pre"),
        ("mlp", "1.mlp_in", "1.mlp_out"),
    ],
)
@pytest.mark.parametrize("kind", ["affine", "linear"])
def test_casts_are_the_ridge_of_the_rows(opened, docs, moments, target, source, goal, kind):
    """The map solves the normal equations of train and select with the lambda it reports."""
    cast = lens.solve(opened, moments, target=target, kind=kind)[source]
    fit = ("train", "select")
    x, y = (rows(opened, docs, moments, site, fit) for site in (source, goal))
    residual = target != "mlp"
    aim = y - x if residual else y
    if kind == "affine":
        x, aim = x - x.mean(0), aim - aim.mean(0)
    lam = cast.evidence.regularization
    expected = np.linalg.solve(x.T @ x + lam * np.eye(x.shape[1]), x.T @ aim).T
    if residual:
        expected = expected + np.eye(x.shape[1])
    found = cast.map.map if isinstance(cast.map, Affine) else cast.map
    np.testing.assert_allclose(found.to_dense().numpy(), expected, rtol=1e-6, atol=1e-8)


def test_r2_is_that_of_the_report_rows(opened, docs, moments):
    cast = lens.solve(opened, moments)["1.resid_pre"]
    x, y = (rows(opened, docs, moments, site, ("report",)) for site in ("1.resid_pre", "final"))
    predicted = cast.map(torch.from_numpy(x)).numpy()
    expected = r2_score(y, predicted, multioutput="variance_weighted")
    assert cast.r2 == pytest.approx(expected, abs=1e-9)


def test_linearity_is_the_variance_weighted_r2(opened, docs, moments):
    folds = ("train", "select", "report")
    scores = lens.layer_linearity(opened, moments)
    x, y = (rows(opened, docs, moments, s, folds) for s in ("1.resid_pre", "2.resid_pre"))
    for found, target in ((scores[1].linearity, y), (scores[1].linearity_no_residual, y - x)):
        predicted = LinearRegression().fit(x, target).predict(x)
        expected = r2_score(target, predicted, multioutput="variance_weighted")
        assert found == pytest.approx(expected, abs=1e-8)


def test_a_network_that_does_nothing_is_cast_by_the_identity(still, docs):
    moments = collect(still, docs, lens.needs(still), **SETTINGS)
    casts = lens.solve(still, moments)
    for cast in casts:
        torch.testing.assert_close(
            cast.map.map.to_dense(), torch.eye(32, dtype=torch.float64), atol=1e-8, rtol=0
        )
        assert cast.r2 == pytest.approx(1.0, abs=1e-12)
    judged = lens.judge(
        still,
        casts,
        lens.unseen(still, moments, documents(tiny.texts(60, seed=9)), tokens=300, length=32),
        rule=moments.recipe.rows,
    )
    assert all(layer.agreement == layer.agreement_identity == 1.0 for layer in judged.layers)
    assert max(layer.kl for layer in judged.layers) < 1e-6
    exit = lens.early_exit(judged, length=1)
    assert exit.agreement == 1.0
    assert exit.layers_saved == 3.0


def test_sinks_that_were_not_kept_apart_change_the_fit(opened, docs):
    from gramian.moments import RowRule

    rule = RowRule(first=False, factor=None)
    together = collect(opened, docs, lens.needs(opened), rule=rule, **SETTINGS)
    apart = collect(opened, docs, lens.needs(opened), **SETTINGS)
    a = together.joint("1.resid_pre", "final", increment=True)
    b = apart.joint("1.resid_pre", "final", increment=True, sinks=True)
    torch.testing.assert_close(a.cross, b.cross, rtol=1e-9, atol=1e-9)
    c = apart.joint("1.resid_pre", "final", increment=True)
    assert (a.cross - c.cross).abs().max() > 1e-3


def test_moments_of_another_model_are_refused(moments, tmp_path):
    other = open_checkpoint(tiny.save(tmp_path, seed=7))
    with pytest.raises(GramianError, match="not of"):
        lens.solve(other, moments)


def test_moments_without_the_pairs_say_how_to_collect(opened, docs):
    few = collect(opened, docs, Needs.of([Need("0.resid_pre")]), **SETTINGS)
    with pytest.raises(GramianError, match="--for lens"):
        lens.solve(opened, few)


def test_fewer_rows_than_dimensions_are_regularised_and_said(opened, docs):
    few = collect(opened, docs, lens.needs(opened), **{**SETTINGS, "tokens": 200})
    cast = lens.solve(opened, few)["1.resid_pre"]
    assert cast.evidence.rows_per_dimension < 10
    assert cast.evidence.regularization > 0
    fewer = collect(opened, docs, lens.needs(opened), **{**SETTINGS, "tokens": 36})
    cast = lens.solve(opened, fewer)["1.resid_pre"]
    assert cast.evidence.rows_per_dimension < 1
    assert any("dimension" in note for note in cast.evidence.notes)


def test_casts_survive_saving(opened, moments, tmp_path):
    casts = lens.solve(opened, moments)
    path = tmp_path / "casts.safetensors"
    lens.save_casts(casts, path)
    loaded = lens.load_casts(path)
    assert loaded.model == casts.model
    for a, b in zip(casts, loaded, strict=True):
        assert (a.site, a.target, a.evidence) == (b.site, b.target, b.evidence)
        assert torch.equal(a.map.to_dense(), b.map.to_dense())
        assert torch.equal(a.map.bias, b.map.bias)
    with pytest.raises(GramianError, match="exists"):
        lens.save_casts(casts, path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(GramianError, match="casts"):
        lens.load_casts(path)
    path.write_bytes(b"not a file of ours")
    with pytest.raises(GramianError, match="casts"):
        lens.load_casts(path)


def test_no_cast_of_that_site(opened, moments):
    with pytest.raises(GramianError, match=r"no cast from '9\.resid_pre'"):
        lens.solve(opened, moments)["9.resid_pre"]
