"""Truncation: three formulas, the eigenvalue tail, and all that it should equal."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from sklearn.decomposition import PCA

from gramian.errors import GramianError
from gramian.maps import Affine
from gramian.moments import JointMoments, Moments
from gramian.solvers import truncate, truncated_errors, truncation, truncation_drifted

RANKS = (1, 4, 7)


def rows(n=400, d=12, seed=0, scale=None):
    generator = torch.Generator().manual_seed(seed)
    mix = torch.randn(d, d, generator=generator, dtype=torch.float64)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64) @ mix
    x = x + 3 * torch.randn(d, generator=generator, dtype=torch.float64)
    return x if scale is None else x * scale


def weight(m=9, n=12, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(m, n, generator=generator, dtype=torch.float64)


def error(w, map, x, y=None):
    """Mean squared error of a map and of the constant it may have."""
    target = x @ w.T if y is None else y
    return float((map(x) - target).square().sum(1).mean())


@pytest.mark.parametrize("shape", [(9, 12), (12, 9), (20, 12)])
@pytest.mark.parametrize("rank", RANKS)
def test_three_formulas_agree(shape, rank):
    m, n = shape
    x, w = rows(d=n), weight(m, n)
    second = x.T @ x / len(x)
    found = truncate(w, Moments.from_rows(x), rank=rank).to_dense()

    def cut(matrix):
        u, s, v = torch.linalg.svd(matrix, full_matrices=False)
        return (u[:, :rank] * s[:rank]) @ v[:rank]

    lower = torch.linalg.cholesky(second)
    by_cholesky = torch.linalg.solve_triangular(lower, cut(w @ lower), upper=False, left=False)
    values, vectors = torch.linalg.eigh(second)
    root = (vectors * values.sqrt()) @ vectors.T
    by_root = cut(w @ root) @ torch.linalg.inv(root)
    scale = found.norm()
    assert (found - by_cholesky).norm() < 1e-8 * scale
    assert (found - by_root).norm() < 1e-8 * scale


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("shape", [(9, 12), (20, 12)])
def test_the_loss_is_the_tail_and_falls(shape, centred):
    m, n = shape
    x, w = rows(d=n), weight(m, n)
    moments = Moments.from_rows(x)
    all_ranks = truncation(w, moments, centred=centred)
    size = float((x @ w.T).square().sum(1).mean())
    losses = []
    for rank in range(1, min(m, n) + 1):
        map = all_ranks.map(rank)
        losses.append(error(w, map, x))
        assert losses[-1] == pytest.approx(all_ranks.lost(rank), rel=1e-6, abs=1e-10 * size)
    assert all(a >= b - 1e-12 * size for a, b in pairwise(losses))
    assert losses[-1] < 1e-20 * size
    torch.testing.assert_close(map.to_dense(), w, rtol=1e-9, atol=1e-9)
    if centred:
        assert float(map.bias.abs().max()) < 1e-8


def test_centred_is_never_worse_and_keeps_the_mean():
    x, w = rows(), weight()
    moments = Moments.from_rows(x)
    for rank in RANKS:
        plain = truncate(w, moments, rank=rank)
        centred = truncate(w, moments, rank=rank, centred=True)
        assert error(w, centred, x) <= error(w, plain, x) * (1 + 1e-12)
        torch.testing.assert_close(centred(x).mean(0), (x @ w.T).mean(0))


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("shape", [(9, 12), (20, 12)])
def test_centred_is_the_principal_components_of_the_output(rank, shape):
    m, n = shape
    x, w, bias = rows(d=n), weight(m, n), rows(1, m)[0]
    y = (x @ w.T + bias).numpy()
    pca = PCA(n_components=rank, svd_solver="full").fit(y)
    expected = torch.from_numpy(pca.inverse_transform(pca.transform(y)))
    map = truncate(w, Moments.from_rows(x), rank=rank, centred=True)
    torch.testing.assert_close(map(x) + bias, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("centred", [False, True])
def test_moments_of_the_outputs_serve_as_well(centred):
    x, w = rows(), weight()
    outputs = Moments.from_rows(x @ w.T)
    for shrink in (0.0, 0.3):
        of_inputs = truncation(w, Moments.from_rows(x), centred=centred, shrink=shrink)
        narrow = Moments.from_rows(x, order="diagonal")
        of_outputs = truncation(w, narrow, outputs=outputs, centred=centred, shrink=shrink)
        for rank in RANKS:
            a, b = of_inputs.map(rank), of_outputs.map(rank)
            torch.testing.assert_close(a.to_dense(), b.to_dense(), rtol=1e-7, atol=1e-7)
            torch.testing.assert_close(a(x), b(x), rtol=1e-7, atol=1e-7)


def test_a_singular_input_does_no_harm():
    x = rows(5, 12)  # fewer rows than dimensions
    x[:, 3] = x[:, 2]
    x[:, 4] = 0.0
    w = weight()
    for centred in (False, True):
        map = truncate(w, Moments.from_rows(x), rank=5, centred=centred)
        torch.testing.assert_close(map(x), x @ w.T, rtol=1e-7, atol=1e-7)
    still = Moments.from_rows(torch.ones(10, 12))
    assert float(truncate(w, still, rank=2, centred=True).to_dense().isfinite().all())


def test_a_layer_of_low_rank_is_kept_whole():
    w = weight(9, 3) @ weight(3, 12)
    x = rows()
    for metric in ("full", "diag", "none"):
        map = truncate(w, Moments.from_rows(x), rank=3, metric=metric)
        torch.testing.assert_close(map.to_dense(), w, rtol=1e-9, atol=1e-9)


def test_a_mean_of_ten_thousand_deviations():
    x = rows() + 1e4 * rows(1, 12, seed=5)[0].abs()
    w = weight()
    found = truncation(w, Moments.from_rows(x), centred=True)
    for rank in RANKS:
        assert error(w, found.map(rank), x) == pytest.approx(found.lost(rank), rel=1e-6)


def test_plain_is_the_truncated_svd_and_diagonal_is_asvd():
    x, w = rows(), weight()
    u, s, v = torch.linalg.svd(w, full_matrices=False)
    plain = truncate(w, rank=4, metric="none").to_dense()
    torch.testing.assert_close(plain, (u[:, :4] * s[:4]) @ v[:4])
    scale = x.square().mean(0).sqrt() ** 0.5
    u, s, v = torch.linalg.svd(w * scale, full_matrices=False)
    expected = (u[:, :4] * s[:4]) @ v[:4] / scale
    for order in ("full", "diagonal"):
        found = truncate(w, Moments.from_rows(x, order=order), rank=4, metric="diag")
        torch.testing.assert_close(found.to_dense(), expected)


def test_a_metric_on_rows_is_fwsvd():
    w = weight()
    fisher = torch.rand(9, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) + 0.1
    root = fisher.sqrt()[:, None]
    u, s, v = torch.linalg.svd(root * w, full_matrices=False)
    expected = (u[:, :4] * s[:4]) @ v[:4] / root
    found = truncate(w, rank=4, metric="none", output_metric=fisher)
    torch.testing.assert_close(found.to_dense(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(9, 12), (20, 12)])
def test_a_metric_on_outputs_costs_least_in_it(shape):
    m, n = shape
    x, w = rows(d=n), weight(m, n)
    gradients = rows(300, m, seed=9)
    metric = gradients.T @ gradients / len(gradients)
    moments = Moments.from_rows(x)
    two_sided = truncation(w, moments, output_metric=metric)
    values, vectors = torch.linalg.eigh(metric + 1e-6 * metric.diagonal().mean() * torch.eye(m))
    root = (vectors * values.sqrt()) @ vectors.T
    for rank in RANKS:

        def cost(map):
            return float(((map(x) - x @ w.T) @ root).square().sum(1).mean())

        own = two_sided.map(rank)
        assert cost(own) == pytest.approx(two_sided.lost(rank), rel=1e-6)
        assert cost(own) <= cost(truncate(w, moments, rank=rank)) * (1 + 1e-9)
    torch.testing.assert_close(two_sided.map(min(m, n)).to_dense(), w, rtol=1e-6, atol=1e-6)


def test_no_diagonals_beat_it():
    """SigmaScale learns diagonals around an SVD: this is the least that they can reach."""
    x, w, rank = rows(), weight(), 4
    second = x.T @ x / len(x)
    best = truncation(w, Moments.from_rows(x)).lost(rank)
    sides = [torch.zeros(size, dtype=torch.float64, requires_grad=True) for size in w.shape]
    optimiser = torch.optim.Adam(sides, lr=0.05)
    losses = []
    for _ in range(150):
        rows_, columns = (side.exp() for side in sides)
        u, s, v = torch.linalg.svd(rows_[:, None] * w * columns, full_matrices=False)
        cut = (u[:, :rank] * s[:rank]) @ v[:rank] / rows_[:, None] / columns
        gap = w - cut
        loss = ((gap @ second) * gap).sum()
        losses.append(float(loss.detach()))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert losses[-1] < losses[0]
    assert min(losses) >= best * (1 - 1e-9)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("shape", [(9, 12), (20, 12)])
def test_drifted_inputs(shape, centred):
    m, n = shape
    x, w = rows(d=n), weight(m, n)
    noise = rows(len(x), n, seed=4)
    seen = 0.7 * x + 0.2 * noise @ weight(n, n, seed=6)
    joint = JointMoments.from_rows(seen, x)
    found = truncation_drifted(w, joint, centred=centred)
    target = x @ w.T
    stays = truncation(w, Moments.from_rows(x), centred=centred)
    for rank in RANKS:
        own = error(w, found.map(rank), seen, target)
        assert own == pytest.approx(found.lost(rank), rel=1e-6)
        assert own <= error(w, stays.map(rank), seen, target) * (1 + 1e-12)
    full = found.map(min(m, n))
    if centred:
        seen, target = seen - seen.mean(0), target - target.mean(0)
    expected = torch.linalg.lstsq(seen, target).solution.T
    torch.testing.assert_close(full.to_dense(), expected, rtol=1e-6, atol=1e-6)


def test_without_drift_it_is_the_plain_truncation():
    x, w = rows(), weight()
    found = truncation_drifted(w, JointMoments.from_rows(x, x))
    plain = truncation(w, Moments.from_rows(x))
    assert found.unreachable < 1e-9 * plain.total
    torch.testing.assert_close(found.values, plain.values)
    torch.testing.assert_close(found.map(4).to_dense(), plain.map(4).to_dense())


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("shape", [(9, 12), (20, 12)])
@pytest.mark.parametrize("kind", ["full", "diag", "none", "rows", "outputs", "drifted"])
def test_predicted_errors_are_those_of_rows_never_seen(shape, kind, centred):
    m, n = shape
    x, w = rows(d=n), weight(m, n)
    new = rows(150, n, seed=8, scale=1.5)
    moments = Moments.from_rows(x)
    judge, seen = {"inputs": Moments.from_rows(new)}, new
    match kind:
        case "rows":
            metric = torch.rand(m, dtype=torch.float64) + 0.1
            found = truncation(w, moments, centred=centred, output_metric=metric)
        case "outputs":
            found = truncation(w, moments, centred=centred)
            judge = {"outputs": Moments.from_rows(new @ w.T)}
        case "drifted":
            shift = weight(n, n, seed=2)
            found = truncation_drifted(w, JointMoments.from_rows(x @ shift, x), centred=centred)
            seen = new @ shift + 0.1 * rows(150, n, seed=5)
            judge = {"inputs": JointMoments.from_rows(seen, new)}
        case _:
            found = truncation(w, moments, centred=centred, metric=kind)
    predicted = truncated_errors(found, w, **judge)
    for rank in (*RANKS, min(m, n)):
        measured = error(w, found.map(rank), seen, new @ w.T)
        assert float(predicted[rank]) == pytest.approx(
            measured, rel=1e-6, abs=1e-9 * float(predicted[0])
        )


def test_half_precision_weights_and_a_smaller_copy():
    x, w = rows(), weight().to(torch.bfloat16)
    found = truncation(w, Moments.from_rows(x))
    torch.testing.assert_close(found.map(9).to_dense(), w.double())
    small = found.upto(5, torch.float32)
    assert small.up.shape == (9, 5)
    assert small.down.dtype == torch.float32
    torch.testing.assert_close(small.map(4).to_dense(), found.map(4).to_dense().float())
    centred = truncation(w, Moments.from_rows(x), centred=True)
    narrow = centred.upto(5, torch.float32).map(4)
    torch.testing.assert_close(narrow(x), centred.map(4)(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rank": 0}, "expected 1 to 9"),
        ({"rank": 10}, "expected 1 to 9"),
        ({"metric": "cholesky"}, "expected one of full, diag, none"),
        ({"alpha": 2.0}, "alpha is 2.0"),
        ({"shrink": float("nan")}, "shrink is nan"),
        ({"inputs": None}, "needs moments of the inputs or of the outputs"),
        ({"inputs": None, "metric": "diag"}, "metric diag needs moments of the inputs"),
        ({"inputs": Moments.from_rows(torch.randn(20, 11))}, "width 11, expected 12"),
        ({"inputs": Moments.from_rows(torch.randn(20, 12), order="diagonal")}, "order='full'"),
        ({"inputs": Moments.empty(12)}, "no rows"),
        ({"weight": torch.full((9, 12), float("nan"))}, "weight holds NaN"),
        ({"weight": torch.ones(12)}, "expected floating point"),
        ({"output_metric": torch.zeros(9)}, "no output counts"),
        ({"output_metric": -torch.ones(9)}, "none below zero"),
        ({"output_metric": torch.ones(8)}, "expected finite numbers"),
    ],
)
def test_bad_input(given, said):
    options = {"weight": weight(), "inputs": Moments.from_rows(rows()), "rank": 4} | given
    with pytest.raises(GramianError, match=said):
        truncate(**options)


def test_moments_that_are_not_finite_are_refused():
    good = Moments.from_rows(rows())
    bad = Moments(good.count, good.count2, good.mean, good.scatter * float("inf"))
    with pytest.raises(GramianError, match="hold NaN or infinity"):
        truncate(weight(), bad, rank=3)


def test_a_map_of_a_centred_truncation_is_affine():
    map = truncate(weight(), Moments.from_rows(rows()), rank=3, centred=True)
    assert isinstance(map, Affine)
    assert map.map.rank == 3
