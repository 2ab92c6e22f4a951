"""Families of bridges beside the solvers and the closed forms they stand for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from gramian.bridge import Bridge
from gramian.bridge.paired import METHODS
from gramian.errors import GramianError
from gramian.moments import JointMoments
from gramian.solvers import canonical, reduced_rank, relaxed_orthogonal
from tests.bridge.paired.sets import two_views


def views(n=1500, dx=10, dy=8):
    return [side.astype(np.float64) for side in two_views(n, dx, dy)]


def weight(bridge_or_map):
    map = getattr(bridge_or_map, "map_", bridge_or_map)
    return getattr(map, "map", map).to_dense(torch.float64).numpy()


def used(bridge):
    return bridge.folds_["train"] + bridge.folds_["select"]


def test_reduced_rank_is_that_of_the_solver():
    x, y = views()
    bridge = Bridge("reduced_rank", rank=3, lam=0.0).fit(x, y)
    joint = used(bridge)
    expected = reduced_rank(joint, rank=3, lambdas=(0.0,)).map
    assert np.linalg.matrix_rank(weight(bridge)) == 3
    assert np.allclose(weight(bridge), weight(expected), atol=1e-9)
    chosen = Bridge("reduced_rank").fit(x, y)
    ranks = {row["rank"] for row in chosen.candidates_}
    assert {1, 2, 4, 6, 8} <= ranks
    full = Bridge("reduced_rank", rank=8, lam=0.1).fit(x, y)
    assert np.allclose(weight(full), weight(Bridge("ridge", lam=0.1).fit(x, y)), atol=1e-9)


def test_a_hidden_rank_is_found():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1200, 32))
    y = x @ rng.standard_normal((32, 4)) @ rng.standard_normal((4, 32))
    y += 3.0 * rng.standard_normal(y.shape)
    bridge = Bridge("reduced_rank").fit(x, y)
    assert np.linalg.matrix_rank(weight(bridge)) in (4, 8)
    assert bridge.r2_report_ > Bridge("ridge").fit(x, y).r2_report_


def test_relaxed_is_that_of_the_solver_between_its_ends():
    x, y = views(dx=8)
    bridge = Bridge("relaxed", delta=0.2).fit(x, y)
    s = np.linalg.svd(weight(bridge), compute_uv=False)
    assert 0.8 - 1e-9 <= s.min() <= s.max() <= 1.2 + 1e-9
    expected = relaxed_orthogonal(used(bridge), delta=0.2).map
    assert np.allclose(weight(bridge), weight(expected), atol=1e-9)
    tight = Bridge("relaxed", delta=0.0).fit(x, y)
    assert np.allclose(weight(tight), weight(Bridge("procrustes").fit(x, y)), atol=1e-9)
    assert {row["delta"] for row in Bridge("relaxed").fit(x, y).candidates_} == {
        0.0,
        0.1,
        0.3,
        0.6,
        1.0,
    }


def test_cca_is_that_of_the_solver_and_needs_both_covariances():
    x, y = views()
    bridge = Bridge("cca", rank=5, target_moments="full").fit(x, y)
    power = next(row["power"] for row in bridge.candidates_ if row["chosen"])
    expected = canonical(used(bridge), rank=5, power=power).map
    assert np.allclose(weight(bridge), weight(expected), atol=1e-9)
    with pytest.raises(GramianError, match="cca needs the covariance of Y"):
        Bridge("cca").fit(x, y)
    with pytest.raises(GramianError, match="and a bias"):
        Bridge("cca", target_moments="full", intercept=False).fit(x, y)
    diagonal = JointMoments.from_rows(x, y, target="diagonal")
    with pytest.raises(GramianError, match="full moments of both sides"):
        Bridge("cca", target_moments="full").fit_moments(diagonal)


def test_a_rotation_does_not_reflect():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((900, 3))
    mirrored = x @ np.diag([1.0, 1.0, -1.0]) + 0.1 * rng.standard_normal(x.shape)
    bridge = Bridge("rotation").fit(x, mirrored)
    assert np.linalg.det(weight(bridge)) == pytest.approx(1.0)
    assert np.linalg.det(weight(Bridge("procrustes").fit(x, mirrored))) == pytest.approx(-1.0)
    few = Bridge("rotation").fit(x[:40], mirrored[:40])
    centred = [rows[:40] - rows[:40].mean(0) for rows in (mirrored, x)]
    oracle = Rotation.align_vectors(*centred)[0].as_matrix()
    assert np.allclose(weight(few), oracle, atol=1e-7)
    # between unequal widths the sign of a padded direction makes any orthogonal map a rotation
    x, y = views()
    wide = [weight(Bridge(method).fit(x, y)) for method in ("rotation", "procrustes")]
    assert np.allclose(*wide)


@pytest.mark.parametrize("method", METHODS)
def test_few_pairs_are_fitted_with_caution(method):
    x, y = views(n=40, dx=60, dy=50)
    full = "full" if method == "cca" else "diagonal"
    bridge = Bridge(method, target_moments=full).fit(x, y)
    assert np.isfinite(bridge.transform(x)).all()
    assert len(bridge.candidates_) == 1


@pytest.mark.parametrize("method", ["reduced_rank", "cca", "relaxed", "rotation"])
def test_awkward_sources(method):
    x, y = views(n=300, dx=8, dy=5)
    rng = np.random.default_rng(4)
    wide = np.concatenate([x, x[:, :3], np.ones((300, 2)), rng.standard_normal((300, 20))], axis=1)
    full = "full" if method == "cca" else "diagonal"
    shifted = (x + 1e4).astype(np.float32)
    for rows in (wide, wide / np.linalg.norm(wide, axis=1, keepdims=True), shifted):
        bridge = Bridge(method, target_moments=full).fit(rows, y)
        assert np.isfinite(bridge.transform(rows)).all()
        assert np.isfinite(bridge.r2_report_)


def test_settings_that_do_not_go_together():
    x, y = views(n=100)
    for bridge, match in (
        (Bridge("ridge", rank=3), "rank is 3, and ridge has no rank"),
        (Bridge("auto", delta=0.1), "delta is 0.1, and auto has no delta"),
        (Bridge("relaxed", lam=0.1), "lam is 0.1, and relaxed has no ridge"),
        (Bridge("relaxed", delta=-1.0), "delta is -1.0"),
        (Bridge("reduced_rank", rank=0), "rank is 0"),
        (Bridge("reduced_rank", rank=9), "rank is 9, expected 1 to 8"),
    ):
        with pytest.raises(GramianError, match=match):
            bridge.fit(x, y)


def test_an_id_that_comes_back_is_refused():
    x, y = views(n=400)
    names = [f"doc {row}" for row in range(400)]
    bridge = Bridge("ridge", lam=0.1).partial_fit(x, y, ids=names)
    before = bridge.transform(x)
    with pytest.raises(GramianError, match="was added before"):
        bridge.partial_fit(x, y, ids=names)
    assert np.array_equal(bridge.transform(x), before)
    bridge.remove(x[:50], y[:50], ids=names[:50]).partial_fit(x[:50], y[:50], ids=names[:50])
    assert np.allclose(bridge.transform(x), before, atol=1e-9)
