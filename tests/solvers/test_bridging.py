"""Maps between two spaces, from moments: closed forms, identities and other libraries."""

from __future__ import annotations

import numpy as np
import ot
import pytest
import torch
from scipy.linalg import subspace_angles
from scipy.spatial.transform import Rotation
from sklearn.cross_decomposition import CCA

from gramian.errors import GramianError
from gramian.maps import Affine, Dense
from gramian.measures import procrustes_bound, readable_fraction
from gramian.moments import JointMoments, Moments, Quadratic, squared_error
from gramian.solvers import (
    canonical,
    diagonal_gain,
    optimal_transport,
    procrustes,
    reduced_rank,
    relaxed_orthogonal,
    ridge,
    whitening,
)


def pairs(n: int, dx: int, dy: int, seed: int = 0, noise: float = 0.3):
    draw = torch.Generator().manual_seed(seed)
    weight = torch.randn(dy, dx, generator=draw, dtype=torch.float64) / dx**0.5
    x = torch.randn(n, dx, generator=draw, dtype=torch.float64) * torch.linspace(0.2, 2, dx) + 3.0
    y = x @ weight.T + noise * torch.randn(n, dy, generator=draw, dtype=torch.float64) - 1.0
    return x, y


def dense(map) -> torch.Tensor:
    return map.to_dense(torch.float64)


def orthogonal(d: int, seed: int = 0) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(d, d, generator=draw, dtype=torch.float64))[0]


class TestRotationOnly:
    def test_is_kabsch(self):
        x, y = pairs(60, 3, 3, noise=0.1)
        y = y @ torch.diag(torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64))
        found = dense(procrustes(JointMoments.from_rows(x, y), rotation_only=True).map)
        a, b = (z - z.mean(0) for z in (y, x))
        right, _ = Rotation.align_vectors(a.numpy(), b.numpy())
        np.testing.assert_allclose(found, right.as_matrix(), atol=1e-9)
        assert torch.linalg.det(found) > 0

    def test_scale_is_that_of_the_rotation(self):
        x, _ = pairs(60, 3, 3)
        mirrored = x @ torch.diag(torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64)) * 2
        joint = JointMoments.from_rows(x, mirrored)
        found = procrustes(joint, rotation_only=True, scaled=True).map
        weight, objective = dense(found), Quadratic.from_joint(joint)
        here = objective.value(weight)
        assert all(objective.value(weight * factor) >= here for factor in (0.99, 1.01))

    def test_needs_one_width(self):
        joint = JointMoments.from_rows(*pairs(20, 4, 3))
        with pytest.raises(GramianError, match="equal widths, not 4 and 3"):
            procrustes(joint, rotation_only=True)


class TestRelaxedOrthogonal:
    @pytest.mark.parametrize("shape", [(8, 8), (8, 5), (5, 8)])
    def test_ends_are_procrustes_and_least_squares(self, shape):
        joint = JointMoments.from_rows(*pairs(200, *shape))
        stiff = dense(relaxed_orthogonal(joint, delta=0.0).map)
        torch.testing.assert_close(stiff, dense(procrustes(joint).map), atol=1e-9, rtol=0)
        free = dense(relaxed_orthogonal(joint, delta=100.0).map)
        torch.testing.assert_close(free, dense(ridge(joint).map), atol=1e-8, rtol=0)

    def test_objective_falls_and_bound_holds(self):
        joint = JointMoments.from_rows(*pairs(300, 10, 10))
        values = []
        for delta in (0.0, 0.05, 0.2, 0.5, 0.9):
            found = relaxed_orthogonal(joint, delta=delta)
            s = torch.linalg.svdvals(dense(found.map))
            assert float((s - 1).abs().max()) <= delta + 1e-9
            values.append(found.evidence.errors["train"])
        assert values == sorted(values, reverse=True)
        assert values[0] > 1.01 * values[-1]

    def test_paper_bound_per_dimension(self):
        joint = JointMoments.from_rows(*pairs(300, 10, 10))
        weight = dense(relaxed_orthogonal(joint, lam=0.3).map)
        gap = torch.linalg.matrix_norm(weight.T @ weight - torch.eye(10, dtype=torch.float64))
        assert float(gap) / 10**0.5 == pytest.approx(0.3, rel=2e-2)

    def test_bound_is_chosen_on_select(self):
        x, _ = pairs(400, 6, 6)
        y = x @ orthogonal(6).T
        joint = JointMoments.from_rows(x[:300], y[:300])
        select = JointMoments.from_rows(x[300:], y[300:])
        assert relaxed_orthogonal(joint, select).evidence.errors["select"] < 1e-12

    def test_refusals(self):
        joint = JointMoments.from_rows(*pairs(30, 4, 4))
        with pytest.raises(GramianError, match="delta or lam"):
            relaxed_orthogonal(joint)
        with pytest.raises(GramianError, match="give one of them"):
            relaxed_orthogonal(joint, delta=0.1, lam=0.1)
        with pytest.raises(GramianError, match="delta is -1"):
            relaxed_orthogonal(joint, delta=-1)


