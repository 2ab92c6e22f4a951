"""A layer over fewer features, refitted from moments."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, Ridge
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine
from gramian.moments import Moments
from gramian.solvers import reconstruct


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def mixed(n: int, d: int, seed: int = 0, shift: float = 0.5) -> Tensor:
    """Rows whose features tell of each other."""
    return normal(seed, n, d) @ normal(9, d, d) / d**0.5 + shift


KEPT = [1, 4, 5, 9, 11]


def share(weight: Tensor, bias: Tensor | None, map, kept, rows: Tensor) -> float:
    """Measured squared error over the squared length of the output."""
    old = rows @ weight.T + (0.0 if bias is None else bias)
    new = map(rows[:, kept])
    if bias is not None and not isinstance(map, Affine):
        new = new + bias
    return float((old - new).square().sum() / old.square().sum())


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("refit", [False, True])
def test_predicted_is_measured_on_every_fold(biased: bool, refit: bool) -> None:
    weight, bias = normal(1, 6, 12), normal(2, 6) if biased else None
    rows = {"train": mixed(200, 12, 3), "select": mixed(50, 12, 4), "report": mixed(70, 12, 5)}
    folds = {fold: Moments.from_rows(x) for fold, x in rows.items()}
    got = reconstruct(weight, KEPT, **folds, bias=bias, refit=refit, ridges=(0.0, 0.1, 1.0))
    measured = share(weight, bias, got.map, KEPT, rows["report"])
    assert got.errors["report"] == pytest.approx(measured, rel=1e-9)
    alone = reconstruct(
        weight, KEPT, folds["train"], bias=bias, refit=refit, ridges=(got.ridge or 0.0,)
    )
    for fold in ("train", "select"):
        measured = share(weight, bias, alone.map, KEPT, rows[fold])
        assert got.errors[fold] == pytest.approx(measured, rel=1e-9)
    assert isinstance(got.map, Affine) == (biased and refit)


def test_the_nystrom_formula() -> None:
    weight, rows = normal(1, 6, 12), mixed(100, 12)
    got = reconstruct(weight, KEPT, Moments.from_rows(rows), ridges=(0.0,))
    c = rows.T @ rows
    inner = c[:, KEPT] @ torch.linalg.inv(c[KEPT][:, KEPT])
    torch.testing.assert_close(got.map.to_dense(), weight @ inner, rtol=1e-9, atol=1e-9)
    loss = float((weight @ (c - inner @ c[KEPT]) @ weight.T).trace())
    assert got.errors["train"] == pytest.approx(loss / float((rows @ weight.T).square().sum()))


def test_equals_scikit_learn() -> None:
    """Least squares with an intercept; ridge on what deletion leaves to explain."""
    weight, bias, rows = normal(1, 4, 12), normal(2, 4), mixed(150, 12)
    target = rows @ weight.T + bias
    got = reconstruct(weight, KEPT, Moments.from_rows(rows), bias=bias, ridges=(0.0,))
    model = LinearRegression().fit(rows[:, KEPT].numpy(), target.numpy())
    np.testing.assert_allclose(got.map.to_dense(), model.coef_, atol=1e-9)
    np.testing.assert_allclose(got.map.bias, model.intercept_, atol=1e-9)
    got = reconstruct(weight, KEPT, Moments.from_rows(rows), ridges=(3.0,))
    scale = float(torch.linalg.eigvalsh(rows.T @ rows).quantile(0.5))
    left = rows @ weight.T - rows[:, KEPT] @ weight[:, KEPT].T
    theirs = Ridge(alpha=3.0 * scale, fit_intercept=False).fit(rows[:, KEPT].numpy(), left.numpy())
    expected = weight[:, KEPT].numpy() + theirs.coef_
    np.testing.assert_allclose(got.map.to_dense(), expected, atol=1e-8)


@pytest.mark.parametrize("ridge", [0.0, 1e-3, 1.0, 1e4])
@pytest.mark.parametrize("n", [5, 40, 400])
@pytest.mark.parametrize("biased", [False, True])
def test_never_worse_than_deletion_on_its_rows(ridge: float, n: int, biased: bool) -> None:
    weight, bias = normal(1, 6, 12), normal(2, 6) if biased else None
    train = Moments.from_rows(mixed(n, 12, 7))
    fitted = reconstruct(weight, KEPT, train, bias=bias, ridges=(ridge,))
    deleted = reconstruct(weight, KEPT, train, bias=bias, refit=False)
    assert fitted.errors["train"] <= deleted.errors["train"] * (1 + 1e-12)


@pytest.mark.parametrize("biased", [False, True])
def test_everything_kept_changes_nothing(biased: bool) -> None:
    weight, bias = normal(1, 6, 12), normal(2, 6) if biased else None
    few = Moments.from_rows(mixed(4, 12))  # fewer rows than features
    got = reconstruct(weight, range(12), few, few, few, bias=bias)
    torch.testing.assert_close(got.map.to_dense(), weight, rtol=0, atol=1e-13)
    assert max(got.errors.values()) < 1e-20
    if biased:
        torch.testing.assert_close(got.map.bias, bias, rtol=0, atol=1e-12)


def test_planted_features_go_without_loss() -> None:
    """Dead, doubled and, with a bias, constant ones."""
    rows = mixed(60, 12)
    rows[:, 0], rows[:, 2], rows[:, 3] = 0.0, 2.0 * rows[:, 5] - rows[:, 6], 7.0
    weight, bias = normal(1, 6, 12), normal(2, 6)
    kept = [1, 4, 5, 6, 7, 8, 9, 10, 11]
    with_bias = reconstruct(weight, kept, Moments.from_rows(rows), bias=bias, ridges=(0.0,))
    assert with_bias.errors["train"] < 1e-15  # rounding of the second moments
    without = reconstruct(weight, kept, Moments.from_rows(rows), ridges=(0.0,))
    assert without.errors["train"] > 1e-4  # nothing takes the constant
    without = reconstruct(weight, [3, *kept], Moments.from_rows(rows), ridges=(0.0,))
    assert without.errors["train"] < 1e-15


def test_one_long_row_does_not_set_the_ridge() -> None:
    rows = mixed(300, 12)
    rows[0] *= 1e4
    weight = normal(1, 6, 12)
    got = reconstruct(weight, KEPT, Moments.from_rows(rows), ridges=(1e-3,))
    best = reconstruct(weight, KEPT, Moments.from_rows(rows), ridges=(0.0,))
    rest = [share(weight, None, one.map, KEPT, rows[1:]) for one in (got, best)]
    assert rest[0] == pytest.approx(rest[1], rel=1e-2)
    assert share(weight, None, got.map, KEPT, rows[:1]) < 2e-3


def test_the_ridge_is_chosen_on_select() -> None:
    weight = normal(1, 6, 12)
    held = mixed(500, 12, 2)
    train, select = Moments.from_rows(mixed(7, 12, 1)), Moments.from_rows(held)
    grid = (1e-6, 1e-2, 1.0)
    maps = [reconstruct(weight, KEPT, train, ridges=(ridge,)).map for ridge in grid]
    alone = [share(weight, None, map, KEPT, held) for map in maps]
    got = reconstruct(weight, KEPT, train, select, ridges=grid)
    assert got.ridge == grid[int(np.argmin(alone))]
    assert got.errors["select"] == pytest.approx(min(alone), rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_weights_of_any_dtype(dtype: torch.dtype) -> None:
    weight = normal(1, 6, 12).to(dtype)
    got = reconstruct(weight, KEPT, Moments.from_rows(mixed(80, 12)))
    exact = reconstruct(weight.double(), KEPT, Moments.from_rows(mixed(80, 12)))
    assert got.map.dtype == torch.float64
    torch.testing.assert_close(got.map.to_dense(), exact.map.to_dense())


def test_zero_output_has_no_relative_error() -> None:
    got = reconstruct(torch.zeros(3, 12), KEPT, Moments.from_rows(mixed(80, 12)))
    assert np.isnan(got.errors["train"])
    assert got.map.to_dense().abs().max() == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kept": [0, 0]}, "each once"),
        ({"kept": [12]}, "indices from 0 to 11"),
        ({"kept": []}, "at least one"),
        ({"weight": torch.ones(3, 5)}, r"expected \(out, 12\)"),
        ({"weight": torch.full((3, 12), float("nan"))}, "weight of the layer holds NaN"),
        ({"bias": torch.ones(2)}, r"bias of shape \(2,\), expected \(3,\)"),
        ({"train": Moments.empty(12)}, "no rows"),
        ({"train": Moments.from_rows(torch.ones(4, 12), order="diagonal")}, "order='full'"),
        ({"ridges": ()}, "expected finite numbers"),
        ({"ridges": (-1.0,)}, "at least 0"),
    ],
)
def test_refusals(change, message: str) -> None:
    given = {"weight": torch.ones(3, 12), "kept": KEPT, "train": Moments.from_rows(mixed(20, 12))}
    with pytest.raises(GramianError, match=message):
        reconstruct(**{**given, **change})
