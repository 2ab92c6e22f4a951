"""The three filters against numerical optimisers, brute force and their limits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import JointMoments, Moments
from gramian.solvers import FILTERS, LAMBDAS, Spectrum, filter_factors, ridge

Rows = tuple[Tensor, Tensor]


def fold(n: int, seed: int, dx: int = 6, noise: float = 1.0) -> Rows:
    g = torch.Generator().manual_seed(seed)
    scale = torch.logspace(0, 1, dx, dtype=torch.float64)
    x = torch.randn(n, dx, generator=g, dtype=torch.float64) * scale + 3
    weight = torch.randn(4, dx, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    y = x @ weight.T + 2
    return x, y + noise * torch.randn(n, 4, generator=g, dtype=torch.float64)


def joints(*rows: Rows) -> list[JointMoments]:
    return [JointMoments.from_rows(x, y, target="diagonal") for x, y in rows]


TRAIN, SELECT, REPORT = fold(60, 0), fold(60, 1), fold(70, 2)


Matrix = NDArray[np.float64]


def singular_values(matrix: Matrix, change: Callable[[Matrix], Matrix]) -> Matrix:
    """The matrix with its singular values changed."""
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    product: Matrix = (left * change(values)) @ right
    return product


def least_variance(x: Matrix, proximal: Callable[[Matrix], Matrix]) -> Matrix:
    """min |L|^2 / 2 + h(L X - I) over all L, by ADMM, which knows no eigenvectors of X^T X."""
    eye = np.eye(x.shape[1])
    z, dual = np.zeros_like(eye), np.zeros_like(eye)
    solve = np.linalg.inv(np.eye(len(x)) + x @ x.T)
    for _ in range(3000):
        l: Matrix = (z + eye - dual) @ x.T @ solve
        z = proximal(l @ x - eye + dual)
        dual = dual + l @ x - eye - z
    return l


def estimator(x: Matrix, strength: float, filter: str) -> Matrix:
    spectrum = Spectrum.of(Moments.from_rows(torch.from_numpy(x)), intercept=False)
    factors = filter_factors(spectrum, strength, filter)
    return np.asarray((spectrum.vectors * factors @ spectrum.vectors.T).numpy() @ x.T)


DATA = np.random.default_rng(0).normal(size=(9, 4)) * np.array([3.0, 1.0, 0.6, 0.3])


def test_nuclear_is_what_an_optimiser_finds() -> None:
    """h = |L X - I|_* / strength: its proximal map lowers the singular values."""
    strength = 1.0

    def objective(l: Matrix) -> float:
        bias = float(np.linalg.norm(l @ DATA - np.eye(4), "nuc"))
        return 0.5 * float((l**2).sum()) + bias / strength

    found = least_variance(
        DATA, lambda m: singular_values(m, lambda v: np.maximum(v - 1 / strength, 0))
    )
    ours = estimator(DATA, strength, "nuclear")
    values = np.linalg.svd(DATA)[1] ** 2
    assert 0 < int((values > strength).sum()) < 4
    assert objective(ours) == pytest.approx(objective(found), rel=1e-7)
    np.testing.assert_allclose(ours, found, atol=1e-6)


def test_spectral_is_what_an_optimiser_finds() -> None:
    """|L X - I| <= C in spectral norm: the singular values are cut at C."""
    ours = estimator(DATA, 0.5, "spectral")
    bound = float(np.linalg.norm(ours @ DATA - np.eye(4), 2))
    found = least_variance(DATA, lambda m: singular_values(m, lambda v: np.minimum(v, bound)))
    np.testing.assert_allclose(ours, found, atol=1e-6)


def test_ridge_is_what_an_optimiser_finds() -> None:
    """|L X - I| <= C in Frobenius norm: the singular values are scaled down to C."""
    ours = estimator(DATA, 0.5, "ridge")
    bound = float(np.linalg.norm(ours @ DATA - np.eye(4)))

    def scaled(m: Matrix) -> Matrix:
        return m * min(1.0, bound / max(float(np.linalg.norm(m)), 1e-300))

    np.testing.assert_allclose(ours, least_variance(DATA, scaled), atol=1e-6)


@pytest.mark.parametrize("filter", FILTERS)
def test_no_strength_is_the_pseudo_inverse(filter: str) -> None:
    x = TRAIN[0]
    rows = torch.cat([x, x[:, :1], torch.ones(len(x), 1).double()], 1)
    spectrum = Spectrum.of(Moments.from_rows(rows), intercept=True)
    scatter = Moments.from_rows(rows).scatter
    for strength, tolerance in ((0.0, 1e-10), (1e-12, 1e-8)):
        factors = filter_factors(spectrum, strength, filter)
        seen = spectrum.values > spectrum.floor  # a limit is one on the range of the input
        basis = spectrum.vectors[:, seen]
        found = basis * factors[seen] @ basis.T
        torch.testing.assert_close(
            found, torch.linalg.pinv(scatter, hermitian=True), rtol=0, atol=tolerance
        )
    solution = ridge(*joints((rows, TRAIN[1])), lambdas=[0.0], filter=filter)
    want = np.linalg.lstsq(rows - rows.mean(0), TRAIN[1] - TRAIN[1].mean(0), rcond=1e-10)[0]
    np.testing.assert_allclose(solution.map.to_dense(), want.T, atol=1e-9)
    assert "the input is singular, rank 6 of 8" in solution.evidence.notes


@pytest.mark.parametrize("filter", ["spectral", "nuclear"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("prior", ["zero", "base"])
def test_equals_brute_force_on_the_rows(
    filter: str, intercept: bool, refit: bool, prior: str
) -> None:
    base = torch.zeros(4, 6).double() if prior == "zero" else torch.ones(4, 6).double()
    given = "zero" if prior == "zero" else base
    relative = 1.7
    solution = ridge(
        *joints(TRAIN, SELECT, REPORT),
        lambdas=[relative],
        filter=filter,
        intercept=intercept,
        refit=refit,
        prior=given,
    )

    def fitted(x: Tensor, y: Tensor, strength: float) -> tuple[Tensor, Tensor]:
        mx, my = (x.mean(0), y.mean(0)) if intercept else (torch.zeros(6), torch.zeros(4))
        left, values, right = torch.linalg.svd(x - mx, full_matrices=False)
        f = 1 / values.square()
        f = f / (1 + strength) if filter == "spectral" else f.clamp(max=1 / strength)
        target = (y - my) - (x - mx) @ base.T
        weight = base + (right.T * (f * values) @ left.T @ target).T
        return weight, my - weight @ mx.double()

    spectrum = Spectrum.of(joints(TRAIN)[0].x, intercept=intercept)
    strength = relative * (1.0 if filter == "spectral" else spectrum.median)
    evidence = solution.evidence
    weight, bias = fitted(*TRAIN, strength)
    for name, (x, y) in (("train", TRAIN), ("select", SELECT)):
        error = float((x @ weight.T + bias - y).square().sum()) / len(x)
        assert evidence.errors[name] == pytest.approx(error, rel=1e-9)
    if refit:
        rows = [torch.cat(pair) for pair in zip(TRAIN, SELECT, strict=True)]
        strength *= 2.0 if filter == "nuclear" else 1.0
        weight, bias = fitted(rows[0], rows[1], strength)
    torch.testing.assert_close(solution.map.to_dense(), weight, rtol=1e-9, atol=1e-9)
    error = float((REPORT[0] @ weight.T + bias - REPORT[1]).square().sum()) / 70
    assert evidence.errors["report"] == pytest.approx(error, rel=1e-9)
    assert evidence.regularization == pytest.approx(strength, rel=1e-12)
    assert evidence.relative_regularization == relative


@pytest.mark.parametrize("filter", ["spectral", "nuclear"])
def test_strength_is_the_best_of_the_grid_on_select(filter: str) -> None:
    folds = joints(fold(14, 3, noise=12.0), SELECT)
    errors = {
        relative: ridge(*folds, lambdas=[relative], filter=filter).evidence.errors["select"]
        for relative in LAMBDAS
    }
    chosen = ridge(*folds, filter=filter).evidence
    assert chosen.relative_regularization == min(errors, key=errors.__getitem__)
    assert chosen.notes[-1].startswith(f"{filter} filter: ")


def test_ridge_is_the_default_and_says_nothing_new() -> None:
    folds = joints(TRAIN, SELECT, REPORT)
    plain, named = ridge(*folds), ridge(*folds, filter="ridge")
    assert torch.equal(plain.map.to_dense(), named.map.to_dense())
    assert plain.evidence == named.evidence
    assert plain.evidence.notes == ()


def test_refusals() -> None:
    with pytest.raises(GramianError, match="filter is 'huber', expected one of 'ridge'"):
        ridge(*joints(TRAIN), filter="huber")
    spectrum = Spectrum.of(joints(TRAIN)[0].x)
    with pytest.raises(GramianError, match="strength is -1"):
        filter_factors(spectrum, -1.0, "nuclear")