class TestReducedRank:
    def test_best_prediction_among_rank_r(self):
        x, y = pairs(400, 7, 5)
        joint = JointMoments.from_rows(x, y)
        a, b = x - x.mean(0), y - y.mean(0)
        fitted = a @ torch.linalg.lstsq(a, b).solution
        _, _, vh = torch.linalg.svd(fitted, full_matrices=False)
        for rank in (1, 3, 5):
            found = reduced_rank(joint, rank=rank, lambdas=[0.0])
            best = fitted @ vh[:rank].T @ vh[:rank]
            error = float((best - b).square().sum()) / len(x)
            assert found.evidence.errors["train"] == pytest.approx(error, rel=1e-9)
            assert torch.linalg.matrix_rank(dense(found.map)) == rank

    def test_beats_the_cut_weight(self):
        joint = JointMoments.from_rows(*pairs(400, 7, 5))
        full = dense(ridge(joint, lambdas=[0.0]).map)
        u, s, vh = torch.linalg.svd(full, full_matrices=False)
        cut = (u[:, :2] * s[:2]) @ vh[:2]
        ours = reduced_rank(joint, rank=2, lambdas=[0.0]).evidence.errors["train"]
        assert ours < Quadratic.from_joint(joint).per_row(cut) * 0.999

    def test_rank_chosen_on_select(self):
        draw = torch.Generator().manual_seed(5)
        x = torch.randn(600, 12, generator=draw, dtype=torch.float64)
        low = torch.randn(12, 2, generator=draw, dtype=torch.float64)
        low = low @ torch.randn(2, 9, generator=draw, dtype=torch.float64)
        y = x @ low + 2.0 * torch.randn(600, 9, generator=draw, dtype=torch.float64)
        folds = [JointMoments.from_rows(x[i : i + 200], y[i : i + 200]) for i in (0, 200, 400)]
        found = reduced_rank(*folds)
        assert any("rank 2 of 9" in note for note in found.evidence.notes)
        errors = {
            rank: squared_error(folds[1], reduced_rank(folds[0], rank=rank).map)
            for rank in range(1, 10)
        }
        assert min(errors, key=errors.__getitem__) == 2

    def test_singular_input(self):
        x, y = pairs(50, 6, 4)
        x = torch.cat([x, x[:, :1], torch.ones(50, 1, dtype=torch.float64)], 1)
        found = reduced_rank(JointMoments.from_rows(x, y), rank=2)
        assert torch.isfinite(dense(found.map)).all()

    def test_refusals(self):
        joint = JointMoments.from_rows(*pairs(30, 4, 3))
        with pytest.raises(GramianError, match="rank is 4, expected 1 to 3"):
            reduced_rank(joint, rank=4)
        with pytest.raises(GramianError, match="fold to choose"):
            reduced_rank(joint)


