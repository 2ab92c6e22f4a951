"""Shape distances against rows, the axioms of a metric, and permutations."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from scipy.linalg import orthogonal_procrustes
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures import (
    bures_distance,
    cca,
    match_permutation,
    procrustes_distance,
    shape_distance,
    standardised,
)
from gramian.moments import Accumulator, JointMoments, Pair

ALPHAS = (0.0, 0.3, 1.0)
KINDS = ("euclidean", "angular")


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotation(d: int, seed: int = 9) -> Tensor:
    return torch.linalg.qr(normal(d, d, seed=seed))[0]


def whitened(rows: Tensor, alpha: float) -> Tensor:
    """Centred rows over sqrt(n) after partial whitening that keeps the total variance."""
    x = (rows - rows.mean(0)) / math.sqrt(len(rows))
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    # directions without variance stay without
    mixed = torch.where(s > 1e-10 * s[0], alpha * s + (1 - alpha), 0.0)
    return (u * mixed) @ vh * (s.norm() / mixed.norm())


def distance_of_rows(x: Tensor, y: Tensor, alpha: float, kind: str) -> float:
    """Turn the one onto the other and measure what is left."""
    width = max(x.shape[1], y.shape[1])
    a, b = (
        torch.nn.functional.pad(whitened(rows, alpha), (0, width - rows.shape[1]))
        for rows in (x, y)
    )
    turn = torch.from_numpy(orthogonal_procrustes(a.numpy(), b.numpy())[0])
    if kind == "euclidean":
        return float((a @ turn - b).norm())
    return math.acos(min(1.0, float((a @ turn * b).sum() / a.norm() / b.norm())))


X = normal(200, 8) * torch.linspace(0.1, 3, 8).double() + 5
Y = (X @ normal(8, 5, seed=1) / 3).tanh() + 0.4 * normal(200, 5, seed=2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [*ALPHAS, 0.9])
def test_against_rows_turned_onto_each_other(alpha: float, kind: str) -> None:
    low = normal(200, 3, seed=3) @ normal(3, 9, seed=4)
    ten = torch.cat([X, X[:, :2]], 1)
    for x, y in itertools.permutations((X, Y, low, ten), 2):
        got = shape_distance(JointMoments.from_rows(x, y), alpha, kind)
        want = distance_of_rows(x, y, alpha, kind)
        # a duplicate of another site has distance nearly zero when whitened
        assert got == pytest.approx(want, abs=1e-9 if want > 1e-3 else 1e-6)


def test_procrustes_is_the_residual_of_the_best_rotation() -> None:
    joint = JointMoments.from_rows(X, Y)
    assert procrustes_distance(joint) == pytest.approx(
        distance_of_rows(X, Y, 1.0, "euclidean"), rel=1e-10
    )
    assert procrustes_distance(joint) == shape_distance(joint)
    scaled = JointMoments.from_rows(3 * X, 3 * Y)
    assert procrustes_distance(scaled) == pytest.approx(3 * procrustes_distance(joint), rel=1e-10)
    diagonal = JointMoments.from_rows(X, Y, target="diagonal")
    assert procrustes_distance(diagonal) == pytest.approx(procrustes_distance(joint), rel=1e-12)


def test_whole_whitening_is_canonical_correlation() -> None:
    joint = JointMoments.from_rows(X, Y)
    shared = float(cca(joint).correlations.sum())
    want = math.acos(shared / math.sqrt(8 * 5))
    assert shape_distance(joint, 0.0, "angular") == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_near_zero(alpha: float) -> None:
    """Zero for a rotated, shifted and scaled copy, and the right size for one slightly off."""
    turned = X @ rotation(8)
    joint = JointMoments.from_rows(X, (1 if 0 < alpha < 1 else 3.3) * turned - 40)
    assert shape_distance(joint, alpha, "angular") < 1e-6
    scale = math.sqrt(JointMoments.from_rows(X, X).x.trace / 200)
    assert shape_distance(JointMoments.from_rows(X, turned + 7), alpha) < 1e-6 * scale
    for size in (1e-3, 1e-5):
        near = JointMoments.from_rows(X, turned + size * normal(200, 8, seed=5))
        got, want = (
            shape_distance(near, 1.0, "angular"),
            distance_of_rows(X, turned + size * normal(200, 8, seed=5), 1.0, "euclidean") / scale,
        )
        assert got == pytest.approx(want, rel=0.02)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_a_metric(alpha: float, kind: str) -> None:
    """Symmetric, and the triangle inequality on random triples of unequal widths."""
    for seed in range(12):
        common = normal(80, 6, seed=seed)
        sites = [
            common @ normal(6, width, seed=100 * seed + i)
            + 10.0 ** (i - 2) * normal(80, width, seed=100 * seed + 10 + i)
            for i, width in enumerate((4, 9, 6))
        ]
        between = {
            (i, j): shape_distance(JointMoments.from_rows(sites[i], sites[j]), alpha, kind)
            for i, j in itertools.permutations(range(3), 2)
        }
        for i, j, k in itertools.permutations(range(3)):
            assert between[i, j] == pytest.approx(between[j, i], abs=1e-9)
            assert between[i, k] <= between[i, j] + between[j, k] + 1e-9


def test_independent_rows_are_nearly_at_a_right_angle() -> None:
    joint = JointMoments.from_rows(normal(20000, 3), normal(20000, 3, seed=1))
    assert shape_distance(joint, kind="angular") == pytest.approx(math.pi / 2, abs=0.05)


def test_pairs_only_add_to_what_the_covariances_say() -> None:
    """Procrustes distance is at most that of unrelated rows and at least that of no pairing."""
    joint = JointMoments.from_rows(X[:, :5], Y)
    apart = math.hypot(math.sqrt(joint.x.trace / 200), math.sqrt(joint.y.trace / 200))
    assert procrustes_distance(joint) < apart
    a, b = joint.x.covariance(0), joint.y.covariance(0)
    q = rotation(5)
    least = min(bures_distance(a, t @ b @ t.T) for t in (torch.eye(5).double(), q))
    spectra = torch.linalg.eigvalsh(a).sqrt() - torch.linalg.eigvalsh(b).sqrt()
    assert float(spectra.norm()) <= least
    assert float(spectra.norm()) <= procrustes_distance(joint)


def test_full_whitening_needs_rows_and_partial_does_not() -> None:
    joint = JointMoments.from_rows(normal(40, 30), normal(40, 30, seed=1))
    with pytest.raises(GramianError, match="by counting alone"):
        shape_distance(joint, alpha=0.0)
    assert shape_distance(joint, alpha=0.5) > 0


def test_constant_sides() -> None:
    joint = JointMoments.from_rows(X, torch.full((200, 3), 0.1))
    for alpha in ALPHAS:
        assert math.isnan(shape_distance(joint, alpha, "angular"))
        assert math.isnan(shape_distance(joint.swap(), alpha, "angular"))
        want = math.sqrt(joint.x.trace / 200)
        assert shape_distance(joint, alpha) == pytest.approx(want, rel=1e-10)
        nothing = JointMoments.from_rows(torch.ones(9, 2), torch.zeros(9, 3))
        assert shape_distance(nothing, alpha) == 0


def test_refusals() -> None:
    joint = JointMoments.from_rows(X, Y, target="diagonal")
    with pytest.raises(GramianError, match="diagonal of y"):
        shape_distance(joint, 0.5)
    for alpha in (-0.1, 1.1):
        with pytest.raises(GramianError, match="alpha"):
            shape_distance(joint, alpha)
    with pytest.raises(GramianError, match="'euclidean' or 'angular'"):
        shape_distance(joint, kind="cosine")
    with pytest.raises(GramianError, match="2 rows"):
        procrustes_distance(JointMoments.from_rows(X[:1], Y[:1]))


def test_batches_of_bfloat16_are_the_whole() -> None:
    x, y = X.to(torch.bfloat16), Y.to(torch.bfloat16)
    streamed = Accumulator({"a": 8, "b": 5}, [Pair("a", "b")])
    for i in range(0, 200, 33):
        streamed.update({"a": x[i : i + 33], "b": y[i : i + 33]})
    joint, whole = streamed.joint(Pair("a", "b")), JointMoments.from_rows(x, y)
    for alpha in ALPHAS:
        got, want = (shape_distance(j, alpha) for j in (joint, whole))
        assert got == pytest.approx(want, rel=1e-5)


def test_a_hidden_permutation_is_found() -> None:
    order = torch.randperm(8, generator=torch.Generator().manual_seed(3))
    y = X[:, order] + 0.05 * normal(200, 8, seed=6)
    found = match_permutation(JointMoments.from_rows(X, y))
    assert torch.equal(found.index, order)
    assert torch.equal(found(X), X[:, order])
    # an affine change of every channel is undone by correlation
    changed = y * torch.logspace(3, -3, 8).double() + 100
    joint = standardised(JointMoments.from_rows(X, changed))
    assert torch.equal(match_permutation(joint).index, order)


def test_the_best_of_all_permutations() -> None:
    for seed in range(10):
        joint = JointMoments.from_rows(normal(9, 5, seed=seed), normal(9, 5, seed=50 + seed))
        every = (
            sum(float(joint.cross[j, i]) for i, j in enumerate(order))
            for order in itertools.permutations(range(5))
        )
        found = match_permutation(joint)
        got = float((found.to_dense(torch.float64) @ joint.cross).trace())
        assert got == pytest.approx(max(every), abs=1e-10)


def test_permutations_need_one_width() -> None:
    with pytest.raises(GramianError, match="one width"):
        match_permutation(JointMoments.from_rows(X, Y))