class TestCanonical:
    def test_full_power_is_least_squares(self):
        joint = JointMoments.from_rows(*pairs(200, 6, 4))
        found = dense(canonical(joint, power=1.0, ridge=0.0).map)
        torch.testing.assert_close(found, dense(ridge(joint, lambdas=[0.0]).map), atol=1e-9, rtol=0)

    def test_no_power_gives_the_covariance_of_the_target(self):
        joint = JointMoments.from_rows(*pairs(200, 6, 6))
        moved = joint.x.through(canonical(joint, power=0.0, ridge=0.0).map)
        torch.testing.assert_close(moved.scatter, joint.y.scatter, atol=1e-8, rtol=1e-9)
        torch.testing.assert_close(moved.mean, joint.y.mean, atol=1e-9, rtol=0)

    def test_directions_are_those_of_cca(self):
        x, y = pairs(300, 6, 5)
        joint = JointMoments.from_rows(x, y)
        found = dense(canonical(joint, rank=2, power=1.0, ridge=0.0).map)
        peer = CCA(n_components=2, scale=False, max_iter=20000, tol=1e-13).fit(x, y)
        angles = subspace_angles(torch.linalg.svd(found)[2][:2].T.numpy(), peer.x_rotations_)
        assert angles.max() < 5e-4  # the peer iterates

    def test_power_is_chosen_on_select(self):
        x, y = pairs(300, 6, 4, noise=2.0)
        found = canonical(
            JointMoments.from_rows(x[:200], y[:200]), JointMoments.from_rows(x[200:], y[200:])
        )
        assert "power 1" in found.evidence.notes[0]

    def test_diagonal_target_is_refused(self):
        joint = JointMoments.from_rows(*pairs(30, 4, 3), target="diagonal")
        with pytest.raises(GramianError, match="full moments of both sides"):
            canonical(joint)


def test_gain_is_best_for_every_coordinate():
    x, y = pairs(100, 5, 5)
    joint = JointMoments.from_rows(x, y * torch.linspace(0.5, 3, 5))
    start = procrustes(joint).map
    found = diagonal_gain(joint, start)
    assert isinstance(found.map, Affine)
    objective, weight = Quadratic.from_joint(joint), dense(found.map)
    for row in range(5):
        for factor in (0.99, 1.01):
            other = weight.clone()
            other[row] *= factor
            assert objective.value(other) > objective.value(weight)
    with pytest.raises(GramianError, match="does not fit"):
        diagonal_gain(joint, Dense(torch.eye(4)))


class TestWhitening:
    @pytest.mark.parametrize("kind", ["pca", "zca", "cholesky"])
    def test_covariance_is_the_identity(self, kind):
        x, _ = pairs(200, 6, 2)
        rows = whitening(Moments.from_rows(x), kind=kind)(x)
        eye = torch.eye(6, dtype=torch.float64)
        torch.testing.assert_close(rows.T @ rows / 200, eye, atol=1e-11, rtol=0)
        assert float(rows.mean(0).abs().max()) < 1e-12

    def test_kinds_have_their_marks(self):
        moments = Moments.from_rows(pairs(200, 6, 2)[0])
        zca = dense(whitening(moments, kind="zca"))
        torch.testing.assert_close(zca, zca.T, atol=1e-12, rtol=0)
        lower = dense(whitening(moments, kind="cholesky")).T
        assert float(torch.triu(lower, 1).abs().max()) < 1e-12 * float(lower.abs().max()) + 1e-15
        inverse = torch.linalg.inv(moments.scatter / moments.count)
        torch.testing.assert_close(lower @ lower.T, inverse, atol=1e-9, rtol=1e-9)

    def test_large_mean_and_equal_columns(self):
        x, _ = pairs(300, 5, 2)
        x = torch.cat([x, x[:, :1], torch.ones(300, 1, dtype=torch.float64)], 1) + 1e4
        found = whitening(Moments.from_rows(x))
        assert found.out_features == 5
        rows = found(x)
        eye = torch.eye(5, dtype=torch.float64)
        torch.testing.assert_close(rows.T @ rows / 300, eye, atol=1e-6, rtol=0)
        with pytest.raises(GramianError, match="directions"):
            whitening(Moments.from_rows(x), kind="cholesky")

    def test_goes_back(self):
        x, _ = pairs(200, 6, 2)
        map = whitening(Moments.from_rows(x))
        torch.testing.assert_close(map.pinv()(map(x)), x, atol=1e-10, rtol=0)

    def test_refusals(self):
        with pytest.raises(GramianError, match="all equal"):
            whitening(Moments.from_rows(torch.ones(5, 3)))
        moments = Moments.from_rows(pairs(20, 4, 2)[0])
        with pytest.raises(GramianError, match="kind is 'ica'"):
            whitening(moments, kind="ica")
        with pytest.raises(GramianError, match="rank is 9, expected 1 to 4"):
            whitening(moments, rank=9)


class TestOptimalTransport:
    def test_is_that_of_pot(self):
        x, y = pairs(200, 5, 5)
        source, target = Moments.from_rows(x), Moments.from_rows(y[:150])
        found = optimal_transport(source, target)
        weight, bias = ot.gaussian.bures_wasserstein_mapping(
            source.mean.numpy()[None],
            target.mean.numpy()[None],
            (source.scatter / source.count).numpy(),
            (target.scatter / target.count).numpy(),
        )
        np.testing.assert_allclose(dense(found), weight.T, atol=1e-9)
        np.testing.assert_allclose(found.bias, np.ravel(bias), atol=1e-8)
        moved = source.through(found)
        torch.testing.assert_close(
            moved.scatter / moved.count, target.scatter / target.count, atol=1e-10, rtol=1e-9
        )

    def test_stretches_and_never_rotates(self):
        x, _ = pairs(400, 5, 5)
        turn = orthogonal(5, 3)
        found = optimal_transport(Moments.from_rows(x), Moments.from_rows(x @ turn.T))
        weight = dense(found)
        assert float(torch.linalg.eigvalsh(weight).min()) > 0
        assert float(torch.linalg.matrix_norm(weight - turn)) > 0.5

    def test_same_cloud_stays(self):
        moments = Moments.from_rows(pairs(100, 5, 5)[0])
        eye = torch.eye(5, dtype=torch.float64)
        torch.testing.assert_close(dense(optimal_transport(moments, moments)), eye)
        other = Moments.from_rows(pairs(100, 5, 5, seed=2)[1])
        stay = optimal_transport(moments, other, alpha=1.0)
        torch.testing.assert_close(dense(stay), eye)
        assert float(stay.bias.abs().max()) < 1e-12

    def test_singular_source(self):
        x, y = pairs(100, 4, 4)
        x[:, 3] = x[:, 0]
        moved = Moments.from_rows(x).through(
            optimal_transport(Moments.from_rows(x), Moments.from_rows(y))
        )
        assert torch.isfinite(moved.scatter).all()
        assert float(torch.linalg.matrix_rank(moved.scatter, hermitian=True)) == 3

    def test_refusals(self):
        a, b = (Moments.from_rows(z) for z in pairs(50, 5, 4))
        with pytest.raises(GramianError, match="one width, not 5 and 4"):
            optimal_transport(a, b)


class TestBound:
    def test_is_the_mean_over_all_pairs_of_rows(self):
        x, y = (z / z.norm(dim=1, keepdim=True) for z in pairs(80, 6, 4))
        gap = (x @ x.T - y @ y.T).square().mean().sqrt()
        found = procrustes_bound(JointMoments.from_rows(x, y))
        assert found.delta == pytest.approx(float(gap), rel=1e-9)
        assert found.error == pytest.approx((12**0.5) * float(gap), rel=1e-9)

    def test_holds(self):
        draw = torch.Generator().manual_seed(0)
        x = torch.randn(500, 8, generator=draw, dtype=torch.float64)
        y = x @ orthogonal(8).T + 0.05 * torch.randn(500, 8, generator=draw, dtype=torch.float64)
        x, y = (z / z.norm(dim=1, keepdim=True) for z in (x, y))
        joint = JointMoments.from_rows(x, y)
        found = procrustes_bound(joint)
        true = procrustes(joint, intercept=False)
        assert true.evidence.errors["train"] <= found.error
        cosine = float((true.map(x) * y).sum(1).mean())
        assert not found.vacuous
        assert cosine >= found.cosine > 0


def test_readable_fraction():
    x, y = pairs(300, 6, 4)
    old = x[:, :4] @ orthogonal(4).T
    joint = [JointMoments.from_rows(x[i : i + 100], old[i : i + 100]) for i in (0, 100, 200)]
    assert readable_fraction(*joint) == pytest.approx(1.0, abs=1e-8)
    noise = torch.randn(300, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    blind = [JointMoments.from_rows(x[i : i + 100], noise[i : i + 100]) for i in (0, 100, 200)]
    assert readable_fraction(*blind) < 0.1
    half = [JointMoments.from_rows(x[i : i + 100], y[i : i + 100]) for i in (0, 100, 200)]
    assert 0.5 < readable_fraction(*half) < 1.0
